// JSON that people write by hand: device files and profiles. Stricter than the JSON library: a key
// that stands twice in an object is an error, and errors have a line.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "ebb/base/result.h"

namespace ebb {

using Json = nlohmann::json;

// The object that the text is; kBadInput when it is anything else.
[[nodiscard]] Result<Json> read_json_object(std::string_view text);

// A value in a message: as JSON, short; "a list" or "an object" when it is one.
std::string shown(const Json& value);

// Whether every key of the object is known; what stands for the object in messages: "link".
[[nodiscard]] Status check_keys(const Json& object, std::string_view what,
                                std::span<const std::string_view> known);

}  // namespace ebb
