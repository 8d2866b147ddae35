// What a step returns, where it is one number: a loss, an accuracy.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include <nlohmann/json_fwd.hpp>

#include "ebb/torch/step.h"

namespace ebb::tool {

using ReturnedNumber = std::variant<bool, std::int64_t, std::uint64_t, float, double>;

// The tensor's value after a step; nullopt when it has several elements or none, or is complex.
// Element types smaller than f32 become f32, which has all their values.
std::optional<ReturnedNumber> returned_number(const torch::Step& step, TensorId tensor);

// The shortest text that reads back to the same f32 or f64: "2.3043833".
std::string to_text(const ReturnedNumber& number);
// The exact value; what JSON has no number for is a string, "nan", "inf" or "-inf".
nlohmann::ordered_json to_json(const ReturnedNumber& number);

}  // namespace ebb::tool
