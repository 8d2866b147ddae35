// "ebb: planning … 5 s" on a terminal, when something has taken more than two seconds. Nothing is
// printed into files and pipes, and the line is wiped when the stage is over.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace ebb {

class Progress {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `since`: when what the user waits for began, of which this may be one stage.
  explicit Progress(std::string stage, Time since = std::chrono::steady_clock::now());
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // What it says from now on.
  void update(std::string stage);

 private:
  void watch();

  std::string stage_;
  Time since_;
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread watcher_;  // not started unless standard error is a terminal
};

}  // namespace ebb
