// Names as people give them to the driver, scopes and operator types, and whether the graph has
// them. What they mean is said at LmsOptions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/graph/graph.h"
#include "ebb/rewrite/lms.h"

namespace ebb {

// Whether the components of `scope` stand in a row in the path `name`.
bool in_scope(std::string_view name, std::string_view scope);
bool in_any_scope(std::string_view name, std::span<const std::string> scopes);
// Whether a component is one that frameworks give to gradients.
bool in_gradient_scope(std::string_view name);

bool is_of_type(std::string_view op, std::string_view type);
bool is_of_any_type(std::string_view op, std::span<const std::string> types);

// Whether the driver may begin: every number in range, every name in the graph.
[[nodiscard]] Status check_lms_options(const Graph& graph, const LmsOptions& options);

// For options that are meant for many graphs, not all of which have all that is named: takes out
// exclusions and types that this graph lacks, and of other lists as much as leaves something there.
// Returns what check_lms_options would have said of each.
std::vector<std::string> drop_absent_names(const Graph& graph, LmsOptions& options);

}  // namespace ebb
