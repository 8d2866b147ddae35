#include "torch_context.h"

#include <cstring>
#include <mutex>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

namespace ebb::tool {

void set_thread_count(int count) { at::set_num_threads(count); }

void use_deterministic_algorithms(bool only_warns) {
  at::globalContext().setDeterministicAlgorithms(/*b=*/true, only_warns);
}

namespace {

at::Generator generator_of(const std::string& device) {
  return at::globalContext().defaultGenerator(c10::Device(device));
}

}  // namespace

void allow_tf32(bool in_products, bool in_convolutions) {
  at::globalContext().setAllowTF32CuBLAS(in_products);
  at::globalContext().setAllowTF32CuDNN(in_convolutions);
}

void seed_generator(const std::string& device, std::uint64_t seed) {
  at::Generator generator = generator_of(device);
  const std::scoped_lock lock(generator.mutex());
  generator.set_current_seed(seed);
}

std::vector<std::byte> generator_state(const std::string& device) {
  at::Generator generator = generator_of(device);
  const std::scoped_lock lock(generator.mutex());
  const at::Tensor state = generator.get_state();
  std::vector<std::byte> bytes(state.nbytes());
  std::memcpy(bytes.data(), state.const_data_ptr(), bytes.size());
  return bytes;
}

Status set_generator_state(const std::string& device, std::span<const std::byte> state) {
  at::Generator generator = generator_of(device);
  const std::scoped_lock lock(generator.mutex());
  const at::Tensor tensor = at::empty({static_cast<std::int64_t>(state.size())}, at::kByte);
  std::memcpy(tensor.mutable_data_ptr(), state.data(), state.size());
  try {
    generator.set_state(tensor);
  } catch (const c10::Error& error) {
    return fail(ErrorKind::kBadInput,
                fmt::format("no state of PyTorch's random number generator: {}",
                            error.what_without_backtrace()));
  }
  return {};
}

}  // namespace ebb::tool
