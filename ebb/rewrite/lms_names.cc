#include "ebb/rewrite/lms_names.h"

#include <algorithm>

namespace ebb {
namespace {

std::string_view without_slashes(std::string_view scope) {
  while (scope.starts_with('/')) scope.remove_prefix(1);
  while (scope.ends_with('/')) scope.remove_suffix(1);
  return scope;
}

// "gradients", "gradients_12".
bool is_gradient_component(std::string_view component) {
  for (const std::string_view known : {"gradients", "gradient_tape"}) {
    if (!component.starts_with(known)) continue;
    const std::string_view rest = component.substr(known.size());
    if (rest.empty()) return true;
    return rest.size() > 1 && rest[0] == '_' &&
           rest.find_first_not_of("0123456789", 1) == std::string_view::npos;
  }
  return false;
}

}  // namespace

bool in_scope(std::string_view name, std::string_view scope) {
  scope = without_slashes(scope);
  if (scope.empty()) return false;
  for (std::size_t at = name.find(scope); at != std::string_view::npos;
       at = name.find(scope, at + 1)) {
    const std::size_t end = at + scope.size();
    const bool begins = at == 0 || name[at - 1] == '/';
    const bool ends = end == name.size() || name[end] == '/';
    if (begins && ends) return true;
  }
  return false;
}

bool in_any_scope(std::string_view name, std::span<const std::string> scopes) {
  return std::any_of(scopes.begin(), scopes.end(),
                     [&](const std::string& scope) { return in_scope(name, scope); });
}

bool in_gradient_scope(std::string_view name) {
  while (true) {
    const std::size_t slash = name.find('/');
    if (is_gradient_component(name.substr(0, slash))) return true;
    if (slash == std::string_view::npos) return false;
    name.remove_prefix(slash + 1);
  }
}

bool is_of_type(std::string_view op, std::string_view type) {
  const auto is_op_or_its_family = [type](std::string_view name) {
    return name == type || name.substr(0, name.find('.')) == type;
  };
  if (is_op_or_its_family(op)) return true;
  const std::size_t colons = op.find("::");
  return colons != std::string_view::npos && is_op_or_its_family(op.substr(colons + 2));
}

bool is_of_any_type(std::string_view op, std::span<const std::string> types) {
  return std::any_of(types.begin(), types.end(),
                     [op](const std::string& type) { return is_of_type(op, type); });
}

}  // namespace ebb
