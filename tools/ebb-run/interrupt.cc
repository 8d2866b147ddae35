#include "interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string_view>

#include "ebb/base/file.h"

namespace ebb::tool {
namespace {

std::atomic<bool> only_noted = false;
std::atomic<bool> noted = false;
std::atomic<bool> on_terminal = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may not wait");

void on_signal(int /*signal*/) {
  if (only_noted && !noted) {
    noted = true;
    return;
  }
  // On a terminal the line has begun with the progress, or with ^C.
  write_to_stderr(on_terminal ? std::string_view("\nebb: interrupted\n")
                              : std::string_view("ebb: interrupted\n"));
  ::_exit(kInterruptedStatus);
}

}  // namespace

void watch_for_interrupt() {
  on_terminal = ::isatty(STDERR_FILENO) == 1;
  struct sigaction before{};
  if (::sigaction(SIGINT, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) return;
  struct sigaction action{};
  action.sa_handler = &on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
}

void note_interrupts_from_now_on() { only_noted = true; }

bool was_interrupted() { return noted.load(std::memory_order_relaxed); }

}  // namespace ebb::tool
