// "ebb: checking ..." on a terminal, when the command has taken more than two seconds. Nothing is
// printed into files and pipes, and the line is wiped when the stage is over.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace ebb::tool {

class Progress {
 public:
  explicit Progress(std::string stage);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // What it says from now on.
  void update(std::string stage);

 private:
  void watch();

  std::string stage_;
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread watcher_;  // not started unless standard error is a terminal
};

}  // namespace ebb::tool
