// What comes before what among operations of several workers, and which two touch the same bytes,
// one of them writing, with nothing that puts them in order: whatever the clock on the wall says,
// and whoever happened to be first.
//
// Vector clocks: an operation knows how many operations of each worker have ended for sure when it
// has. O(workers) for each operation, O(accesses that no later one stands for) to note one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ebb {

using VectorClock = std::vector<std::uint32_t>;  // by worker; what is missing is zero

void join(VectorClock& clock, const VectorClock& other);

struct Touch {
  const std::byte* begin = nullptr;
  std::size_t size = 0;
  bool writes = false;
};

// Where an operation stands: the number of its own, which counts from one, and who is before it.
struct Moment {
  std::uint32_t worker = 0;
  VectorClock clock;

  [[nodiscard]] std::uint32_t number() const { return clock[worker]; }
  [[nodiscard]] bool is_before(const VectorClock& later) const {
    return worker < later.size() && number() <= later[worker];
  }
};

class AccessOrder {
 public:
  // Operations must come in an order in which they could run.
  void note(const Moment& moment, const std::string& name, std::span<const Touch> touches);
  // All that is noted from now on comes after these.
  void forget_before(const VectorClock& clock);

  // "'a' and 'b' touch 32 bytes in any order", since the last time.
  [[nodiscard]] std::vector<std::string> take_races();

 private:
  struct Access {
    Touch touch;
    std::uint32_t worker = 0;
    std::uint32_t number = 0;
    std::string name;
  };

  [[nodiscard]] static bool is_before(const Access& access, const VectorClock& clock);

  std::vector<Access> accesses_;
  std::vector<std::string> races_;
};

}  // namespace ebb
