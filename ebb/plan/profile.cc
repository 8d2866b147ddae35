#include "ebb/plan/profile.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "ebb/base/file.h"
#include "ebb/plan/json_input.h"
#include "ebb/plan/roofline.h"

namespace ebb {
namespace {

constexpr int kVersion = 1;
constexpr double kNanosecondsPerSecond = 1e9;
constexpr Duration kLongest = std::chrono::hours(24);
constexpr Bytes kLargestWorkspace{1'000'000'000'000'000};

tl::unexpected<Error> bad(std::string message) {
  return fail(ErrorKind::kBadInput, std::move(message));
}

// Signatures may be long.
std::string in_quotes(std::string_view signature) {
  constexpr std::size_t kShown = 120;
  std::string shown = printable(signature.substr(0, kShown));
  return fmt::format("'{}{}'", shown, signature.size() > kShown ? "..." : "");
}

Result<ProfiledOperation> read_operation(const Json& entry, std::size_t index) {
  const std::string what = fmt::format("operation {} of the profile", index + 1);
  if (!entry.is_object()) return bad(fmt::format("{} is {}, not an object", what, shown(entry)));
  constexpr std::array<std::string_view, 3> kKeys = {"signature", "seconds", "workspace"};
  if (const auto status = check_keys(entry, what, kKeys); !status) return fail(status.error());
  for (const std::string_view key : kKeys) {
    if (!entry.contains(key)) return bad(fmt::format("{} has no '{}'", what, key));
  }
  const Json& signature = entry["signature"];
  const Json& seconds = entry["seconds"];
  const Json& workspace = entry["workspace"];
  if (!signature.is_string()) {
    return bad(fmt::format("the signature of {} is {}, not a text", what, shown(signature)));
  }
  const double nanoseconds =
      seconds.is_number() ? seconds.get<double>() * kNanosecondsPerSecond : -1;
  if (!(nanoseconds >= 0 && nanoseconds <= static_cast<double>(kLongest.count()))) {
    return bad(
        fmt::format("{} takes {} seconds; from 0 to a day is possible", what, shown(seconds)));
  }
  const bool is_whole =
      workspace.is_number_integer() && workspace >= 0 && workspace <= kLargestWorkspace.count;
  if (!is_whole) {
    return bad(
        fmt::format("{} has a workspace of {} bytes; whole numbers from 0 to 10^15 are possible",
                    what, shown(workspace)));
  }
  return ProfiledOperation{.signature = signature.get<std::string>(),
                           .time = Duration{std::llround(nanoseconds)},
                           .workspace = Bytes{workspace.get<std::int64_t>()}};
}

}  // namespace

Result<Profile> Profile::make(std::string device, std::vector<ProfiledOperation> operations) {
  std::sort(operations.begin(), operations.end(),
            [](const auto& a, const auto& b) { return a.signature < b.signature; });
  for (const ProfiledOperation& each : operations) {
    if (each.time < Duration{0} || each.time > kLongest || each.workspace < Bytes{0} ||
        each.workspace > kLargestWorkspace) {
      return bad(fmt::format("{} is said to take {} ns and {} bytes, which cannot be",
                             in_quotes(each.signature), each.time.count(), each.workspace.count));
    }
  }
  const auto twice =
      std::adjacent_find(operations.begin(), operations.end(),
                         [](const auto& a, const auto& b) { return a.signature == b.signature; });
  if (twice != operations.end()) {
    return bad(fmt::format("the profile has {} twice", in_quotes(twice->signature)));
  }
  Profile profile;
  profile.device_ = std::move(device);
  profile.operations_ = std::move(operations);
  return profile;
}

const ProfiledOperation* Profile::find(std::string_view signature) const {
  const auto found = std::lower_bound(
      operations_.begin(), operations_.end(), signature,
      [](const ProfiledOperation& a, std::string_view b) { return a.signature < b; });
  return found != operations_.end() && found->signature == signature ? &*found : nullptr;
}

Result<Profile> parse_profile(std::string_view json) {
  const auto root = read_json_object(json);
  if (!root) return fail(root.error());
  constexpr std::array<std::string_view, 3> kKeys = {"version", "device", "operations"};
  // The version first: another one may have other keys.
  if (!root->contains("version")) return bad("'version' is missing: this is no profile");
  if ((*root)["version"] != kVersion) {
    return bad(fmt::format("the profile has version {}; this Ebb reads version {}",
                           shown((*root)["version"]), kVersion));
  }
  if (const auto status = check_keys(*root, "a profile", kKeys); !status) {
    return fail(status.error());
  }
  for (const std::string_view key : kKeys) {
    if (!root->contains(key)) return bad(fmt::format("'{}' is missing", key));
  }
  if (!(*root)["device"].is_string()) {
    return bad(fmt::format("'device' is not a text: {}", shown((*root)["device"])));
  }
  if (!(*root)["operations"].is_array()) {
    return bad(fmt::format("'operations' is not a list: {}", shown((*root)["operations"])));
  }
  std::vector<ProfiledOperation> operations;
  for (const Json& entry : (*root)["operations"]) {
    auto operation = read_operation(entry, operations.size());
    if (!operation) return fail(operation.error());
    operations.push_back(std::move(*operation));
  }
  return Profile::make((*root)["device"].get<std::string>(), std::move(operations));
}

Result<Profile> read_profile(const std::string& path) {
  const auto text = read_file(path);
  if (!text) return fail(text.error());
  auto profile = parse_profile(*text);
  if (!profile) {
    Error error = profile.error();
    error.message = error.render(path == "-" ? "standard input" : printable(path));
    error.place = {};
    return fail(std::move(error));
  }
  return profile;
}

std::string to_json(const Profile& profile) {
  const auto quoted = [](std::string_view text) {
    return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  std::string out = fmt::format("{{\n \"version\": {},\n \"device\": {},\n \"operations\": [",
                                kVersion, quoted(profile.device()));
  const char* separator = "\n";
  for (const ProfiledOperation& each : profile.operations()) {
    out += fmt::format("{}  {{\"signature\": {}, \"seconds\": {}, \"workspace\": {}}}", separator,
                       quoted(each.signature),
                       Json(static_cast<double>(each.time.count()) / kNanosecondsPerSecond).dump(),
                       each.workspace.count);
    separator = ",\n";
  }
  out += profile.operations().empty() ? "]\n}\n" : "\n ]\n}\n";
  return out;
}

ProfileMatch match(const Graph& graph, const Profile& profile) {
  ProfileMatch result;
  for (const NodeId node : graph.order()) {
    if (work_of(graph, node).kind == WorkKind::kNothing) continue;
    ++result.operations;
    if (profile.find(signature(graph, node)) != nullptr) ++result.covered;
  }
  return result;
}

}  // namespace ebb
