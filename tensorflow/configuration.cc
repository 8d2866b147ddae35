#include "configuration.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <span>
#include <variant>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ebb/base/nearest.h"
#include "ebb/import/tensorflow_device.h"
#include "ebb/plan/budget.h"
#include "ebb/plan/device.h"
#include "ebb/rewrite/lms_names.h"

namespace ebb::grappler {
namespace {

using Json = nlohmann::ordered_json;
using Texts = std::vector<std::string>;

// The member that a parameter sets says of what kind it is.
using Member =
    std::variant<Texts LmsOptions::*, std::string LmsOptions::*, std::int64_t LmsOptions::*,
                 bool LmsOptions::*, Bytes LmsOptions::*, std::string TensorFlowDevices::*,
                 SwapNodes Configuration::*, std::string BudgetParameters::*,
                 std::int64_t BudgetParameters::*, bool BudgetParameters::*>;
struct Parameter {
  std::string_view name;
  Member member;
};

constexpr std::array kParameters = {
    Parameter{"optimizer_scopes", &LmsOptions::optimizer_scopes},
    Parameter{"starting_scope", &LmsOptions::starting_scope},
    Parameter{"starting_op_names", &LmsOptions::starting_op_names},
    Parameter{"excl_scopes", &LmsOptions::excl_scopes},
    Parameter{"incl_scopes", &LmsOptions::incl_scopes},
    Parameter{"excl_types", &LmsOptions::excl_types},
    Parameter{"incl_types", &LmsOptions::incl_types},
    Parameter{"n_tensors", &LmsOptions::n_tensors},
    Parameter{"lb", &LmsOptions::lb},
    Parameter{"ub", &LmsOptions::ub},
    Parameter{"ctrld_strategy", &LmsOptions::ctrld_strategy},
    Parameter{"fuse_swapins", &LmsOptions::fuse_swapins},
    Parameter{"swap_branches", &LmsOptions::swap_branches},
    Parameter{"branch_threshold", &LmsOptions::branch_threshold},
    Parameter{"fuse_distance", &LmsOptions::fuse_distance},
    Parameter{"whole_graph", &LmsOptions::whole_graph},
    Parameter{"alpha", &LmsOptions::alpha},
    Parameter{"min_bytes", &LmsOptions::min_bytes},
    Parameter{"sync", &LmsOptions::sync},
    Parameter{"recompute_types", &LmsOptions::recompute_types},
    Parameter{"accelerator", &TensorFlowDevices::accelerator},
    Parameter{"host", &TensorFlowDevices::host},
    Parameter{"swap_nodes", &Configuration::swap_nodes},
    Parameter{"budget", &BudgetParameters::budget},
    Parameter{"batch_size", &BudgetParameters::batch_size},
    Parameter{"device", &BudgetParameters::device},
    Parameter{"profile", &BudgetParameters::profile},
    Parameter{"host_budget", &BudgetParameters::host_budget},
    Parameter{"strict", &BudgetParameters::strict},
};

constexpr std::string_view kPrefix = "EBB_";
constexpr std::array kSwapNodes = {
    std::pair<std::string_view, SwapNodes>{"identity", SwapNodes::kIdentity},
    std::pair<std::string_view, SwapNodes>{"copy_kernels", SwapNodes::kCopyKernels},
};

tl::unexpected<Error> wrong(std::string message) {
  return fail(ErrorKind::kUsage, std::move(message));
}

const Parameter* find_parameter(std::string_view name) {
  const auto found =
      std::find_if(kParameters.begin(), kParameters.end(),
                   [&](const Parameter& parameter) { return parameter.name == name; });
  return found == kParameters.end() ? nullptr : &*found;
}

// From a JSON value, which must be of the parameter's kind.
struct Setter {
  Configuration& configuration;
  std::string_view name;
  const Json& value;

