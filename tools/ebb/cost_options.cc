#include "cost_options.h"

#include <utility>

#include <fmt/format.h>

#include "ebb/base/file.h"
#include "input.h"

namespace ebb::tool {

void CostOptions::add_options(CLI::App& command) {
  constexpr const char* kGroup = "Times";
  command
      .add_option("--model", model_,
                  fmt::format("The device: {}, or a device file (docs/planning.md)",
                              fmt::join(device_names(), ", ")))
      ->type_name("NAME|FILE.json")
      ->capture_default_str()
      ->group(kGroup);
  command
      .add_option("--profile", profile_,
                  "What operations took when they were measured; else what the text says, else\n"
                  "by the device's numbers")
      ->type_name("FILE")
      ->group(kGroup);
}

Result<CostModel> CostOptions::read(const std::string& input) const {
  if (input == "-" && profile_ == "-") {
    return fail(ErrorKind::kUsage, "standard input can be the graph or the profile, not both");
  }
  auto device = find_device(model_);
  if (!device) return fail(device.error());
  CostModel costs{.device = *std::move(device), .measured = {}};
  if (profile_.empty()) return costs;
  const auto text = read_file(profile_);
  if (!text) return fail(text.error());
  auto profile = parse_profile(*text);
  if (!profile) return fail(in_file(profile.error(), profile_));
  costs.measured = *std::move(profile);
  return costs;
}

std::string unknown_operators_note(const Graph& graph, const StepCosts& costs) {
  if (costs.unknown == 0) return {};
  return fmt::format(
      "Note: {} operation{} taken to read and write {} tensors once, as the model knows no more: "
      "{}\n",
      costs.unknown, costs.unknown == 1 ? " is" : "s are", costs.unknown == 1 ? "its" : "their",
      unknown_operators(graph, costs));
}

}  // namespace ebb::tool
