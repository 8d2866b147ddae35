#include "ebb/export/rewrite_functions.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ebb/export/rewrite_graphdef.h"
#include "ebb/import/functiondef.h"
#include "ebb/rewrite/lms_graph.h"
#include "ebb/rewrite/lms_names.h"
#include "ebb/rewrite/lms_rewrite.h"

namespace ebb {
namespace {

// The new FunctionDef, or nothing, and then `outcome` says why.
Result<std::string> rewrite_one(const FunctionLibrary& library, const LibraryFunction& function,
                                const LmsOptions& lms, const GraphDefOptions& reading,
                                const GraphDefExport& writing, FunctionOutcome& outcome) {
  const auto body = library.body(function);
  if (!body) return fail(body.error());
  const auto graph = import_graphdef(*body, reading);
  if (!graph) return fail(graph.error());
  if (was_rewritten(*graph)) return fail(ErrorKind::kRefused, "it was rewritten before");
  LmsOptions options = lms;
  drop_absent_names(*graph, options);  // one set of options for all functions
  const auto done = rewrite_by_lms(*graph, options);
  if (!done) return fail(done.error());
  if (done->plan.backward_operations == 0) {
    return fail(ErrorKind::kRefused, "it has no backward phase of its own");
  }
  if (done->journal.empty()) return fail(ErrorKind::kRefused, "there is nothing to swap in it");
  const auto after = export_graphdef(done->graph, writing);
  if (!after) return fail(after.error());
  outcome.tensors_swapped = done->plan.swaps.size();
  outcome.swap_ins = done->plan.swap_ins;
  outcome.bytes_swapped = done->plan.bytes;
  return library.with_body(function, *body, *after);
}

}  // namespace

Result<FunctionsRewritten> rewrite_functions(std::string_view graphdef, const LmsOptions& lms,
                                             const GraphDefOptions& reading,
                                             const GraphDefExport& writing) {
  const auto library = FunctionLibrary::read(graphdef);
  if (!library) return fail(library.error());
  FunctionsRewritten out;
  std::map<std::string, std::string, std::less<>> changed;
  for (const LibraryFunction& function : library->functions()) {
    FunctionOutcome outcome;
    outcome.name = function.name;
    auto bytes = rewrite_one(*library, function, lms, reading, writing, outcome);
    if (bytes) {
      changed.emplace(function.name, std::move(*bytes));
    } else {
      outcome.left_alone = bytes.error().message;
    }
    out.functions.push_back(std::move(outcome));
  }
  out.graphdef = changed.empty() ? std::string(graphdef) : with_functions(graphdef, changed);
  return out;
}

bool has_backward_phase(const Graph& graph) {
  const std::vector<LmsPhase> phases = find_phases(graph, {});
  return std::find(phases.begin(), phases.end(), LmsPhase::kBackward) != phases.end();
}

Result<std::string> find_training_function(std::string_view graphdef,
                                           const GraphDefOptions& reading) {
  const auto library = FunctionLibrary::read(graphdef);
  if (!library) return fail(library.error());
  for (const LibraryFunction& function : library->functions()) {
    const auto body = library->body(function);
    if (!body) continue;
    const auto graph = import_graphdef(*body, reading);
    if (graph && has_backward_phase(*graph)) return function.name;
  }
  return std::string();
}

bool was_any_rewritten(const std::vector<FunctionOutcome>& functions) {
  return std::any_of(functions.begin(), functions.end(),
                     [](const FunctionOutcome& each) { return each.left_alone.empty(); });
}

std::string with_functions_json(const std::string& json,
                                const std::vector<FunctionOutcome>& functions) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const FunctionOutcome& each : functions) {
    list.push_back(Json{{"name", each.name},
                        {"tensors_swapped", each.tensors_swapped},
                        {"swap_ins", each.swap_ins},
                        {"bytes_swapped", each.bytes_swapped.count},
                        {"left_alone", each.left_alone.empty() ? Json() : Json(each.left_alone)}});
  }
  Json out = Json::parse(json);
  out["functions"] = std::move(list);
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string functions_summary(const std::vector<FunctionOutcome>& functions) {
  std::string out;
  std::map<std::string, std::pair<std::size_t, std::string>> reasons;
  for (const FunctionOutcome& each : functions) {
    if (each.left_alone.empty()) {
      out += fmt::format("Function '{}': {} tensors swapped, {}; {} swap-ins\n", each.name,
                         each.tensors_swapped, to_human(each.bytes_swapped), each.swap_ins);
    } else {
      auto& [count, first] = reasons[each.left_alone];
      if (count++ == 0) first = each.name;
    }
  }
  for (const auto& [reason, known] : reasons) {
    out += fmt::format("Functions left alone: {}, {}; first: '{}'\n", known.first, reason,
                       known.second);
  }
  return out;
}

Result<std::size_t> prove_functions(std::string_view original, std::string_view rewritten,
                                    const GraphDefOptions& reading) {
  const auto before = FunctionLibrary::read(original);
  if (!before) return fail(before.error());
  const auto after = FunctionLibrary::read(rewritten);
  if (!after) return fail(after.error());
  const auto refuse = [](const std::string& name, std::string_view why) {
    return fail(ErrorKind::kRefused, fmt::format("the function '{}' {}", printable(name), why));
  };
  for (const LibraryFunction& function : after->functions()) {
    if (before->find(function.name) == nullptr) return refuse(function.name, "was not there");
  }
  std::size_t proved = 0;
  for (const LibraryFunction& function : before->functions()) {
    const LibraryFunction* now = after->find(function.name);
    if (now == nullptr) return refuse(function.name, "is missing");
    if (now->bytes == function.bytes) continue;
    const auto old_body = before->body(function);
    const auto new_body = after->body(*now);
    if (!old_body || !new_body) {
      return refuse(function.name, "changed, and cannot be read by itself");
    }
    const auto old_graph = import_graphdef(*old_body, reading);
    const auto new_graph = import_graphdef(*new_body, reading);
    if (!old_graph) return fail(old_graph.error());
    if (!new_graph) return fail(new_graph.error());
    const auto proof = compare_computations(*old_graph, *new_graph);
    if (!proof) return refuse(function.name, fmt::format("differs: {}", proof.error().message));
    if (!FunctionLibrary::same_around_body(function, *now)) {
      return refuse(function.name, "differs in its signature or in what it returns");
    }
    ++proved;
  }
  return proved;
}

std::string with_functions_of(std::string_view original, std::string_view rewritten) {
  std::map<std::string, std::string, std::less<>> functions;
  if (const auto library = FunctionLibrary::read(original)) {
    for (const LibraryFunction& each : library->functions()) {
      functions.emplace(each.name, each.bytes);
    }
  }
  return with_functions(rewritten, functions);
}

}  // namespace ebb
