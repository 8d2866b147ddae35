#include <nlohmann/json.hpp>

#include "ebb/report/curve.h"
#include "ebb/report/summary.h"

namespace ebb {
namespace {

using Json = nlohmann::ordered_json;  // fields in the order in which they are written

constexpr std::size_t kCurvePoints = 1000;

Json json(const std::vector<Bytes>& values) {
  Json out = Json::array();
  for (const Bytes value : values) out.push_back(value.count);
  return out;
}

Json json(const Summary::Counts& counts) {
  return Json{{"nodes", counts.nodes},         {"operations", counts.operations},
              {"inputs", counts.inputs},       {"parameters", counts.parameters},
              {"constants", counts.constants}, {"scalars", counts.scalars},
              {"tensors", counts.tensors},     {"storages", counts.storages},
              {"updates", counts.updates},     {"control_edges", counts.control_edges},
              {"random", counts.random},       {"effects", counts.effects},
              {"swap_outs", counts.swap_outs}, {"swap_ins", counts.swap_ins},
              {"clones", counts.clones}};
}

}  // namespace

std::string to_json(const Graph& graph, const Summary& summary) {
  const auto name_or_null = [&](NodeId node) {
    return node.valid() ? Json(graph.name(node)) : Json();
  };
  const MemoryCurve& memory = summary.memory;
  const NodeId peak_node = graph.order().empty() ? NodeId() : graph.order()[memory.peak_position];
  Json out{{"graph", graph.name()}, {"counts", json(summary.counts)}};
  out["gamma"] = Json{{"highest", summary.highest_gamma},
                      {"widest_level", summary.widest_level},
                      {"widest_count", summary.widest_count}};
  out["known_seconds"] = static_cast<double>(summary.known_time.count()) / 1e9;
  out["operations_timed"] = summary.operations_timed;
  Json long_lived = Json::array();
  for (const auto& item : summary.long_lived) {
    long_lived.push_back(Json{{"tensor", graph.name(item.tensor)},
                              {"lifetime", item.lifetime},
                              {"bytes", item.size.count}});
  }
  out["long_lived"] = std::move(long_lived);
  out["peak_bytes"] = memory.peak.count;
  out["peak_node"] = name_or_null(peak_node);
  out["peak_line"] = peak_node.valid() ? Json(memory.peak_position + 1) : Json();
  out["at_peak"] = Json{{"parameter_bytes", summary.at_peak.parameters.count},
                        {"constant_bytes", summary.at_peak.constants.count},
                        {"input_bytes", summary.at_peak.inputs.count},
                        {"intermediate_bytes", summary.at_peak.intermediates.count},
                        {"workspace_bytes", summary.at_peak.workspace.count}};
  Json tensors = Json::array();
  for (const auto& [storage, size] : summary.residents_at_peak) {
    tensors.push_back(Json{{"tensor", graph.name(graph.root(storage))},
                           {"bytes", size.count},
                           {"role", role(graph, storage)}});
  }
  out["tensors_at_peak"] = std::move(tensors);
  out["host_peak_bytes"] = memory.host_peak.count;
  out["floor_bytes"] = summary.floor.bytes.count;
  out["floor_node"] = name_or_null(summary.floor.node);
  out["unknown_sizes"] = memory.unknown_sizes;
  out["implicit_copies"] = summary.implicit_copies;
  out["devices"] = summary.devices;
  out["device_curve"] = json(bucket_maxima(memory.device, kCurvePoints));
  out["host_curve"] = json(bucket_maxima(memory.host, kCurvePoints));
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace ebb
