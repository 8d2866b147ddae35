// Threads that work like the streams of a GPU: each runs what is put into its queue one after the
// other, and an operation also waits for those that it is said to come after.
//
// The thread sanitizer is shown the order that is promised, and no more: what is put in comes after
// what the caller did, an operation after those it waits for, and a caller who waited after what he
// waited for. Locks of our own are hidden from it (Unseen), because they would put operations in
// order that nothing puts in order on a GPU. AccessOrder is shown the same order.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "tests/exec/access_order.h"

namespace ebb {

// While there is one, the thread sanitizer does not look at what this thread does.
class Unseen {
 public:
  Unseen();
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
  ~Unseen();  // NOLINT(performance-trivially-destructible): not under that sanitizer
};

// What is to be done. May be done several times.
struct Job {
  std::string name;
  std::vector<Touch> touches;
  std::function<void()> run;  // may be null; what it throws is a fault
};

struct Operation {
  // Who makes one hands over all that it has done until now.
  [[nodiscard]] static std::shared_ptr<Operation> make(Job job = {});

  Job job;
  Moment moment;
  std::vector<std::shared_ptr<Operation>> after;  // until it is done
  std::vector<std::uint32_t> awaited_by;          // workers
  std::chrono::microseconds dawdle{};
  bool is_done = false;
  std::chrono::steady_clock::time_point end;
};

using OperationPtr = std::shared_ptr<Operation>;

class StreamWorkers {
 public:
  // The one of the process; its threads end with it.
  static StreamWorkers& get();

  // A worker that nobody else has, and one that is wanted no more.
  [[nodiscard]] std::uint32_t take();
  void give_back(std::uint32_t worker);

  void put(std::uint32_t worker, const OperationPtr& operation, std::vector<OperationPtr> after);
  void wait(const OperationPtr& operation);
  [[nodiscard]] bool is_done(const Operation& operation);
  void wait_for_all();

  // Whether what is put into the worker next comes after it anyhow.
  [[nodiscard]] bool is_after(std::uint32_t worker, const Operation& operation);
  // Who is not done yet and touches some of the bytes; empty for nobody.
  [[nodiscard]] std::string user_of(const std::byte* begin, std::size_t size);

  // From now on operations dawdle at random, each seed in another way; 0: none does.
  void dawdle(std::uint64_t seed);
  // Since the last time: what AccessOrder says, and what jobs threw.
  [[nodiscard]] std::vector<std::string> take_races();
  [[nodiscard]] std::vector<std::string> take_faults();
  void add_fault(std::string fault);

 private:
  struct Worker {
    std::condition_variable changed;  // its queue, or what the first one there waits for
    std::deque<OperationPtr> queue;   // the first may be at work
    OperationPtr last;                // that was put in
    VectorClock clock;                // its own
  };

  void work(Worker& worker);
  void end(Worker& worker);  // of the first in its queue
  void run(Operation& operation);

  std::mutex mutex_;              // guards everything
  std::condition_variable done_;  // some operation
  std::deque<Worker> workers_;
  std::vector<std::uint32_t> free_;
  // What callers have waited for. One for all threads: what they tell one another is not known.
  VectorClock host_;
  AccessOrder order_;
  std::vector<std::string> faults_;
  std::mt19937_64 dice_;
  bool dawdles_ = false;
};

}  // namespace ebb
