// Arithmetic on sizes that come from files: overflow is an Error, never a wrap.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/error.h"

namespace tenon {

inline uint64_t checked_mul(uint64_t a, uint64_t b, std::string_view what) {
  uint64_t r;
  if (__builtin_mul_overflow(a, b, &r)) fail(ErrorCode::invalid_file, "{}: {} x {} overflows", what, a, b);
  return r;
}

inline uint64_t checked_add(uint64_t a, uint64_t b, std::string_view what) {
  uint64_t r;
  if (__builtin_add_overflow(a, b, &r)) fail(ErrorCode::invalid_file, "{}: {} + {} overflows", what, a, b);
  return r;
}

template <class To, class From>
To checked_cast(From value, std::string_view what) {
  To r = static_cast<To>(value);
  if (static_cast<From>(r) != value || ((r < To{}) != (value < From{})))
    fail(ErrorCode::invalid_file, "{}: {} is out of range", what, value);
  return r;
}

// Number of elements of a shape; every dimension must be >= 0 and the product must fit int64.
inline int64_t checked_elements(std::span<const int64_t> shape, std::string_view what) {
  int64_t n = 1;
  for (int64_t d : shape) {
    if (d < 0) fail(ErrorCode::invalid_file, "{}: negative dimension {}", what, d);
    if (__builtin_mul_overflow(n, d, &n)) fail(ErrorCode::invalid_file, "{}: the shape's product overflows", what);
  }
  return n;
}

constexpr uint64_t round_up(uint64_t n, uint64_t multiple) { return (n + multiple - 1) / multiple * multiple; }
constexpr int64_t ceil_div(int64_t n, int64_t d) { return (n + d - 1) / d; }

}  // namespace tenon
