#include "plugin.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "by_budget.h"
#include "ebb/base/check.h"
#include "ebb/export/rewrite_graphdef.h"
#include "ebb/plan/measured_profile.h"
#include "inference.h"
#include "other_plugin.h"

namespace ebb::grappler {
namespace {

using Json = nlohmann::ordered_json;

std::string_view bytes_of(const TF_Buffer* buffer) {
  return {static_cast<const char*>(buffer->data), buffer->length};
}

// "__inference_step_12" is 'step' of the user's.
std::string name_of(std::string_view function) {
  constexpr std::string_view kTraced = "__inference_";
  if (function.starts_with(kTraced)) function.remove_prefix(kTraced.size());
  const std::size_t number = function.find_last_not_of("0123456789");
  if (number != std::string_view::npos && number > 0 && number + 1 < function.size() &&
      function[number] == '_') {
    function = function.substr(0, number);
  }
  return function.empty() ? "a function" : printable(function);
}

std::shared_ptr<const Configuration> shared(std::optional<Configuration> configuration) {
  if (!configuration) return nullptr;
  return std::make_shared<const Configuration>(*std::move(configuration));
}

// Whether the driver has candidates in a graph that no backward phase follows.
bool works_without_backward(const LmsOptions& lms) { return lms.swap_branches || lms.whole_graph; }

}  // namespace

Plugin& Plugin::instance() {
  static auto* const kPlugin = new Plugin;  // never destroyed: TensorFlow's threads may outlive us
  return *kPlugin;
}

const char* Plugin::load(const void* address_in_tensorflow) {
  int count = 0;
  {
    const std::scoped_lock lock(mutex_);
    count = ++loads_;
  }
  if (count == 1) {
    Result<TensorFlowApi> api = find_tensorflow(address_in_tensorflow);
    if (std::string reason = reason_not_to_register(); !reason.empty()) {
      api = fail(ErrorKind::kUsage, std::move(reason));
    }
    auto from_environment = configuration_of_environment(environ);
    if (!from_environment) say_once(from_environment.error().message + "; Ebb stays off");
    if (api) {
      api_ = *api;
      const std::scoped_lock lock(mutex_);
      if (from_environment) configuration_ = shared(*std::move(from_environment));
      return "CPU";
    }
    if (from_environment && *from_environment) say_once(api.error().message + "; Ebb stays off");
    const std::scoped_lock lock(mutex_);
    why_not_ = api.error().message;
  }
  // TensorFlow calls the plug-ins of the types of devices that a graph's nodes are on.
  if (count == 2 && api_) return "GPU";
  // TensorFlow keeps the pointer; there are few of them. Another copy of this library has others.
  return (new std::string(fmt::format("EBB_{}_{}", fmt::ptr(this), count)))->c_str();
}

bool Plugin::is_loaded() const {
  const std::scoped_lock lock(mutex_);
  return loads_ > 0;
}

Status Plugin::configure(std::string_view json) {
  Result<Configuration> parsed = parse_configuration(json);
  if (!parsed) return fail(parsed.error());
  const std::scoped_lock lock(mutex_);
  if (!api_) return fail(ErrorKind::kUsage, why_not_);
  configuration_ = std::make_shared<const Configuration>(std::move(*parsed));
  last_unchanged_ = 0;
  return {};
}

void Plugin::disable() {
  const std::scoped_lock lock(mutex_);
  configuration_ = nullptr;
}

void Plugin::forget_reports() {
  const std::scoped_lock lock(mutex_);
  reports_.clear();
  planned_.clear();
  said_.clear();
  last_unchanged_ = 0;
  calls_ = 0;
  calls_without_backward_ = 0;
}

std::string Plugin::report() const {
  const std::scoped_lock lock(mutex_);
  Json out = Json::object();
  out["configuration"] = configuration_ ? Json::parse(to_json(*configuration_)) : Json();
  out["calls"] = calls_;
  out["calls_without_backward"] = calls_without_backward_;
  out["graphs"] = Json::array();
  for (const GraphReport& kept : reports_) {
    Json graph = Json::object();
    graph["number"] = kept.number;
    graph["name"] = name_of(kept.scan.function);
    graph["nodes"] = kept.scan.nodes;
    graph["seconds"] = kept.seconds;
    graph["shape_seconds"] = kept.shape_seconds;
    graph["changed"] = kept.is_changed;
    graph["problem"] = kept.problem.empty() ? Json() : Json(kept.problem);
    Json rewrite = Json::parse(kept.rewrite, nullptr, /*allow_exceptions=*/false);
    graph["rewrite"] = rewrite.is_object() ? std::move(rewrite) : Json();
    out["graphs"].push_back(std::move(graph));
  }
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::uint64_t Plugin::last_number() const {
  const std::scoped_lock lock(mutex_);
  return last_number_;
}

Result<std::string> Plugin::profile(std::string_view measured) const {
  std::vector<std::shared_ptr<const Graph>> graphs;
  std::shared_ptr<const Configuration> configuration;
  {
    const std::scoped_lock lock(mutex_);
    graphs.assign(planned_.begin(), planned_.end());
    configuration = configuration_;
  }
  if (configuration == nullptr) return fail(ErrorKind::kUsage, "Ebb is not enabled");
  const auto device = find_device(configuration->budget.device);
  if (!device) return fail(device.error());
  std::vector<MeasuredOperation> operations;
  const Json root = Json::parse(measured);
  for (const Json& each : root.at("operations")) {
    MeasuredOperation& operation = operations.emplace_back();
    operation.name = each.at("name").get<std::string>();
    operation.time = std::chrono::round<Duration>(
        std::chrono::duration<double>(each.at("seconds").get<double>()));
    if (!each.at("workspace").is_null()) {
      operation.workspace = Bytes{each.at("workspace").get<std::int64_t>()};
    }
  }
  const auto profile = make_profile(graphs, *device, operations);
  if (!profile) return fail(profile.error());
  return to_json(*profile);
}

std::optional<std::string> Plugin::optimize(Passes& passes, const TF_Buffer* graph,
                                            const TF_GrapplerItem* item) noexcept {
  try {
    std::shared_ptr<const Configuration> configuration;
    {
      const std::scoped_lock lock(mutex_);
      ++calls_;
      configuration = configuration_;
    }
    if (configuration == nullptr) return std::nullopt;
    GraphReport report;
    const auto start = std::chrono::steady_clock::now();
    std::optional<std::string> rewritten;
    try {
      ++passes.count;
      rewritten = rewrite(*configuration, passes, graph, item, report);
    } catch (const InternalError& bug) {
      report.problem = fmt::format("a bug in Ebb, please report it: {}", bug.what());
    } catch (const std::exception& problem) {
      report.problem = problem.what();
    }
    report.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    say_what_was_done(report);
    if (!report.problem.empty() || !report.rewrite.empty()) keep(std::move(report));
    return rewritten;
  } catch (...) {  // out of memory, while it was said what went wrong
    return std::nullopt;
  }
}

void Plugin::end(const Passes& passes) noexcept {
  try {
    if (passes.count != 1 || passes.scan.nodes == 0) return;
    GraphReport report;
    report.scan = passes.scan;
    report.problem =
        "TensorFlow's optimizer goes over it once (meta_optimizer_iterations), and Ebb comes after "
        "the second time";
    say_what_was_done(report);
    keep(std::move(report));
  } catch (...) {  // out of memory: nothing is said
    return;
  }
}

std::optional<std::string> Plugin::rewrite(const Configuration& configuration, Passes& passes,
                                           const TF_Buffer* graph, const TF_GrapplerItem* item,
                                           GraphReport& report) {
  const Scan& scan = report.scan = scan_graphdef(bytes_of(graph), configuration);
  if (scan.was_rewritten) return std::nullopt;
  if (scan.backward_nodes == 0 && !works_without_backward(configuration.lms)) {
    const std::scoped_lock lock(mutex_);
    ++calls_without_backward_;
    return std::nullopt;
  }
  if (passes.count == 1) {
    passes.scan = scan;
    return std::nullopt;
  }
  if (scan.accelerator_nodes == 0) {
    report.problem = fmt::format("none of its operations is on the accelerator, '{}'",
                                 printable(configuration.devices.accelerator));
    return std::nullopt;
  }
  if (configuration.lms.n_tensors == 0 && configuration.lms.recompute_types.empty()) {
    report.rewrite = "{}";
    return std::nullopt;
  }
  const std::size_t number = std::hash<std::string_view>()(bytes_of(graph));
  if (was_left_alone(number)) return std::nullopt;
  auto rewritten = rewrite_scanned(configuration, graph, item, report);
  if (!rewritten) {
    const std::scoped_lock lock(mutex_);
    last_unchanged_ = number;
  }
  return rewritten;
}

bool Plugin::was_left_alone(std::size_t number) const {
  const std::scoped_lock lock(mutex_);
  return number == last_unchanged_;
}

std::optional<std::string> Plugin::rewrite_scanned(const Configuration& configuration,
                                                   const TF_Buffer* graph,
                                                   const TF_GrapplerItem* item,
                                                   GraphReport& report) {
  const Scan& scan = report.scan;
  LmsOptions lms = configuration.lms;
  if (scan.backward_nodes == 0) lms.sync = 0;  // what runs forward alone has no peak to wait for
  if (!api_) return std::nullopt;              // then nothing could have turned us on
  Inference inference(*api_, graph, item);
  if (configuration.swap_nodes == SwapNodes::kCopyKernels &&
      !inference.op_def("_CopyFromGpuToHost")) {
    report.problem =
        "this TensorFlow has no copy kernels, which come with GPUs; use swap_nodes='identity'";
    return std::nullopt;
  }
  const GraphDefOptions reading{
      .devices = configuration.devices,
      .shape_of = [&](std::string_view node,
                      int output) { return inference.shape_of(node, output); },
      .op_def = [&](std::string_view op) { return inference.op_def(op); },
      .is_fed = [&](std::string_view node) { return inference.is_preserved(node); },
  };
  const GraphDefExport writing{.devices = configuration.devices,
                               .swap_nodes = configuration.swap_nodes};
  Result<GraphDefRewritten> done;
  if (configuration.budget.budget.empty()) {
    done = rewrite_graphdef(bytes_of(graph), lms, reading, writing, AbsentNames::kDrop);
  } else if (auto planned =
                 rewrite_by_budget(bytes_of(graph), configuration.budget, reading, writing)) {
    done = std::move(planned->rewritten);
    if (planned->planned != nullptr) keep(std::move(planned->planned));
  } else {
    done = fail(planned.error());
  }
  report.shape_seconds = inference.seconds();
  if (!inference.problem().empty()) {
    say_once(fmt::format("{}: TensorFlow could not infer shapes, so sizes are not known: {}",
                         name_of(scan.function), printable(inference.problem())));
  }
  if (!done) {
    report.problem = done.error().message;
    return std::nullopt;
  }
  if (done->was_rewritten_before) return std::nullopt;
  for (const std::string& absent : done->absent) {
    say_once(fmt::format("{} ({} operations): {}", name_of(scan.function), scan.nodes, absent));
  }
  report.rewrite = std::move(done->report);
  if (done->graphdef.empty()) return std::nullopt;
  constexpr std::size_t kLargestProtobuf = 0x7fffffff;
  if (done->graphdef.size() > kLargestProtobuf) {
    report.problem = "rewritten, it would be larger than a protobuf may be (2 GiB)";
    return std::nullopt;
  }
  report.is_changed = true;
  return std::move(done->graphdef);
}

void Plugin::say_what_was_done(const GraphReport& report) {
  const std::string name = name_of(report.scan.function);
  if (!report.problem.empty()) {
    say_once(fmt::format("{} ({} operations) runs as it was: {}", name, report.scan.nodes,
                         report.problem));
  }
  if (!report.scan.opaque_function.empty() && report.scan.backward_nodes == 0) {
    say_once(
        fmt::format("{} is compiled by XLA as a whole, so Ebb cannot see into it; if it is a "
                    "training step, use jit_compile=False",
                    name_of(report.scan.opaque_function)));
  }
  if (!report.is_changed) return;
  const Json rewrite = Json::parse(report.rewrite, nullptr, /*allow_exceptions=*/false);
  if (!rewrite.is_object()) return;
  const Bytes bytes{rewrite.value("bytes_swapped", std::int64_t{0})};  // 0: no size is known
  const int swapped = rewrite.value("tensors_swapped", 0);
  const int unknown = rewrite.value("unknown_sizes", 0);
  const std::string size =
      bytes == Bytes{}
          ? ""
          : ", " + to_human(bytes) +
                (unknown > 0 ? fmt::format(" without {} of unknown size", unknown) : "");
  const int recomputed = rewrite.value("tensors_recomputed", 0);
  const Bytes peak{rewrite.value("peak_bytes", std::int64_t{0})};  // 0: there was no budget
  const std::string within =
      peak > Bytes{} ? fmt::format("; {} of {} predicted", to_human(peak),
                                   to_human(Bytes{rewrite.value("budget_bytes", std::int64_t{0})}))
                     : "";
  say_once(fmt::format(
      "{} ({} operations): {} tensor{} swapped{}{}{}; ebb.tensorflow.last_report() says more", name,
      report.scan.nodes, swapped, swapped == 1 ? "" : "s", size,
      recomputed == 0 ? "" : fmt::format("; {} computed again", recomputed), within));
}

// Of a graph in which nothing was changed Grappler may show another version: that counts.
void Plugin::keep(GraphReport report) {
  const std::scoped_lock lock(mutex_);
  report.number = ++last_number_;
  const auto is_earlier_version = [&](const GraphReport& kept) {
    return !kept.is_changed && kept.scan.signature == report.scan.signature &&
           kept.scan.function == report.scan.function;
  };
  const auto earlier = std::find_if(reports_.rbegin(), reports_.rend(), is_earlier_version);
  if (earlier != reports_.rend()) {
    *earlier = std::move(report);
    return;
  }
  reports_.push_back(std::move(report));
  if (reports_.size() > kKeptReports) reports_.pop_front();
}

void Plugin::keep(std::shared_ptr<const Graph> planned) {
  const std::scoped_lock lock(mutex_);
  planned_.push_back(std::move(planned));
  if (planned_.size() > kKeptGraphs) planned_.pop_front();
}

void Plugin::say_once(const std::string& message) {
  const std::scoped_lock lock(mutex_);
  if (said_.size() >= kKeptMessages || !said_.insert(message).second) return;
  fmt::print(stderr, "ebb: {}\n", message);
}

}  // namespace ebb::grappler
