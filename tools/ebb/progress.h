// The stages of a command, told on a terminal when the command has taken more than two seconds.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "ebb/base/progress.h"

namespace ebb::tool {

inline const ebb::Progress::Time kStart = std::chrono::steady_clock::now();

class Progress : public ebb::Progress {
 public:
  explicit Progress(std::string stage) : ebb::Progress(std::move(stage), kStart) {}
};

}  // namespace ebb::tool
