#include "ebb/plan/json_input.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ebb/base/nearest.h"

namespace ebb {
namespace {

Place place_of(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, byte);
  const std::size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
  return Place{.line = 1 + static_cast<int>(std::count(before.begin(), before.end(), '\n')),
               .column = 1 + static_cast<int>(before.size() - line_begin)};
}

tl::unexpected<Error> bad(std::string message, Place place = {}) {
  return fail(Error{
      .kind = ErrorKind::kBadInput, .code = {}, .message = std::move(message), .place = place});
}

}  // namespace

Result<Json> read_json_object(std::string_view text) {
  std::vector<std::set<std::string>> open;  // the keys of the objects we are in
  std::optional<std::string> twice;
  const auto hear = [&](int /*depth*/, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && !open.back().insert(parsed.get<std::string>()).second)
      twice = parsed.get<std::string>();
    return true;
  };
  Json root;
  try {
    root = Json::parse(text, hear);
  } catch (const Json::parse_error& error) {
    return bad("what stands here is not JSON",
               place_of(text, error.byte == 0 ? 0 : error.byte - 1));
  } catch (const Json::exception&) {  // a number beyond all doubles
    return bad("a number in the file is too large");
  }
  if (twice) return bad(fmt::format("the key '{}' stands twice in one object", printable(*twice)));
  if (!root.is_object()) return bad(fmt::format("the file is {}, not an object", shown(root)));
  return root;
}

std::string shown(const Json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  constexpr std::size_t kShown = 60;
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  if (text.size() > kShown) text = text.substr(0, kShown) + "...";
  return text;
}

Status check_keys(const Json& object, std::string_view what,
                  std::span<const std::string_view> known) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    NearestWord nearest(key);
    for (const std::string_view each : known) nearest.offer(each);
    const std::string hint = nearest.hint();
    return bad(
        fmt::format("{} has no key '{}'{}", what, printable(key),
                    hint.empty() ? fmt::format("; it has {}", fmt::join(known, ", ")) : hint));
  }
  return {};
}

}  // namespace ebb
