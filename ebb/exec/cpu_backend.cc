#include <cstring>
#include <fstream>
#include <thread>

#include <fmt/format.h>

#include "ebb/exec/backend.h"
#include "ebb/exec/host_memory.h"

namespace ebb::exec {
namespace {

std::string model_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(ThreadLanesOptions options) : options_(options), lanes_(std::move(options)) {}

  [[nodiscard]] Bytes alignment() const override { return Bytes{64}; }
  Result<Arena> make_arena(Bytes size) override { return Arena::make(size); }
  Result<Arena> make_host_slab(Bytes size, const TellPieces& /*tell*/) override {
    return Arena::make(size);
  }
  Lanes& lanes() override { return lanes_; }

  Status copy(std::byte* to, const std::byte* from, std::size_t size) override {
    std::memcpy(to, from, size);
    return {};
  }

  Result<Bytes> free_memory() override { return available_host_memory(); }

  Result<Device> describe(const std::optional<Link>& /*known*/) override {
    auto device = find_device("cpu");
    if (!device) return device;
    if (options_.to_host > Bandwidth{}) {
      device->link.to_host = device->link.to_host_both = options_.to_host;
    }
    if (options_.to_device > Bandwidth{}) {
      device->link.to_device = device->link.to_device_both = options_.to_device;
    }
    return device;
  }

  [[nodiscard]] std::string hardware() const override {
    return fmt::format("{}, {} at once", model_name(), std::thread::hardware_concurrency());
  }

 private:
  ThreadLanesOptions options_;
  ThreadLanes lanes_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(ThreadLanesOptions options) {
  return std::make_unique<CpuBackend>(std::move(options));
}

}  // namespace ebb::exec
