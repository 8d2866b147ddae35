// What may be wrong with the options of the driver.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>

#include "ebb/base/nearest.h"
#include "ebb/rewrite/codec.h"
#include "ebb/rewrite/lms_names.h"

namespace ebb {
namespace {

// Walks start at these, and swapped tensors are made by these.
bool counts_as_operation(const Graph& graph, NodeId node) {
  return graph.is_op(node) || graph.kind(node) == NodeKind::kInput;
}

// Calls visit(run) for every `length` components in a row of the path.
template <class Visit>
void for_each_run(std::string_view path, std::size_t length, Visit&& visit) {
  for (std::size_t begin = 0; begin != std::string_view::npos;) {
    std::size_t end = path.find('/', begin);
    for (std::size_t i = 1; i < length; ++i) {
      if (end == std::string_view::npos) return;
      end = path.find('/', end + 1);
    }
    visit(path.substr(begin, end == std::string_view::npos ? end : end - begin));
    const std::size_t slash = path.find('/', begin);
    begin = slash == std::string_view::npos ? slash : slash + 1;
  }
}

// "most operations are under 'gradients' (120), 'layer1' (60), 'layer2' (60)".
std::string what_scopes_there_are(const Graph& graph) {
  constexpr std::size_t kShown = 5;
  std::map<std::string_view, std::size_t> counts;
  for (const NodeId node : graph.order()) {
    if (!graph.is_op(node)) continue;
    const std::string_view name = graph.name(node);
    const std::size_t last = name.rfind('/');
    if (last == std::string_view::npos) continue;
    for_each_run(name.substr(0, last), 1, [&](std::string_view component) { ++counts[component]; });
  }
  if (counts.empty()) return "no operation of the graph has a scope: no name has a '/'";
  std::vector<std::pair<std::string_view, std::size_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string out = "most operations are under";
  for (std::size_t i = 0; i < sorted.size() && i < kShown; ++i) {
    out += fmt::format("{} '{}' ({})", i == 0 ? "" : ",", printable(sorted[i].first),
                       sorted[i].second);
  }
  return out;
}

Status check_scope(const Graph& graph, std::string_view option, std::string_view scope) {
  if (scope.find_first_not_of('/') == std::string_view::npos) {
    return fail(ErrorKind::kUsage,
                fmt::format("{} has an empty scope; {}", option, what_scopes_there_are(graph)));
  }
  for (const NodeId node : graph.order()) {
    if (counts_as_operation(graph, node) && in_scope(graph.name(node), scope)) return {};
  }
  NearestWord nearest(scope);
  const auto length = static_cast<std::size_t>(1 + std::count(scope.begin(), scope.end(), '/'));
  for (const NodeId node : graph.order()) {
    if (!counts_as_operation(graph, node)) continue;
    for_each_run(graph.name(node), length, [&](std::string_view run) { nearest.offer(run); });
  }
  const std::string hint = nearest.hint();
  return fail(ErrorKind::kUsage,
              fmt::format("{}: no operation is under '{}'{}{} {}", option, printable(scope), hint,
                          hint.empty() ? ";" : "", what_scopes_there_are(graph)));
}

Status check_type(const Graph& graph, std::string_view option, std::string_view type) {
  std::set<std::string_view> ops;
  for (const NodeId node : graph.order()) {
    if (!graph.is_op(node)) continue;
    if (is_of_type(graph.op(node), type)) return {};
    ops.insert(graph.op(node));
  }
  NearestWord nearest(type);
  for (const std::string_view op : ops) {
    nearest.offer(op);
    const std::size_t colons = op.find("::");
    if (colons != std::string_view::npos) nearest.offer(op.substr(colons + 2));
  }
  return fail(ErrorKind::kUsage, fmt::format("{}: no operation is of type '{}'{}", option,
                                             printable(type), nearest.hint()));
}

Status check_starting_op(const Graph& graph, std::string_view name) {
  const NodeId found = graph.find_node(name);
  if (found.valid() && counts_as_operation(graph, found)) return {};
  if (found.valid()) {
    return fail(ErrorKind::kUsage,
                fmt::format("starting_op_names: '{}' is no operation and no input; name one that "
                            "reads it",
                            printable(name)));
  }
  NearestWord nearest(name);
  for (const NodeId node : graph.order()) {
    if (counts_as_operation(graph, node)) nearest.offer(graph.name(node));
  }
  return fail(ErrorKind::kUsage, fmt::format("starting_op_names: the graph has no operation '{}'{}",
                                             printable(name), nearest.hint()));
}

Status check_numbers(const LmsOptions& options) {
  struct Number {
    std::string_view name;
    std::int64_t value;
    std::int64_t least;
    std::string_view meaning;
  };
  const std::array numbers = {
      Number{"n_tensors", options.n_tensors, -1, "-1 swaps all tensors, 0 none"},
      Number{"lb", options.lb, 1, "a trigger stands at least one level away"},
      Number{"branch_threshold", options.branch_threshold, 0, "it is a number of levels"},
      Number{"fuse_distance", options.fuse_distance, 0, "it is a number of levels"},
      Number{"alpha", options.alpha, 0, "it is a number of levels"},
      Number{"min_bytes", options.min_bytes.count, 0, "it is a size"},
      Number{"sync", options.sync, 0, "it is a number of operations, or 0 for off"},
  };
  for (const Number& number : numbers) {
    if (number.value >= number.least) continue;
    return fail(ErrorKind::kUsage, fmt::format("{} is {}; it must be at least {}: {}", number.name,
                                               number.value, number.least, number.meaning));
  }
  if (options.lb > options.ub) {
    return fail(ErrorKind::kUsage,
                fmt::format("lb is {} and ub is {}; lb may not be larger: triggers are looked for "
                            "from lb to ub",
                            options.lb, options.ub));
  }
  return {};
}

Status check_strategy(std::string_view strategy) {
  NearestWord nearest(strategy);
  for (const std::string_view known : {"chain_rule", "direct_order"}) {
    if (strategy == known) return {};
    nearest.offer(known);
  }
  return fail(ErrorKind::kUsage,
              fmt::format("ctrld_strategy is '{}'; it must be chain_rule or direct_order{}",
                          printable(strategy), nearest.hint()));
}

Status check_codec(const std::string& codec) {
  if (codec.empty() || find_codec(codec) != nullptr) return {};
  NearestWord nearest(codec);
  std::string all;
  for (const Codec& known : codecs()) {
    nearest.offer(known.name);
    all += fmt::format("{}{}", all.empty() ? "" : ", ", known.name);
  }
  return fail(ErrorKind::kUsage, fmt::format("codec: there is no '{}', but {}{}", printable(codec),
                                             all, nearest.hint()));
}

enum class IfAllAreAbsent : std::uint8_t { kDrop, kKeep };

template <class Check>
void drop_absent(std::vector<std::string>& names, IfAllAreAbsent then, const Check& check,
                 std::vector<std::string>& messages) {
  std::vector<std::string> present;
  std::vector<std::string> said;
  for (const std::string& name : names) {
    if (const Status status = check(name); status) {
      present.push_back(name);
    } else {
      said.push_back(status.error().message);
    }
  }
  if (present.empty() && then == IfAllAreAbsent::kKeep) return;
  names = std::move(present);
  messages.insert(messages.end(), said.begin(), said.end());
}

}  // namespace

std::vector<std::string> drop_absent_names(const Graph& graph, LmsOptions& options) {
  std::vector<std::string> messages;
  const auto drop_scopes = [&](std::string_view option, std::vector<std::string>& scopes,
                               IfAllAreAbsent then) {
    drop_absent(
        scopes, then, [&](const std::string& scope) { return check_scope(graph, option, scope); },
        messages);
  };
  const auto drop_types = [&](std::string_view option, std::vector<std::string>& types,
                              IfAllAreAbsent then) {
    drop_absent(
        types, then, [&](const std::string& type) { return check_type(graph, option, type); },
        messages);
  };
  drop_scopes("optimizer_scopes", options.optimizer_scopes, IfAllAreAbsent::kKeep);
  drop_scopes("excl_scopes", options.excl_scopes, IfAllAreAbsent::kDrop);
  drop_scopes("incl_scopes", options.incl_scopes, IfAllAreAbsent::kKeep);
  drop_types("excl_types", options.excl_types, IfAllAreAbsent::kDrop);
  drop_types("incl_types", options.incl_types, IfAllAreAbsent::kKeep);
  drop_types("recompute_types", options.recompute_types, IfAllAreAbsent::kDrop);
  drop_absent(
      options.starting_op_names, IfAllAreAbsent::kKeep,
      [&](const std::string& name) { return check_starting_op(graph, name); }, messages);
  return messages;
}

Status check_lms_options(const Graph& graph, const LmsOptions& options) {
  if (auto status = check_numbers(options); !status) return status;
  if (auto status = check_strategy(options.ctrld_strategy); !status) return status;
  if (auto status = check_codec(options.codec); !status) return status;
  using Names = const std::vector<std::string>&;
  for (const auto& [option, scopes] :
       {std::pair<std::string_view, Names>{"optimizer_scopes", options.optimizer_scopes},
        {"excl_scopes", options.excl_scopes},
        {"incl_scopes", options.incl_scopes}}) {
    for (const std::string& scope : scopes) {
      if (auto status = check_scope(graph, option, scope); !status) return status;
    }
  }
  if (!options.starting_scope.empty()) {
    if (auto status = check_scope(graph, "starting_scope", options.starting_scope); !status) {
      return status;
    }
  }
  for (const std::string& name : options.starting_op_names) {
    if (auto status = check_starting_op(graph, name); !status) return status;
  }
  for (const auto& [option, types] :
       {std::pair<std::string_view, Names>{"excl_types", options.excl_types},
        {"incl_types", options.incl_types},
        {"recompute_types", options.recompute_types}}) {
    for (const std::string& type : types) {
      if (auto status = check_type(graph, option, type); !status) return status;
    }
  }
  return {};
}

}  // namespace ebb
