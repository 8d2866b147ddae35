#include "ebb/base/progress.h"

#include <unistd.h>

#include <utility>

#include <fmt/format.h>

#include "ebb/base/file.h"

namespace ebb {

Progress::Progress(std::string stage, Time since) : stage_(std::move(stage)), since_(since) {
  if (::isatty(STDERR_FILENO) == 1) watcher_ = std::thread([this] { watch(); });
}

Progress::~Progress() {
  if (!watcher_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
  }
  over_.notify_one();
  watcher_.join();
}

void Progress::update(std::string stage) {
  const std::scoped_lock lock(mutex_);
  stage_ = std::move(stage);
}

void Progress::watch() {
  using std::chrono::seconds;
  std::unique_lock lock(mutex_);
  const auto is_over = [this] { return is_over_; };
  if (over_.wait_until(lock, since_ + seconds(2), is_over)) return;
  do {
    const auto elapsed =
        std::chrono::duration_cast<seconds>(std::chrono::steady_clock::now() - since_);
    write_to_stderr(fmt::format("\r\033[Kebb: {} … {} s", stage_, elapsed.count()));
  } while (!over_.wait_for(lock, seconds(1), is_over));
  write_to_stderr("\r\033[K");
}

}  // namespace ebb
