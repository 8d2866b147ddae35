#include "cost_options.h"

#include <utility>

#include <fmt/format.h>

#include "input.h"

namespace ebb::tool {

void CostOptions::add_options(CLI::App& command) {
  command
      .add_option("--model", model_,
                  fmt::format("The device: {}, or a device file (docs/planning.md)",
                              fmt::join(device_names(), ", ")))
      ->type_name("NAME|FILE.json")
      ->capture_default_str()
      ->group(kTimesGroup);
  command
      .add_option("--profile", profile_,
                  "What operations took when they were measured; else what the text says, else\n"
                  "by the device's numbers")
      ->type_name("FILE")
      ->group(kTimesGroup);
}

Result<CostModel> CostOptions::read(const std::string& input) const {
  if (input == "-" && profile_ == "-") {
    return fail(ErrorKind::kUsage, "standard input can be the graph or the profile, not both");
  }
  auto device = find_device(model_);
  if (!device) return fail(device.error());
  CostModel costs{.device = *std::move(device), .measured = {}};
  if (profile_.empty()) return costs;
  auto profile = read_profile(profile_);
  if (!profile) return fail(profile.error());
  costs.measured = *std::move(profile);
  return costs;
}

Status CostOptions::check_output(const std::string& path) const {
  if (Status ok = check_is_no_state(path); !ok) return ok;
  for (const std::string& read : {model_, profile_}) {
    if (!is_same_file(path, read)) continue;
    return fail(
        ErrorKind::kUsage,
        fmt::format("'{}' would be overwritten, which is read as well; name another file", path));
  }
  return {};
}

std::string coverage_note(const Graph& graph, const CostModel& model, const StepCosts& costs) {
  std::string out;
  if (const Profile* profile = model.profile()) {
    const ProfileMatch found = match(graph, *profile);
    if (found.covered < found.operations) {
      out += fmt::format("Note: the profile has {} of {} operations; the others are {}\n",
                         found.covered, found.operations, "as the text or the model says");
    }
    if (profile->device() != model.device.name) {
      out += fmt::format("Note: the profile was measured on '{}', and the device is '{}'\n",
                         profile->device(), model.device.name);
    }
  }
  std::size_t modelled = 0;
  for (const NodeId node : graph.order()) {
    const CostSource source = costs.source[node.index()];
    if (source == CostSource::kModel || source == CostSource::kUnknownOperation) ++modelled;
  }
  if (modelled > 0) {
    out += fmt::format(
        "Note: the times of {} operation{} are the model's, which knows no workspaces: what runs "
        "may "
        "need more\n",
        modelled, modelled == 1 ? "" : "s");
  }
  return out;
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
