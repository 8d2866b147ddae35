#include "ebb/plan/alike.h"

#include <map>
#include <tuple>
#include <utility>

namespace ebb {
namespace {

// By operation: the same number for those that look alike.
std::vector<std::uint32_t> find_kinds(const StepModel& model) {
  using Look = std::tuple<Duration, Bytes, std::vector<Bytes>, std::vector<Bytes>>;
  const auto sizes = [&](std::span<const std::uint32_t> values) {
    std::vector<Bytes> out;
    out.reserve(values.size());
    for (const std::uint32_t value : values) out.push_back(model.values[value].size);
    return out;
  };
  std::map<Look, std::uint32_t> known;
  std::vector<std::uint32_t> kinds;
  kinds.reserve(model.operations.size());
  for (std::uint32_t i = 0; i < model.operations.size(); ++i) {
    const StepModel::Operation& it = model.operations[i];
    const auto next = static_cast<std::uint32_t>(known.size());
    Look look{it.takes, it.workspace, sizes(model.operands_of(i)), sizes(model.results_of(i))};
    kinds.push_back(known.try_emplace(std::move(look), next).first->second);
  }
  return kinds;
}

}  // namespace

std::vector<std::vector<std::uint32_t>> find_alike(const StepModel& model,
                                                   const std::vector<Gap>& gaps) {
  const std::vector<std::uint32_t> kinds = find_kinds(model);
  const auto kind_of = [&](std::uint32_t operation) {
    return operation == kNone ? kNone : kinds[operation];
  };
  using Look = std::tuple<Bytes, std::uint32_t, std::uint32_t, std::uint32_t>;
  std::map<Look, std::uint32_t> known;
  std::vector<std::vector<std::uint32_t>> alike;
  for (std::uint32_t i = 0; i < gaps.size(); ++i) {
    const StepModel::Value& value = model.values[gaps[i].value];
    const Look look{value.size, kind_of(value.producer), kind_of(gaps[i].after),
                    kind_of(gaps[i].before)};
    const auto next = static_cast<std::uint32_t>(alike.size());
    const auto [entry, is_new] = known.try_emplace(look, next);
    if (is_new) alike.emplace_back();
    alike[entry->second].push_back(i);
  }
  return alike;
}

}  // namespace ebb
