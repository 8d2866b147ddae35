// One walk over the instructions, with two memories: for every byte who touched it last, and for
// every instruction how far each lane has got when it starts.
#include "ebb/lower/waits.h"

#include <algorithm>
#include <array>
#include <map>

#include "ebb/lower/accesses.h"

namespace ebb {
namespace {

// By lane: one more than the last instruction of it, 0 for none.
using Front = std::array<std::uint32_t, kLaneCount>;

std::size_t index_of(Lane lane) { return static_cast<std::size_t>(lane); }

void advance(Front& front, const Front& other) {
  for (std::size_t lane = 0; lane < kLaneCount; ++lane) {
    front[lane] = std::max(front[lane], other[lane]);
  }
}

// Who touched which bytes of one block last.
class LastTouched {
 public:
  // Adds to `needed` whom an access comes after, and notes it as done by `instruction`.
  void touch(const ByteAccess& access, Lane lane, std::uint32_t instruction, Front& needed) {
    cut(access.begin.count);
    cut(access.end.count);
    const auto first = pieces_.lower_bound(access.begin.count);
    const auto last = pieces_.lower_bound(access.end.count);
    for (auto piece = first; piece != last; ++piece) {
      advance(needed, piece->second.wrote);
      if (access.writes) {
        advance(needed, piece->second.read);
      } else {
        piece->second.read[index_of(lane)] = instruction + 1;
      }
    }
    if (!access.writes) return;
    // Whoever comes after this write comes after all before it: one piece is enough.
    pieces_.erase(std::next(first), last);
    first->second = Piece{};
    first->second.wrote[index_of(lane)] = instruction + 1;
  }

 private:
  struct Piece {
    Front wrote{};
    Front read{};  // since then
  };

  // Lets a piece begin here.
  void cut(std::int64_t at) {
    const auto after = pieces_.upper_bound(at);
    if (after == pieces_.begin()) {
      pieces_.emplace_hint(after, at, Piece{});
      return;
    }
    const auto before = std::prev(after);
    if (before->first != at) pieces_.emplace_hint(after, at, Piece(before->second));
  }

  std::map<std::int64_t, Piece> pieces_;  // by first byte; each goes on to the next one
};

class Waits {
 public:
  Waits(const Graph& graph, Program& program)
      : graph_(graph), program_(program), instruction_of_(graph.node_count(), kNone) {}

  void add() {
    program_.waits.clear();
    done_with_.reserve(program_.instructions.size());
    for (std::uint32_t i = 0; i < program_.instructions.size(); ++i) {
      Instruction& instruction = program_.instructions[i];
      instruction_of_[instruction.node.index()] = i;
      const std::size_t lane = index_of(instruction.lane);
      Front needed = needed_by(i);
      needed[lane] = 0;  // its own lane keeps its order
      Front& front = lanes_[lane];
      instruction.first_wait = static_cast<std::uint32_t>(program_.waits.size());
      for (const std::uint32_t number : worth_waiting_for(needed, front)) {
        program_.waits.push_back(number - 1);
        advance(front, done_with_[number - 1]);
      }
      instruction.wait_count =
          static_cast<std::uint32_t>(program_.waits.size()) - instruction.first_wait;
      front[lane] = i + 1;
      done_with_.push_back(front);
    }
  }

 private:
  static constexpr std::uint32_t kNone = static_cast<std::uint32_t>(-1);

  Front needed_by(std::uint32_t i) {
    const Instruction& instruction = program_.instructions[i];
    Front needed{};
    for (const ByteAccess& access : accesses_of(graph_, program_, instruction)) {
      (access.is_on_host ? host_ : arena_).touch(access, instruction.lane, i, needed);
    }
    for (const NodeId before : graph_.controls(instruction.node)) {
      const std::uint32_t awaited = instruction_of_[before.index()];
      if (awaited == kNone) continue;  // nothing runs for it
      std::uint32_t& mine = needed[index_of(program_.instructions[awaited].lane)];
      mine = std::max(mine, awaited + 1);
    }
    return needed;
  }

  // Those that are neither done by now, nor when another one of them is.
  [[nodiscard]] std::vector<std::uint32_t> worth_waiting_for(const Front& needed,
                                                             const Front& front) const {
    std::vector<std::uint32_t> worth;
    for (std::size_t lane = 0; lane < kLaneCount; ++lane) {
      if (needed[lane] <= front[lane]) continue;
      const bool implied = std::any_of(needed.begin(), needed.end(), [&](std::uint32_t other) {
        return other != 0 && other != needed[lane] && done_with_[other - 1][lane] >= needed[lane];
      });
      if (!implied) worth.push_back(needed[lane]);
    }
    return worth;
  }

  const Graph& graph_;
  Program& program_;
  LastTouched arena_;
  LastTouched host_;
  std::vector<std::uint32_t> instruction_of_;  // by node
  std::array<Front, kLaneCount> lanes_{};      // how far each lane sees the others
  std::vector<Front> done_with_;               // by instruction: what is done when it is
};

}  // namespace

void add_waits(const Graph& graph, Program& program) { Waits(graph, program).add(); }

}  // namespace ebb
