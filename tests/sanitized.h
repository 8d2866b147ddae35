// Under a sanitizer everything takes ten times as long: tests that try many cases try fewer.
#pragma once

namespace ebb {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace ebb
