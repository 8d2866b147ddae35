#include "ebb/lower/recipe.h"

#include "ebb/plan/layout.h"

namespace ebb {

Workspace lay_out_workspace(const Recipe& recipe, Bytes alignment) {
  std::vector<LayoutBuffer> temporaries;
  std::vector<std::size_t> requests;  // of the temporaries
  for (std::size_t i = 0; i < recipe.requests.size(); ++i) {
    const Request& request = recipe.requests[i];
    if (request.result != Request::kTemporary) continue;
    temporaries.push_back({.size = request.size,
                           .first = static_cast<std::uint32_t>(i),
                           .last = request.freed_after - 1,
                           .at = {}});
    requests.push_back(i);
  }
  const Layout layout = lay_out(temporaries, {.alignment = alignment});
  Workspace workspace{.size = layout.size, .offsets = std::vector<Bytes>(recipe.requests.size())};
  for (std::size_t i = 0; i < requests.size(); ++i) {
    workspace.offsets[requests[i]] = layout.offsets[i];
  }
  return workspace;
}

}  // namespace ebb
