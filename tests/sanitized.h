// Under a sanitizer everything takes ten times as long: tests that try many cases try fewer.
#pragma once

namespace ebb {

#ifdef EBB_SANITIZED  // by CMake: gcc and clang say it in different ways
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// What races on purpose cannot be tried under the thread sanitizer, which says so itself.
#ifdef EBB_THREAD_SANITIZED
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif

}  // namespace ebb
