#include "ebb/exec/measurement_file.h"

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "ebb/plan/json_input.h"

namespace ebb::exec {
namespace {

constexpr int kVersion = 2;
constexpr double kNanosecondsPerSecond = 1e9;
constexpr Duration kLongest = std::chrono::hours(24);
constexpr Bytes kLargest{1'000'000'000'000'000};

tl::unexpected<Error> bad(std::string message) {
  return fail(ErrorKind::kBadInput, std::move(message));
}

std::string in_json(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A whole number from `least` to `most`; nothing when it is anything else.
std::optional<std::int64_t> whole_number(const Json& value, std::int64_t least, std::int64_t most) {
  if (!value.is_number_integer() || value < least || value > most) return std::nullopt;
  return value.get<std::int64_t>();
}

Result<Request> read_request(const Json& entry, std::size_t index, std::size_t count,
                             const std::string& what) {
  const auto refuse = [&] { return bad(fmt::format("request {} of {} is none", index + 1, what)); };
  if (!entry.is_object() || entry.size() != 2) return refuse();
  const auto size = entry.contains("size") ? whole_number(entry["size"], 1, kLargest.count)
                                           : std::optional<std::int64_t>();
  if (!size) return refuse();
  Request request{.size = Bytes{*size}};
  if (entry.contains("result")) {
    const auto result = whole_number(entry["result"], 0, std::numeric_limits<std::int32_t>::max());
    if (!result) return refuse();
    request.result = static_cast<std::int32_t>(*result);
  } else if (entry.contains("kept")) {
    if (entry["kept"] != true) return refuse();
    request.result = Request::kKept;
  } else if (entry.contains("freed_after")) {
    const auto freed_after =
        whole_number(entry["freed_after"], static_cast<std::int64_t>(index) + 1,
                     static_cast<std::int64_t>(count));
    if (!freed_after) return refuse();
    request.freed_after = static_cast<std::uint32_t>(*freed_after);
  } else {
    return refuse();
  }
  return request;
}

Result<Recipe> read_recipe(const Json& requests, const std::string& what) {
  if (!requests.is_array()) {
    return bad(fmt::format("the requests of {} are {}, not a list", what, shown(requests)));
  }
  Recipe recipe;
  Bytes total;
  for (const Json& entry : requests) {
    auto request = read_request(entry, recipe.requests.size(), requests.size(), what);
    if (!request) return fail(std::move(request.error()));
    recipe.requests.push_back(*request);
    total += request->size;
    if (total > kLargest) return bad(fmt::format("{} asks for more than there can be", what));
  }
  return recipe;
}

Result<std::vector<OtherStrides>> read_otherwise(const Json& entries, const std::string& what) {
  const auto refuse = [&] { return bad(fmt::format("'otherwise' of {} is none", what)); };
  if (!entries.is_array()) return refuse();
  std::vector<OtherStrides> otherwise;
  for (const Json& entry : entries) {
    if (!entry.is_object() || entry.size() != 2 || !entry.contains("result") ||
        !entry.contains("strides") || !entry["strides"].is_array()) {
      return refuse();
    }
    const std::int64_t least = otherwise.empty() ? 0 : otherwise.back().result + std::int64_t{1};
    const auto result =
        whole_number(entry["result"], least, std::numeric_limits<std::int32_t>::max());
    if (!result) return refuse();
    OtherStrides other{.result = static_cast<std::int32_t>(*result), .strides = {}};
    for (const Json& value : entry["strides"]) {
      const auto stride = whole_number(value, 0, kLargest.count);
      if (!stride) return refuse();
      other.strides.push_back(*stride);
    }
    otherwise.push_back(std::move(other));
  }
  return otherwise;
}

Status read_operation(const Json& entry, std::size_t index, Measurements& operations) {
  const std::string what = fmt::format("operation {}", index + 1);
  if (!entry.is_object()) return bad(fmt::format("{} is {}, not an object", what, shown(entry)));
  constexpr std::array<std::string_view, 4> kKeys = {"signature", "requests", "otherwise",
                                                     "seconds"};
  if (Status ok = check_keys(entry, what, kKeys); !ok) return ok;
  if (!entry.contains("signature") || !entry["signature"].is_string()) {
    return bad(fmt::format("{} has no signature", what));
  }
  Measured measured;
  if (entry.contains("requests")) {
    auto recipe = read_recipe(entry["requests"], what);
    if (!recipe) return fail(std::move(recipe.error()));
    measured.recipe = *std::move(recipe);
  }
  if (entry.contains("otherwise")) {
    if (!measured.recipe) return bad(fmt::format("{} has 'otherwise' and no requests", what));
    auto otherwise = read_otherwise(entry["otherwise"], what);
    if (!otherwise) return fail(std::move(otherwise.error()));
    measured.recipe->otherwise = *std::move(otherwise);
  }
  if (entry.contains("seconds")) {
    const Json& seconds = entry["seconds"];
    const double nanoseconds =
        seconds.is_number() ? seconds.get<double>() * kNanosecondsPerSecond : -1;
    if (!(nanoseconds >= 0 && nanoseconds <= static_cast<double>(kLongest.count()))) {
      return bad(
          fmt::format("{} takes {} seconds; from 0 to a day is possible", what, shown(seconds)));
    }
    measured.time = Duration{std::llround(nanoseconds)};
  }
  const auto signature = entry["signature"].get<std::string>();
  if (!operations.emplace(signature, std::move(measured)).second) {
    return bad(fmt::format("{} has the signature of one above", what));
  }
  return {};
}

Result<Environment> read_environment(const Json& object) {
  if (!object.is_object()) return bad(fmt::format("the environment is {}", shown(object)));
  Environment environment;
  for (const auto& [key, value] : object.items()) {
    if (!value.is_string()) {
      return bad(
          fmt::format("'{}' of the environment is {}, not a text", printable(key), shown(value)));
    }
    environment.emplace(key, value.get<std::string>());
  }
  return environment;
}

std::string request_text(const Request& request) {
  if (request.result == Request::kKept) {
    return fmt::format(R"({{"size": {}, "kept": true}})", request.size.count);
  }
  if (request.result == Request::kTemporary) {
    return fmt::format(R"({{"size": {}, "freed_after": {}}})", request.size.count,
                       request.freed_after);
  }
  return fmt::format(R"({{"size": {}, "result": {}}})", request.size.count, request.result);
}

std::string operation_text(const std::string& signature, const Measured& measured) {
  std::string line = fmt::format("{{\"signature\": {}", in_json(signature));
  if (measured.recipe) {
    line += ", \"requests\": [";
    const char* separator = "";
    for (const Request& request : measured.recipe->requests) {
      line += separator + request_text(request);
      separator = ", ";
    }
    line += "]";
    if (!measured.recipe->otherwise.empty()) {
      line += ", \"otherwise\": [";
      separator = "";
      for (const OtherStrides& other : measured.recipe->otherwise) {
        line += fmt::format(R"({}{{"result": {}, "strides": [{}]}})", separator, other.result,
                            fmt::join(other.strides, ", "));
        separator = ", ";
      }
      line += "]";
    }
  }
  if (measured.time) {
    line += fmt::format(
        ", \"seconds\": {}",
        Json(static_cast<double>(measured.time->count()) / kNanosecondsPerSecond).dump());
  }
  return line + "}";
}

}  // namespace

Result<MeasurementFile> parse_measurements(std::string_view json) {
  const auto root = read_json_object(json);
  if (!root) return fail(root.error());
  // The version first: another one may have other keys.
  if (!root->contains("version")) return bad("'version' is missing: these are no measurements");
  if ((*root)["version"] != kVersion) {
    return bad(fmt::format("the measurements have version {}; this Ebb reads version {}",
                           shown((*root)["version"]), kVersion));
  }
  constexpr std::array<std::string_view, 4> kKeys = {"version", "environment", "link",
                                                     "operations"};
  if (Status ok = check_keys(*root, "a file of measurements", kKeys); !ok) return fail(ok.error());
  for (const std::string_view key : {"environment", "operations"}) {
    if (!root->contains(key)) return bad(fmt::format("'{}' is missing", key));
  }
  MeasurementFile file;
  auto environment = read_environment((*root)["environment"]);
  if (!environment) return fail(std::move(environment.error()));
  file.environment = *std::move(environment);
  if (root->contains("link")) {
    auto link = parse_link((*root)["link"].dump(-1, ' ', false, Json::error_handler_t::replace));
    if (!link) return fail(std::move(link.error()));
    file.link = *link;
  }
  if (!(*root)["operations"].is_array()) {
    return bad(fmt::format("'operations' is not a list: {}", shown((*root)["operations"])));
  }
  std::size_t index = 0;
  for (const Json& entry : (*root)["operations"]) {
    if (Status ok = read_operation(entry, index++, file.operations); !ok) return fail(ok.error());
  }
  return file;
}

std::string to_json(const MeasurementFile& file) {
  std::string out = fmt::format("{{\n \"version\": {},\n \"environment\": {{", kVersion);
  const char* separator = "\n";
  for (const auto& [key, value] : file.environment) {
    out += fmt::format("{}  {}: {}", separator, in_json(key), in_json(value));
    separator = ",\n";
  }
  out += file.environment.empty() ? "}" : "\n }";
  if (file.link) out += fmt::format(",\n \"link\": {}", to_json(*file.link));
  out += ",\n \"operations\": [";
  std::map<std::string_view, std::string> lines;
  for (const auto& [signature, measured] : file.operations) {
    if (!measured.recipe && !measured.time) continue;
    lines.emplace(signature, operation_text(signature, measured));
  }
  separator = "\n";
  for (const auto& [signature, line] : lines) {
    out += fmt::format("{}  {}", separator, line);
    separator = ",\n";
  }
  out += lines.empty() ? "]\n}\n" : "\n ]\n}\n";
  return out;
}

}  // namespace ebb::exec
