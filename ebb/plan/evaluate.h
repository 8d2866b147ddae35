// What a set of choices means for a step: which lines there are, what they hold, how long it takes.
//
// A gap is the time between two uses of a value, or between its making and the first. The bytes of
// a value may be absent in a gap: they were copied to the host and come back, or are computed
// again. Everything else follows from which gaps are absent, and how:
//
//   1. lines     operations in order; before each one, clones of what it reads and is absent.
//                What a clone reads may be absent or dead as well, and is computed again for it,
//                or comes back earlier, or was not let go.
//   2. memory    what each line holds, if copies took no time.
//   3. swap-ins  from the last to the first: as late as lets the copy end before its reader,
//                but not where a line would hold more than the budget. By TensorFlow's rendezvous
//                above the reader of the one before, where copies can start.
//   4. time      compute and copies (link_clock.h). A line that would exceed the budget waits for
//                swap-outs to end; if none is under way, the choices do not fit. By TensorFlow's
//                rendezvous swap-ins start late, as simulate.h says.
//
// The same choices give the same answer. O(lines) and a little more for swap-ins.
#pragma once

#include <cstdint>
#include <vector>

#include "ebb/plan/clock.h"
#include "ebb/plan/layout.h"
#include "ebb/plan/link_clock.h"
#include "ebb/plan/step_model.h"

namespace ebb {

enum class Means : std::uint8_t { kKeep, kSwap, kRecompute };

struct Gap {
  std::uint32_t value = 0;
  std::uint32_t after = 0;   // the operation that uses it last before
  std::uint32_t before = 0;  // the one that uses it next; kNone: nobody does but clones

  [[nodiscard]] bool is_tail() const { return before == kNone; }
};

// Of values that may be moved or computed again, in the order of values and then of lines. Those
// without an operation inside are not there, nor is what comes before the first use of an input.
// What clones may read has a tail, after its last use.
std::vector<Gap> find_gaps(const StepModel& model);

// By value, and one more: where its gaps begin.
std::vector<std::uint32_t> index_gaps(const StepModel& model, const std::vector<Gap>& gaps);

using Choices = std::vector<Means>;  // by gap
// Everything is kept, but nothing beyond its last use if it can be computed again.
Choices choose_nothing(const StepModel& model, const std::vector<Gap>& gaps);

// One line of the rewritten step that runs code.
struct PlannedLine {
  std::uint32_t operation = 0;
  bool is_clone = false;
  std::uint32_t cloned = kNone;  // the value that a clone is for
};

struct PlannedSwapIn {
  std::uint32_t value = 0;
  std::uint32_t line = 0;        // right above which it stands
  std::uint32_t first_read = 0;  // the line that reads it first
  std::uint32_t earliest = 0;    // the line below the last that used the value
};

struct PlannedSwapOut {
  std::uint32_t value = 0;
  std::uint32_t line = 0;  // right above which it stands
};

// What is kept beyond its last use, for a clone: a tail.
struct Extension {
  std::uint32_t value = 0;
  std::uint32_t first = 0;  // lines
  std::uint32_t last = 0;
};

// How long the bytes of a value are at one place: made there or come back, until they may be
// something else's.
struct PlannedStay {
  std::uint32_t value = 0;
  std::uint32_t first = 0;  // lines, both included
  std::uint32_t last = 0;
  std::uint32_t swap_in = kNone;     // that brought it
  std::uint32_t taken_from = kNone;  // the stay in whose bytes it lies, if that one is_taken
  bool is_taken = false;             // by the result of its last line
  bool is_over = true;               // no: it went on after all, and is there again as another
};

// Who reads which copy: one entry for each line that reads a value that was absent before.
struct PlannedRead {
  std::uint32_t line = 0;   // who reads
  std::uint32_t value = 0;  // what
  std::uint32_t copy = 0;   // the clone's line, or which of the swap-ins
  bool is_clone = false;
};

enum class Verdict : std::uint8_t {
  kFits,
  kTooLong,         // clones of clones without end: nothing else is said
  kOverBudget,      // some line holds more than the device may; there are no times
  kOverHostBudget,  // nor are there here
};

struct Evaluation {
  Verdict verdict = Verdict::kTooLong;
  Duration total{};
  Bytes peak;  // of the lines; when it does not fit, of step 2
  std::uint32_t peak_line = 0;
  Bytes host_peak;
  bool fits_host = true;
  std::vector<PlannedLine> lines;
  std::vector<PlannedSwapIn> ins;    // in the order of `first_read`
  std::vector<PlannedSwapOut> outs;  // in the order of their starts
  std::vector<PlannedRead> reads;
  std::vector<Extension> extensions;
  std::vector<PlannedStay> stays;  // in the order of their ends
  std::vector<Bytes> held;         // by line, as step 2 says
  std::vector<Duration> stalled;   // by value: how long lines waited for its copies
};

inline constexpr Bytes kNoLimit{std::int64_t{1} << 61};

struct EvaluateOptions {
  Bytes budget;
  Bytes host_budget = kNoLimit;
  Clock clock = Clock::kCompleted;
};

// Keeps its memory from one call to the next.
class Evaluator {
 public:
  Evaluator(const StepModel& model, const std::vector<Gap>& gaps, const Link& link,
            const EvaluateOptions& options);

