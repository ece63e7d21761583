// Small floats: exact widening and round-to-nearest-even narrowing, by value, one generic routine over (exponent,
// mantissa) widths.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace tenon {

inline float bf16_to_f32(uint16_t b) { return std::bit_cast<float>(static_cast<uint32_t>(b) << 16); }

inline uint16_t f32_to_bf16(float f) {
  auto u = std::bit_cast<uint32_t>(f);
  if (std::isnan(f)) return static_cast<uint16_t>(u >> 16 | 0x40);
  return static_cast<uint16_t>((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

inline float f16_to_f32(uint16_t h) {
  uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 0x3FF;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000 | mantissa << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // exact
  return sign ? -magnitude : magnitude;
}

// What a format does with exponent and mantissa all ones, and beyond its largest value.
enum class Specials : uint8_t {
  ieee,  // infinities and NaNs in the top exponent
  fn,    // no infinity; only the all-ones code is NaN (E4M3FN)
  fnuz,  // no infinity, no negative zero; the code of -0 is NaN
  none,  // every code is a number (F6, F4)
};

struct SmallFloat {
  int exponent_bits, mantissa_bits, bias;
  Specials specials;
};
constexpr SmallFloat kF16{5, 10, 15, Specials::ieee};
constexpr SmallFloat kF8E4M3{4, 3, 7, Specials::fn};
constexpr SmallFloat kF8E5M2{5, 2, 15, Specials::ieee};
constexpr SmallFloat kF8E4M3Fnuz{4, 3, 8, Specials::fnuz};
constexpr SmallFloat kF8E5M2Fnuz{5, 2, 16, Specials::fnuz};
constexpr SmallFloat kF8E4M3Ieee{4, 3, 7, Specials::ieee};
constexpr SmallFloat kF8E3M4Ieee{3, 4, 3, Specials::ieee};
constexpr SmallFloat kF6E2M3{2, 3, 1, Specials::none};
constexpr SmallFloat kF6E3M2{3, 2, 3, Specials::none};
constexpr SmallFloat kF4E2M1{2, 1, 1, Specials::none};

inline float small_to_f32(SmallFloat f, uint32_t code) {
  const uint32_t mantissas = 1u << f.mantissa_bits, exponents = 1u << f.exponent_bits;
  bool negative = code >> (f.exponent_bits + f.mantissa_bits) & 1;
  uint32_t exponent = code >> f.mantissa_bits & (exponents - 1), mantissa = code & (mantissas - 1);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  if (f.specials == Specials::fnuz && negative && exponent == 0 && mantissa == 0) return nan;
  if (f.specials == Specials::fn && exponent == exponents - 1 && mantissa == mantissas - 1) return nan;
  if (f.specials == Specials::ieee && exponent == exponents - 1) {
    if (mantissa) return nan;
    return negative ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
  }
  float value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), 1 - f.bias - f.mantissa_bits)
                              : std::ldexp(static_cast<float>(mantissa + mantissas),
                                           static_cast<int>(exponent) - f.bias - f.mantissa_bits);
  return negative ? -value : value;
}

// Nearest code, ties to even. Overflow: infinity or NaN where the format has one, else the largest value; `saturate`
// always the largest.
inline uint32_t f32_to_small(SmallFloat f, float x, bool saturate = false) {
  const uint32_t mantissas = 1u << f.mantissa_bits, exponents = 1u << f.exponent_bits, top = exponents - 1;
  const uint32_t sign = std::signbit(x) ? 1u << (f.exponent_bits + f.mantissa_bits) : 0;
  const uint32_t largest = f.specials == Specials::ieee ? (top << f.mantissa_bits) - 1
                           : f.specials == Specials::fn ? (top << f.mantissa_bits | (mantissas - 2))
                                                        : (exponents << f.mantissa_bits) - 1;
  const uint32_t nan = f.specials == Specials::ieee   ? top << f.mantissa_bits | mantissas >> 1
                       : f.specials == Specials::fn   ? (exponents << f.mantissa_bits) - 1
                       : f.specials == Specials::fnuz ? 1u << (f.exponent_bits + f.mantissa_bits)
                                                      : largest;
  const uint32_t overflow = f.specials == Specials::ieee   ? sign | top << f.mantissa_bits
                            : f.specials == Specials::none ? sign | largest
                            : f.specials == Specials::fnuz ? nan
                                                           : sign | nan;
  if (std::isnan(x)) return f.specials == Specials::fnuz ? nan : sign | nan;
  double a = std::abs(static_cast<double>(x));
  if (std::isinf(x)) return saturate ? sign | largest : overflow;
  if (a == 0) return f.specials == Specials::fnuz ? 0 : sign;
  int exponent;
  std::frexp(a, &exponent);  // a = m * 2^exponent, m in [0.5, 1)
  int unit = std::max(exponent - 1, 1 - f.bias) - f.mantissa_bits;
  double scaled = std::ldexp(a, -unit);     // exact; the integer part is the code's significand
  double rounded = std::nearbyint(scaled);  // the default mode: ties to even
  auto significand = static_cast<uint64_t>(rounded);
  // A significand of 2 * mantissas moves to the next exponent by itself.
  int64_t biased = unit + f.mantissa_bits + f.bias;  // of significands in [mantissas, 2 * mantissas)
  uint64_t code = significand < mantissas
                      ? significand
                      : ((static_cast<uint64_t>(biased) << f.mantissa_bits) + (significand - mantissas));
  if (code > largest) return saturate ? sign | largest : overflow;
  if (code == 0 && f.specials == Specials::fnuz) return 0;
  return sign | static_cast<uint32_t>(code);
}

inline uint16_t f32_to_f16(float x) {
  if (std::isnan(x)) return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16 & 0x8000) | 0x7E00;
  return static_cast<uint16_t>(f32_to_small(kF16, x));
}

// E8M0: 2^(code - 127), no sign; 255 is NaN.
inline float e8m0_to_f32(uint8_t code) {
  if (code == 255) return std::numeric_limits<float>::quiet_NaN();
  return code == 0 ? 0x1p-127f : std::bit_cast<float>(static_cast<uint32_t>(code) << 23);
}

// Nearest power of two as ml_dtypes rounds: halfway goes up, below the smallest normal float anything over 2^-127 does
// too. What is not positive and finite is NaN.
inline uint8_t f32_to_e8m0(float x) {
  auto bits = std::bit_cast<uint32_t>(x);
  if (!(x > 0) || std::isinf(x)) return 255;
  if (bits < 0x00800000) return bits > 0x00400000 ? 1 : 0;
  return static_cast<uint8_t>((bits + 0x00400000) >> 23);
}

// The power of two at or below x > 0: the block scale rule of MX quantisers.
inline uint8_t e8m0_floor(float x) { return static_cast<uint8_t>(std::bit_cast<uint32_t>(x) >> 23); }

// ggml's MXFP4 scale: half of the E8M0 value (its code values are doubled); 255 is 2^127.
inline float mxfp4_scale(uint8_t e) {
  return std::bit_cast<float>(e < 2 ? 0x00200000u << e : static_cast<uint32_t>(e - 1) << 23);
}

// ggml's NVFP4 scale: half of an unsigned E4M3; 0 and 0x7F are 0.
inline float nvfp4_scale(uint8_t e) {
  e &= 0x7F;
  return e == 0x7F ? 0.0f : small_to_f32(kF8E4M3, e) * 0.5f;
}

}  // namespace tenon
