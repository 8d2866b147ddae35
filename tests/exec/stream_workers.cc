#include "tests/exec/stream_workers.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#include <fmt/format.h>

#ifdef EBB_THREAD_SANITIZED
// The thread sanitizer's own; it has no header for all of them.
extern "C" {
void __tsan_acquire(void* address);                          // NOLINT
void __tsan_release(void* address);                          // NOLINT
void AnnotateIgnoreSyncBegin(const char* file, int line);    // NOLINT
void AnnotateIgnoreSyncEnd(const char* file, int line);      // NOLINT
void AnnotateIgnoreReadsBegin(const char* file, int line);   // NOLINT
void AnnotateIgnoreReadsEnd(const char* file, int line);     // NOLINT
void AnnotateIgnoreWritesBegin(const char* file, int line);  // NOLINT
void AnnotateIgnoreWritesEnd(const char* file, int line);    // NOLINT
}
#endif

namespace ebb {
namespace {

// What a thread did before it hands over comes before what another does after it took over.
void hand_over([[maybe_unused]] Operation* operation) {
#ifdef EBB_THREAD_SANITIZED
  __tsan_release(operation);
#endif
}

void take_over([[maybe_unused]] Operation* operation) {
#ifdef EBB_THREAD_SANITIZED
  __tsan_acquire(operation);
#endif
}

}  // namespace

#ifdef EBB_THREAD_SANITIZED
Unseen::Unseen() {
  AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}

Unseen::~Unseen() {
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
}
#else
Unseen::Unseen() = default;
Unseen::~Unseen() = default;
#endif

OperationPtr Operation::make(Job job) {
  auto made = std::make_unique<Operation>();
  made->job = std::move(job);
  OperationPtr operation(made.release(), [](const Operation* done) {
    const Unseen unseen;  // whoever has it last
    delete done;          // NOLINT(*-owning-memory)
  });
  hand_over(operation.get());
  return operation;
}

StreamWorkers& StreamWorkers::get() {
  static StreamWorkers& workers = *new StreamWorkers;  // NOLINT(*-owning-memory): threads use it
  return workers;
}

std::uint32_t StreamWorkers::take() {
  const Unseen unseen;
  const std::scoped_lock lock(mutex_);
  if (!free_.empty()) {
    const std::uint32_t worker = free_.back();
    free_.pop_back();
    return worker;
  }
  Worker& worker = workers_.emplace_back();
  std::thread([this, &worker] { work(worker); }).detach();
  return static_cast<std::uint32_t>(workers_.size() - 1);
}

void StreamWorkers::give_back(std::uint32_t worker) {
  const Unseen unseen;
  const std::scoped_lock lock(mutex_);
  free_.push_back(worker);
}

void StreamWorkers::put(std::uint32_t worker, const OperationPtr& operation,
                        std::vector<OperationPtr> after) {
  const Unseen unseen;
  const std::scoped_lock lock(mutex_);
  Worker& at = workers_[worker];
  if (at.clock.size() <= worker) at.clock.resize(worker + 1);
  ++at.clock[worker];
  join(at.clock, host_);
  for (const OperationPtr& each : after) {
    join(at.clock, each->moment.clock);
    if (!each->is_done) each->awaited_by.push_back(worker);
  }
  operation->moment = {.worker = worker, .clock = at.clock};
  operation->after = std::move(after);
  if (dawdles_ && dice_() % 4 == 0) operation->dawdle = std::chrono::microseconds(dice_() % 150);
  order_.note(operation->moment, operation->job.name, operation->job.touches);
  at.queue.push_back(operation);
  at.last = operation;
  at.changed.notify_one();
}

void StreamWorkers::work(Worker& worker) {
  while (true) {
    OperationPtr operation;
    {
      const Unseen unseen;
      std::unique_lock lock(mutex_);
      worker.changed.wait(lock, [&] {
        if (worker.queue.empty()) return false;
        const auto& after = worker.queue.front()->after;
        return std::all_of(after.begin(), after.end(),
                           [](const OperationPtr& each) { return each->is_done; });
      });
      operation = worker.queue.front();
    }
    run(*operation);
    const Unseen unseen;
    operation.reset();
    end(worker);
  }
}

void StreamWorkers::end(Worker& worker) {
  const std::scoped_lock lock(mutex_);
  Operation& operation = *worker.queue.front();
  operation.is_done = true;
  operation.job = {};
  operation.after.clear();
  for (const std::uint32_t waiting : operation.awaited_by) workers_[waiting].changed.notify_one();
  worker.queue.pop_front();
  done_.notify_all();
}

void StreamWorkers::run(Operation& operation) {
  take_over(&operation);
  for (const OperationPtr& each : operation.after) take_over(each.get());
  if (operation.dawdle.count() > 0) std::this_thread::sleep_for(operation.dawdle);
  try {
    if (operation.job.run) operation.job.run();
  } catch (const std::exception& exception) {
    add_fault(fmt::format("'{}': {}", operation.job.name, exception.what()));
  }
  operation.end = std::chrono::steady_clock::now();
  hand_over(&operation);
}

void StreamWorkers::wait(const OperationPtr& operation) {
  {
    const Unseen unseen;
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return operation->is_done; });
    join(host_, operation->moment.clock);
    order_.forget_before(host_);
  }
  take_over(operation.get());
}

bool StreamWorkers::is_done(const Operation& operation) {
  const Unseen unseen;
  const std::scoped_lock lock(mutex_);
  return operation.is_done;
}

void StreamWorkers::wait_for_all() {
  std::vector<OperationPtr> last;
  {
    const Unseen unseen;
    const std::scoped_lock lock(mutex_);
    for (const Worker& worker : workers_) {
      if (worker.last != nullptr) last.push_back(worker.last);
    }
  }
  for (const OperationPtr& operation : last) wait(operation);
}

bool StreamWorkers::is_after(std::uint32_t worker, const Operation& operation) {
  const Unseen unseen;
  const std::scoped_lock lock(mutex_);
  return operation.moment.is_before(workers_[worker].clock) || operation.moment.is_before(host_);
}

std::string StreamWorkers::user_of(const std::byte* begin, std::size_t size) {
  const Unseen unseen;
  const std::scoped_lock lock(mutex_);
  for (const Worker& worker : workers_) {
    for (const OperationPtr& operation : worker.queue) {
      for (const Touch& touch : operation->job.touches) {
        if (touch.begin < begin + size && begin < touch.begin + touch.size) {
          return operation->job.name;
        }
      }
    }
  }
  return {};
}

void StreamWorkers::dawdle(std::uint64_t seed) {
  const Unseen unseen;
  const std::scoped_lock lock(mutex_);
  dawdles_ = seed != 0;
  dice_.seed(seed);
}

std::vector<std::string> StreamWorkers::take_races() {
  const Unseen unseen;
  const std::scoped_lock lock(mutex_);
  return order_.take_races();
}

std::vector<std::string> StreamWorkers::take_faults() {
  const Unseen unseen;
  const std::scoped_lock lock(mutex_);
  return std::exchange(faults_, {});
}

void StreamWorkers::add_fault(std::string fault) {
  const Unseen unseen;
  const std::scoped_lock lock(mutex_);
  faults_.push_back(std::move(fault));
}

}  // namespace ebb
