#include <nlohmann/json.hpp>

#include "ebb/import/graphdef_file_node.h"
#include "ebb/rewrite/lms_rewrite.h"

namespace ebb {

std::string lms_json(const Graph& original, const LmsRewritten& done, double seconds) {
  using Json = nlohmann::ordered_json;
  Json refused = Json::array();
  for (const LmsRefused& each : done.plan.refused) {
    refused.push_back(Json{{"tensor", done.graph.name(each.tensor)},
                           {"consumer", done.graph.name(each.consumer)},
                           {"reason", reason_of(each)}});
  }
  const Json out{{"nodes_before", counted_nodes(original)},
                 {"nodes_after", counted_nodes(done.graph)},
                 {"tensors_swapped", done.plan.swaps.size()},
                 {"swap_outs", done.proof.swap_outs},
                 {"swap_ins", done.plan.swap_ins},
                 {"encodes", done.proof.encodes},
                 {"decodes", done.proof.decodes},
                 {"bytes_swapped", done.plan.bytes.count},
                 {"unknown_sizes", done.plan.unknown_sizes},
                 {"tensors_recomputed", done.plan.recomputes.size()},
                 {"bytes_recomputed", done.plan.bytes_recomputed.count},
                 {"recomputations", done.plan.recomputations},
                 {"sync_edges", done.plan.delays.size()},
                 {"sync_refused", done.plan.delays_refused},
                 {"peak_bytes_before", done.before.bytes.count},
                 {"peak_bytes_after", done.after.bytes.count},
                 {"host_peak_bytes", done.after.host.count},
                 {"backward_operations", done.plan.backward_operations},
                 {"refused", std::move(refused)},
                 {"seconds", seconds}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ebb
