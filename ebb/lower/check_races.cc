// Obviously right rather than fast: what happens before what is a table, and everything that a copy
// touches is compared with everything that the other lanes touch.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "ebb/lower/accesses.h"
#include "ebb/lower/program.h"

namespace ebb {
namespace {

class RaceChecker {
 public:
  RaceChecker(const Graph& graph, const Program& program) : graph_(graph), program_(program) {}

  Status run() {
    const auto& instructions = program_.instructions;
    std::vector<std::vector<ByteAccess>> accesses;
    accesses.reserve(instructions.size());
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      if (Status ok = add(i); !ok) return ok;
      accesses.push_back(accesses_of(graph_, program_, instructions[i]));
    }
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      if (instructions[i].lane == Lane::kCompute) continue;
      for (std::size_t j = 0; j < instructions.size(); ++j) {
        if (instructions[i].lane == instructions[j].lane) continue;
        const std::size_t first = std::min(i, j);
        const std::size_t second = std::max(i, j);
        if (is_before(first, second)) continue;
        if (Status ok = check_apart(first, second, accesses); !ok) return ok;
      }
    }
    return check_control();
  }

 private:
  // Row i: by lane, how many of its instructions have ended for sure when i has.
  using Row = std::array<std::size_t, kLaneCount>;

  Status add(std::size_t i) {
    const Instruction& instruction = program_.instructions[i];
    const auto lane = static_cast<std::size_t>(instruction.lane);
    Row row = last_of_lane_[lane];
    for (const std::uint32_t awaited : program_.waits_of(instruction)) {
      if (awaited >= i) {
        return fail(ErrorKind::kRefused,
                    fmt::format("the program would stand still: '{}' waits for '{}', which is not "
                                "above it",
                                graph_.name(instruction.node),
                                awaited < program_.instructions.size()
                                    ? graph_.name(program_.instructions[awaited].node)
                                    : "nothing"));
      }
      for (std::size_t other = 0; other < kLaneCount; ++other) {
        row[other] = std::max(row[other], rows_[awaited][other]);
      }
    }
    place_in_lane_.push_back(count_of_lane_[lane]++);
    row[lane] = count_of_lane_[lane];
    last_of_lane_[lane] = row;
    rows_.push_back(row);
    return {};
  }

  // Whether `first` has ended when `second` starts, for two of different lanes.
  [[nodiscard]] bool is_before(std::size_t first, std::size_t second) const {
    const auto lane = static_cast<std::size_t>(program_.instructions[first].lane);
    return rows_[second][lane] > place_in_lane_[first];
  }

  [[nodiscard]] Status check_apart(std::size_t first, std::size_t second,
                                   const std::vector<std::vector<ByteAccess>>& accesses) const {
    for (const ByteAccess& one : accesses[first]) {
      for (const ByteAccess& other : accesses[second]) {
        if (!one.conflicts_with(other)) continue;
        return fail(
            ErrorKind::kRefused,
            fmt::format("the program has a race: '{}' does not wait for '{}', and both "
                        "touch the bytes {}..{}{}",
                        name(second), name(first), std::max(one.begin, other.begin).count,
                        std::min(one.end, other.end).count, one.is_on_host ? " @host" : ""));
      }
    }
    return {};
  }

  [[nodiscard]] Status check_control() const {
    std::vector<std::size_t> instruction_of(graph_.node_count(), rows_.size());
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      instruction_of[instruction.node.index()] = i;
      for (const NodeId node : graph_.controls(instruction.node)) {
        const std::size_t before = instruction_of[node.index()];
        if (before == rows_.size()) continue;
        if (program_.instructions[before].lane == instruction.lane || is_before(before, i))
          continue;
        return fail(ErrorKind::kRefused,
                    fmt::format("the program has a race: '{}' does not wait for '{}', which it is "
                                "to follow",
                                name(i), name(before)));
      }
    }
    return {};
  }

  [[nodiscard]] std::string_view name(std::size_t instruction) const {
    return graph_.name(program_.instructions[instruction].node);
  }

  const Graph& graph_;
  const Program& program_;
  std::vector<Row> rows_;                       // by instruction
  std::vector<std::size_t> place_in_lane_;      // by instruction
  std::array<Row, kLaneCount> last_of_lane_{};  // the row of its last instruction so far
  std::array<std::size_t, kLaneCount> count_of_lane_{};
};

}  // namespace

Status check_races(const Graph& graph, const Program& program) {
  return RaceChecker(graph, program).run();
}

}  // namespace ebb