  [[nodiscard]] tl::unexpected<Error> not_a(std::string_view kind) const {
    return wrong(fmt::format("{} is {}; it must be {}", name, printable(value.dump()), kind));
  }
  Status operator()(Texts LmsOptions::* member) const {
    constexpr std::string_view kKind = "a list of texts, as [\"Relu\", \"MaxPool\"]";
    if (!value.is_array()) return not_a(kKind);
    Texts texts;
    for (const Json& item : value) {
      if (!item.is_string()) return not_a(kKind);
      texts.push_back(item.get<std::string>());
    }
    configuration.lms.*member = std::move(texts);
    return {};
  }
  Status operator()(std::string LmsOptions::* member) const {
    if (!value.is_string()) return not_a("a text");
    configuration.lms.*member = value.get<std::string>();
    return {};
  }
  Status operator()(std::int64_t LmsOptions::* member) const {
    const bool fits = value.is_number_integer() &&
                      (!value.is_number_unsigned() || value.get<std::uint64_t>() <= INT64_MAX);
    if (!fits) return not_a("a whole number");
    configuration.lms.*member = value.get<std::int64_t>();
    return {};
  }
  Status operator()(bool LmsOptions::* member) const {
    if (!value.is_boolean()) return not_a("true or false");
    configuration.lms.*member = value.get<bool>();
    return {};
  }
  Status operator()(Bytes LmsOptions::* member) const {
    if (value.is_number_unsigned() && value.get<std::uint64_t>() <= INT64_MAX) {
      configuration.lms.*member = Bytes{value.get<std::int64_t>()};
      return {};
    }
    if (!value.is_string()) return not_a("a size, as \"4MiB\" or a number of bytes");
    const Result<Bytes> parsed = parse_bytes(value.get<std::string>());
    if (!parsed) return wrong(fmt::format("{}: {}", name, parsed.error().message));
    configuration.lms.*member = *parsed;
    return {};
  }
  Status operator()(std::string TensorFlowDevices::* member) const {
    if (!value.is_string()) return not_a("a device, as \"/device:GPU:0\"");
    const auto text = value.get<std::string>();
    const Status status = member == &TensorFlowDevices::host ? check_host_device(text, name)
                                                             : check_device_pattern(text, name);
    if (!status) return fail(status.error());
    configuration.devices.*member = value.get<std::string>();
    return {};
  }
  Status operator()(SwapNodes Configuration::* member) const {
    for (const auto& [known, swap_nodes] : kSwapNodes) {
      if (value != known) continue;
      configuration.*member = swap_nodes;
      return {};
    }
    return not_a("\"identity\" or \"copy_kernels\"");
  }
  Status operator()(std::string BudgetParameters::* member) const {
    // A budget in bytes may be a number.
    const bool is_size =
        member == &BudgetParameters::budget || member == &BudgetParameters::host_budget;
    if (is_size && value.is_number_unsigned()) {
      configuration.budget.*member = fmt::format("{}B", value.get<std::uint64_t>());
      return {};
    }
    if (!value.is_string()) return not_a(is_size ? "a size, as \"14GiB\"" : "a text");
    configuration.budget.*member = value.get<std::string>();
    return {};
  }
  Status operator()(std::int64_t BudgetParameters::* member) const {
    constexpr std::int64_t kMost = std::int64_t{1} << 32;
    const bool fits = value.is_number_unsigned() && value.get<std::uint64_t>() <= kMost;
    if (!fits) return not_a("a number of samples");
    configuration.budget.*member = value.get<std::int64_t>();
    return {};
  }
  Status operator()(bool BudgetParameters::* member) const {
    if (!value.is_boolean()) return not_a("true or false");
    configuration.budget.*member = value.get<bool>();
    return {};
  }
};

struct Getter {
  const Configuration& configuration;

  template <class T>
  Json operator()(T LmsOptions::* member) const {
    if constexpr (std::is_same_v<T, Bytes>) {
      return (configuration.lms.*member).count;
    } else {
      return configuration.lms.*member;
    }
  }
  Json operator()(std::string TensorFlowDevices::* member) const {
    return configuration.devices.*member;
  }
  Json operator()(SwapNodes Configuration::* member) const {
    const auto found = std::find_if(kSwapNodes.begin(), kSwapNodes.end(), [&](const auto& known) {
      return known.second == configuration.*member;
    });
    return found->first;
  }
  template <class T>
  Json operator()(T BudgetParameters::* member) const {
    return configuration.budget.*member;
  }
};

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::optional<bool> as_switch(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const std::string_view on : {"1", "true", "yes", "on"}) {
    if (lower == on) return true;
  }
  for (const std::string_view off : {"0", "false", "no", "off"}) {
    if (lower == off) return false;
  }
  return std::nullopt;
}

// The text of an environment variable as the JSON value it means. What does not read as the kind
// that is wanted stays a text, which the setter refuses.
struct FromText {
  std::string_view text;

  Json operator()(Texts LmsOptions::*) const {
    Json list = Json::array();
    for (std::string_view rest = text; !rest.empty();) {
      const std::size_t comma = rest.find(',');
      const std::string_view item = trimmed(rest.substr(0, comma));
      if (!item.empty()) list.push_back(item);
      rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
    }
    return list;
  }
  Json operator()(std::int64_t LmsOptions::*) const { return number(); }
  Json operator()(std::int64_t BudgetParameters::*) const { return number(); }
  Json operator()(Bytes LmsOptions::*) const { return number(); }
  Json operator()(bool LmsOptions::*) const { return yes_or_no(); }
  Json operator()(bool BudgetParameters::*) const { return yes_or_no(); }
  template <class Owner, class T>
  Json operator()(T Owner::*) const {
    return text;
  }

 private:
  [[nodiscard]] Json yes_or_no() const {
    const std::optional<bool> value = as_switch(text);
    return value ? Json(*value) : Json(text);
  }
  [[nodiscard]] Json number() const {
    std::int64_t value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc() || end != text.data() + text.size()) return text;
    return value < 0 ? Json(value) : Json(static_cast<std::uint64_t>(value));
  }
};

