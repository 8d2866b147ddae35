// The lanes of a program at work: what is put into one runs in its order, side by side with what is
// put into the others.
//
//   lanes.begin(count, is_timed);
//   lanes.wait(Lane::kToHost, 3);         // what comes next in this lane starts after 3 is done
//   lanes.start(Lane::kToHost, 7);
//   lanes.copy(Lane::kToHost, to, from, size);
//   lanes.finish(Lane::kToHost, 7);       // 7 is what was put there since start
//   Status ok = lanes.end();
//
// The executor puts in each lane's instructions in the order of the program, each after all that it
// waits for, and copies as soon as that is so: a kernel may be done before the call returns, and
// what was put in after it could not run beside it.
// What a kernel does while it is called is in the compute lane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/base/units.h"
#include "ebb/plan/timeline.h"

namespace ebb::exec {

// From when to when an instruction ran, counted from the begin of its step.
struct Interval {
  Duration start{};
  Duration end{};
};

class Lanes {
 public:
  Lanes() = default;
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;
  virtual ~Lanes() = default;

  // A step of so many instructions begins; what was put in before is done before it.
  virtual void begin(std::size_t instructions, bool is_timed) = 0;
  virtual void wait(Lane lane, std::uint32_t instruction) = 0;
  virtual void start(Lane lane, std::uint32_t instruction) = 0;
  virtual void copy(Lane lane, std::byte* to, const std::byte* from, std::size_t size) = 0;
  virtual void finish(Lane lane, std::uint32_t instruction) = 0;
  // Whether something could not be put in since begin: end() says what, and nothing more is worth
  // putting in.
  [[nodiscard]] virtual bool has_failed() const { return false; }
  // All lanes meet: what the caller does next in the compute lane comes after everything. Must be
  // called for a step that was begun, even if not all of its instructions were put in.
  [[nodiscard]] virtual Status end() = 0;

  // Some lanes can keep a step as they were given it, numbers that kernels were called with
  // included, and do it at less cost: keep_next() before begin, then replay() for each step. What
  // is put in to be kept is not done before replay(), so that half a step is never done. What
  // cannot be kept is an error of end(). Where keep_next() says no, because others are at work, the
  // next step is one like all; drop_next() where no step was begun after all, or not all of it was
  // put in. An error of replay() means that nothing was done; what fails later is an error of
  // whatever is asked next.
  [[nodiscard]] virtual bool can_keep() const { return false; }
  [[nodiscard]] virtual bool keep_next() { return false; }
  virtual void drop_next() {}
  [[nodiscard]] virtual Status replay() { return settle(); }

  // Returns when everything is done.
  [[nodiscard]] virtual Status settle() = 0;
  // Of the last step, if it was timed; settles. Instructions that were not put in have none.
  [[nodiscard]] virtual Result<std::vector<Interval>> times() = 0;
};

}  // namespace ebb::exec
