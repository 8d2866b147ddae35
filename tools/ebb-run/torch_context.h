// PyTorch's settings for the whole process: its threads, the kernels it may choose, and the
// generator that random operations draw from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ebb/base/result.h"

namespace ebb::tool {

// Threads that one operation may use. Sums depend on it in their last bits.
void set_thread_count(int count);

// As torch.use_deterministic_algorithms(True, warn_only=...).
void use_deterministic_algorithms(bool only_warns);

// As torch.manual_seed.
inline constexpr std::uint64_t kDefaultSeed = 67280421310721;  // of a torch.Generator()
void seed_generator(const std::string& device, std::uint64_t seed);

// As torch.get_rng_state and torch.set_rng_state. kBadInput when it is no such state.
std::vector<std::byte> generator_state(const std::string& device);
[[nodiscard]] Status set_generator_state(const std::string& device,
                                         std::span<const std::byte> state);

// Whether matrix products and convolutions of f32 may round their operands to TF32.
void allow_tf32(bool in_products, bool in_convolutions);

}  // namespace ebb::tool