  void set_budget(Bytes budget) { options_.budget = budget; }

  // The result is valid until the next call.
  const Evaluation& evaluate(const Choices& choices);

  // Of the last evaluation, which fits: what has to have a place in the arena beside the state, at
  // which lines. As arena.h will find it in the rewritten step, or nearly so: copies on their way
  // out end above a line, and those on their way in begin below it.
  [[nodiscard]] std::vector<LayoutBuffer> buffers() const;
  // The state: what is there from the start and stays.
  [[nodiscard]] Bytes state_size() const;

 private:
  // Where a value's bytes are, while lines are made.
  struct State {
    bool is_present = false;
    Means absent_by = Means::kKeep;  // how it will come back; kKeep: it was let go for good
    std::uint32_t first_line = 0;    // of the present stay
    std::uint32_t last_line = 0;
    std::uint32_t next_use = 0;  // in uses_of(value)
    std::uint32_t awaited = 0;   // by how many clones whose operands are still being brought
    std::uint32_t copy = kNone;  // which clone or swap-in it is; kNone: the original
    bool is_clone = false;
    bool is_swapped_out = false;
    std::uint32_t copied_out = kNone;  // which of the swap-outs
    std::uint32_t taken_at = kNone;    // the line whose result took its bytes over
    std::uint32_t taken_by = kNone;    // that result
    std::uint32_t took_at = kNone;     // the line at which it took over somebody's bytes itself
    std::uint32_t took_from = kNone;   // the stay whose bytes these are
    std::uint32_t stay = kNone;        // the last that has ended
    std::uint32_t original_stay = kNone;
    std::uint32_t original_last = 0;  // the last line of the original's stay
    bool is_original_taken = false;   // by the result of that line
  };

  bool make_lines();
  bool bring(std::uint32_t value, std::uint32_t operation, int depth);
  bool emit_clone(std::uint32_t value, std::uint32_t operation, int depth);
  void read(std::uint32_t value);
  void leave(std::uint32_t value, std::uint32_t operation);
  void end_stay(std::uint32_t value);
  void hand_over(std::uint32_t value);
  void add_stay(std::uint32_t value, std::uint32_t last);
  void add_swap_out(std::uint32_t value);
  [[nodiscard]] Means means_of_tail(std::uint32_t value) const;
  bool add_memory();
  void place_swap_ins();
  class Walk;  // along the lines, with a clock
  void run();
  bool fits_host();

  const StepModel& model_;
  const std::vector<Gap>& gaps_;
  Link link_;
  EvaluateOptions options_;
  std::vector<std::uint32_t> first_gap_;  // by value
  const Choices* choices_ = nullptr;
  std::vector<State> states_;
  std::vector<Bytes> changes_;          // by line, of what is held
  std::vector<Bytes> transients_;       // by line: workspaces, and what a clone makes besides; less
                                        // what is taken over in place
  std::vector<std::uint32_t> line_of_;  // by operation, the original's
  std::vector<Duration> takes_;         // by line, with the snapshots above it
  std::vector<Duration> starts_;        // by line, if nobody had to wait
  struct Dropped {  // bytes that a swap-out may still be reading below their last line
    std::uint32_t value = 0;
    std::uint32_t last_line = 0;
  };
  std::vector<Dropped> dropped_;
  std::vector<std::uint32_t> leaving_;
  std::vector<std::uint32_t> out_order_;
  std::vector<std::uint32_t> in_order_;
  std::vector<CopyId> out_copies_;
  std::vector<CopyId> in_copies_;
  std::vector<std::uint32_t> last_in_;  // by value
  Evaluation out_;
};

}  // namespace ebb