// A budget, and nothing that goes with one alone.
Status check_budget(const Configuration& configuration) {
  const BudgetParameters& given = configuration.budget;
  if (given.budget.empty()) {
    const BudgetParameters none;
    for (const auto& [name, is_given] :
         {std::pair{"batch_size", given.batch_size != none.batch_size},
          std::pair{"device", given.device != none.device},
          std::pair{"profile", given.profile != none.profile},
          std::pair{"host_budget", given.host_budget != none.host_budget},
          std::pair{"strict", given.strict != none.strict}}) {
      if (is_given) return wrong(fmt::format("{} goes with a budget, and none is given", name));
    }
    return {};
  }
  if (const auto budget = parse_budget(given.budget, Bytes{std::int64_t{1} << 40}); !budget) {
    return wrong("budget: " + budget.error().message);
  }
  if (!given.host_budget.empty()) {
    if (const auto host = parse_bytes(given.host_budget); !host) {
      return wrong("host_budget: " + host.error().message);
    }
  }
  if (const auto device = find_device(given.device); !device) {
    return wrong("device: " + device.error().message);
  }
  if (!given.profile.empty()) {
    if (const auto profile = read_profile(given.profile); !profile) {
      return wrong("profile: " + profile.error().message);
    }
  }
  Configuration paper;
  paper.devices = configuration.devices;
  paper.swap_nodes = configuration.swap_nodes;
  paper.budget = configuration.budget;
  for (const Parameter& parameter : kParameters) {
    if (std::visit(Getter{configuration}, parameter.member) ==
        std::visit(Getter{paper}, parameter.member)) {
      continue;
    }
    return wrong(fmt::format("{} and budget exclude each other: with a budget, Ebb chooses",
                             parameter.name));
  }
  return {};
}

// What is wrong whatever the graph is: numbers out of range, unknown strategies.
Status check_values(const Configuration& configuration) {
  if (auto ok = check_budget(configuration); !ok) return ok;
  LmsOptions nameless = configuration.lms;
  nameless.optimizer_scopes.clear();
  nameless.excl_scopes.clear();
  nameless.incl_scopes.clear();
  nameless.excl_types.clear();
  nameless.incl_types.clear();
  nameless.recompute_types.clear();
  nameless.starting_op_names.clear();
  nameless.starting_scope.clear();
  const auto& [accelerator, host] = configuration.devices;
  if (auto ok = check_are_apart(accelerator, host); !ok) return ok;
  return check_lms_options(Graph(), nameless);
}

Status set(Configuration& configuration, const Parameter& parameter, std::string_view shown_name,
           const Json& value) {
  return std::visit(Setter{configuration, shown_name, value}, parameter.member);
}

std::string upper(std::string_view name) {
  std::string out(name);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return out;
}

tl::unexpected<Error> unknown_variable(std::string_view name) {
  std::vector<std::string> known = {"EBB_ENABLE"};
  for (const Parameter& parameter : kParameters) {
    known.push_back(std::string(kPrefix) + upper(parameter.name));
  }
  NearestWord nearest(name);
  for (const std::string& candidate : known) nearest.offer(candidate);
  return wrong(
      fmt::format("{} in the environment is no parameter{}", printable(name), nearest.hint()));
}

}  // namespace

Result<Configuration> parse_configuration(std::string_view json) {
  const Json object = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return wrong("a configuration is a JSON object");
  Configuration configuration;
  for (const auto& [name, value] : object.items()) {
    const Parameter* parameter = find_parameter(name);
    if (parameter == nullptr) {
      NearestWord nearest(name);
      for (const Parameter& known : kParameters) nearest.offer(known.name);
      return wrong(fmt::format("there is no parameter '{}'{}", printable(name), nearest.hint()));
    }
    if (auto status = set(configuration, *parameter, name, value); !status) {
      return fail(status.error());
    }
  }
  if (auto status = check_values(configuration); !status) return fail(status.error());
  return configuration;
}

std::string to_json(const Configuration& configuration) {
  Json object = Json::object();
  for (const Parameter& parameter : kParameters) {
    object[std::string(parameter.name)] = std::visit(Getter{configuration}, parameter.member);
  }
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<std::optional<Configuration>> configuration_of_environment(const char* const* environment) {
  Configuration configuration;
  bool is_set = false;
  std::optional<bool> enabled;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const std::size_t equals = entry.find('=');
    if (!entry.starts_with(kPrefix) || equals == std::string_view::npos) continue;
    const std::string_view name = entry.substr(0, equals);
    const std::string_view text = trimmed(entry.substr(equals + 1));
    if (name == "EBB_ENABLE") {
      enabled = as_switch(text);
      if (!enabled) {
        return wrong(fmt::format("EBB_ENABLE is '{}'; it must be 1 or 0", printable(text)));
      }
      continue;
    }
    if (name == "EBB_CACHE") continue;  // a folder of ebb.torch
    const auto found =
        std::find_if(kParameters.begin(), kParameters.end(), [&](const Parameter& parameter) {
          return name.substr(kPrefix.size()) == upper(parameter.name);
        });
    if (found == kParameters.end()) return unknown_variable(name);
    const Json value = std::visit(FromText{text}, found->member);
    if (auto status = set(configuration, *found, name, value); !status) {
      return fail(status.error());
    }
    is_set = true;
  }
  if (!enabled.value_or(is_set)) return std::nullopt;
  if (auto status = check_values(configuration); !status) return fail(status.error());
  return configuration;
}

}  // namespace ebb::grappler
