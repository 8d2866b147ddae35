#include "ebb/exec/thread_lanes.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

#include "ebb/base/check.h"

namespace ebb::exec {
namespace {

using Clock = std::chrono::steady_clock;

struct Task {
  enum class Kind : std::uint8_t { kWait, kStart, kCopy, kFinish };
  Kind kind = Kind::kWait;
  std::uint32_t instruction = 0;
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t size = 0;
};

constexpr std::array kCopyLanes = {Lane::kToHost, Lane::kToDevice};

}  // namespace

class ThreadLanes::Workers {
 public:
  explicit Workers(const ThreadLanesOptions& options) : options_(options), process_(::getpid()) {}
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  ~Workers() {
    {
      const std::scoped_lock lock(mutex_);
      is_closing_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

  [[nodiscard]] bool are_of_this_process() const { return process_ == ::getpid(); }

  void begin(std::size_t instructions, bool is_timed) {
    const std::scoped_lock lock(mutex_);
    is_done_.assign(instructions, false);
    times_.assign(is_timed ? instructions : 0, Interval{});
    began_ = Clock::now();
  }

  void put(Lane lane, const Task& task) {
    if (lane == Lane::kCompute || !has_thread(lane)) {
      run(lane, task);
      return;
    }
    {
      const std::scoped_lock lock(mutex_);
      queue(lane).push_back(task);
    }
    changed_.notify_all();
  }

  void wait_until_idle() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      for (const Lane lane : kCopyLanes) {
        if (!queue(lane).empty()) return false;
      }
      return true;
    });
  }

  [[nodiscard]] const std::vector<Interval>& times() const { return times_; }

 private:
  std::deque<Task>& queue(Lane lane) { return queues_[static_cast<std::size_t>(lane)]; }

  // Makes it where it is first needed. Where none can be had the caller does its work at once: all
  // that it would wait for has been put in before, and is done or in the hands of a thread.
  bool has_thread(Lane lane) {
    std::thread& thread = threads_[static_cast<std::size_t>(lane)];
    if (thread.joinable()) return true;
    try {
      thread = std::thread([this, lane] { work(lane); });
    } catch (const std::system_error&) {
      return false;
    }
    return true;
  }

  void work(Lane lane) {
    while (true) {
      Task task;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return is_closing_ || !queue(lane).empty(); });
        if (queue(lane).empty()) return;
        task = queue(lane).front();
      }
      run(lane, task);
      {
        // Only now: an empty queue says that all is done.
        const std::scoped_lock lock(mutex_);
        queue(lane).pop_front();
      }
      changed_.notify_all();
    }
  }

  void run(Lane lane, const Task& task) {
    switch (task.kind) {
      case Task::Kind::kWait: {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return is_done_[task.instruction]; });
        return;
      }
      case Task::Kind::kStart:
        // Who has an instruction's time is who runs it; nobody else looks before the end.
        if (!times_.empty()) times_[task.instruction].start = since_begin();
        if (options_.dawdle) options_.dawdle(lane);
        return;
      case Task::Kind::kCopy:
        copy(lane, task);
        return;
      case Task::Kind::kFinish: {
        if (!times_.empty()) times_[task.instruction].end = since_begin();
        const std::scoped_lock lock(mutex_);
        is_done_[task.instruction] = true;
        break;
      }
    }
    changed_.notify_all();
  }

  void copy(Lane lane, const Task& task) const {
    const auto begin = Clock::now();
    std::memcpy(task.to, task.from, task.size);
    if (lane == Lane::kCompute) return;
    const Bandwidth speed = lane == Lane::kToHost ? options_.to_host : options_.to_device;
    if (speed.bytes_per_second <= 0) return;
    const std::chrono::duration<double> takes(static_cast<double>(task.size) /
                                              static_cast<double>(speed.bytes_per_second));
    std::this_thread::sleep_until(begin + std::chrono::duration_cast<Clock::duration>(takes));
  }

  [[nodiscard]] Duration since_begin() const {
    return std::chrono::duration_cast<Duration>(Clock::now() - began_);
  }

  const ThreadLanesOptions& options_;
  pid_t process_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<std::deque<Task>, kLaneCount> queues_;
  std::array<std::thread, kLaneCount> threads_;
  std::vector<bool> is_done_;  // by instruction
  std::vector<Interval> times_;
  Clock::time_point began_;
  bool is_closing_ = false;
};

ThreadLanes::ThreadLanes(ThreadLanesOptions options)
    : options_(std::move(options)), workers_(std::make_unique<Workers>(options_)) {}

ThreadLanes::~ThreadLanes() {
  if (!workers_->are_of_this_process()) forget_workers();
}

void ThreadLanes::forget_workers() {
  workers_.release();  // NOLINT(bugprone-unused-return-value)
}

void ThreadLanes::begin(std::size_t instructions, bool is_timed) {
  if (!workers_->are_of_this_process()) {
    forget_workers();
    workers_ = std::make_unique<Workers>(options_);
  }
  workers_->begin(instructions, is_timed);
}

void ThreadLanes::wait(Lane lane, std::uint32_t instruction) {
  workers_->put(lane, {.kind = Task::Kind::kWait, .instruction = instruction});
}

void ThreadLanes::start(Lane lane, std::uint32_t instruction) {
  workers_->put(lane, {.kind = Task::Kind::kStart, .instruction = instruction});
}

void ThreadLanes::copy(Lane lane, std::byte* to, const std::byte* from, std::size_t size) {
  workers_->put(lane, {.kind = Task::Kind::kCopy, .to = to, .from = from, .size = size});
}

void ThreadLanes::finish(Lane lane, std::uint32_t instruction) {
  workers_->put(lane, {.kind = Task::Kind::kFinish, .instruction = instruction});
}

Status ThreadLanes::end() {
  workers_->wait_until_idle();
  return {};
}

Result<std::vector<Interval>> ThreadLanes::times() { return workers_->times(); }

}  // namespace ebb::exec
