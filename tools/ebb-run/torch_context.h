// PyTorch's settings for the whole process: its threads, the kernels it may choose, and the
// generator that random operations on the CPU draw from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ebb/base/result.h"

namespace ebb::tool {

// Threads that one operation may use. Sums depend on it in their last bits.
void set_thread_count(int count);

// As torch.use_deterministic_algorithms(True).
void use_deterministic_algorithms();

// As torch.manual_seed.
inline constexpr std::uint64_t kDefaultSeed = 67280421310721;  // of a torch.Generator()
void seed_generator(std::uint64_t seed);

// As torch.get_rng_state and torch.set_rng_state. kBadInput when it is no such state.
std::vector<std::byte> generator_state();
[[nodiscard]] Status set_generator_state(std::span<const std::byte> state);

}  // namespace ebb::tool
