// AVX2 with FMA and F16C.
#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "backend/cpu/gemm/kernels.h"
#include "tensor/quant/expand.h"
#include "tensor/quant/groups.h"

#define TENON_TARGET "avx2,fma,f16c"
#include "backend/cpu/target-begin.h"

namespace tenon::cpu {
namespace {

#include "backend/cpu/gemm/unrolled-inl.h"

constexpr int kCodeRows = 3, kFloatRows = 4, kHalves = 1, kPanelRows = 2, kFewRows = 4;
// maddubs adds two products in 16 bits, with saturation: unsigned codes above 128 would not fit.
constexpr bool kWideSigned = true;

struct Words {  // 16 dwords, or 64 bytes
  __m256i low, high;
};
struct Floats {
  __m256 low, high;
};

TENON_INLINE Words splat(uint32_t x) {
  return {_mm256_set1_epi32(static_cast<int>(x)), _mm256_set1_epi32(static_cast<int>(x))};
}
TENON_INLINE Words load_words(const void* p) {
  auto* v = static_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(v), _mm256_loadu_si256(v + 1)};
}
TENON_INLINE void store(void* p, Words w) {
  auto* v = static_cast<__m256i*>(p);
  _mm256_storeu_si256(v, w.low);
  _mm256_storeu_si256(v + 1, w.high);
}
#define TENON_BOTH(f) \
  { f(a.low, b.low), f(a.high, b.high) }
TENON_INLINE Words operator&(Words a, Words b) { return TENON_BOTH(_mm256_and_si256); }
TENON_INLINE Words operator|(Words a, Words b) { return TENON_BOTH(_mm256_or_si256); }
TENON_INLINE Words operator^(Words a, Words b) { return TENON_BOTH(_mm256_xor_si256); }
TENON_INLINE Words operator-(Words a, Words b) { return TENON_BOTH(_mm256_sub_epi32); }
TENON_INLINE Words min(Words a, Words b) { return TENON_BOTH(_mm256_min_epi32); }
TENON_INLINE Words max(Words a, Words b) { return TENON_BOTH(_mm256_max_epi32); }
TENON_INLINE Words operator<<(Words a, unsigned n) {
  return {(__m256i)((__v8su)a.low << n), (__m256i)((__v8su)a.high << n)};
}
TENON_INLINE Words operator>>(Words a, unsigned n) {
  return {(__m256i)((__v8su)a.low >> n), (__m256i)((__v8su)a.high >> n)};
}
TENON_INLINE Words signed_shift(Words a, unsigned n) {
  return {(__m256i)((__v8si)a.low >> n), (__m256i)((__v8si)a.high >> n)};
}

// 16 bytes, four times.
TENON_INLINE Words repeat16(const uint8_t* bytes) {
  __m256i t = _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(bytes)));
  return {t, t};
}
// table[byte] for bytes below 16.
TENON_INLINE Words lookup(Words table, Words bytes) {
  return {_mm256_shuffle_epi8(table.low, bytes.low), _mm256_shuffle_epi8(table.high, bytes.high)};
}
// In each 16 bytes: a byte of the first, one of the second, and so on.
TENON_INLINE void interleave_bytes(Words (&w)[2]) {
  const Words a = w[0], b = w[1];
  w[0] = TENON_BOTH(_mm256_unpacklo_epi8);
  w[1] = TENON_BOTH(_mm256_unpackhi_epi8);
}

// Bits 4j .. 4j+3 of each dword as 0x10 in its bytes 0..3.
TENON_INLINE Words fifth_bits(Words bits, int j) {
  const __m256i pick =
      _mm256_add_epi8(_mm256_set_epi32(0x0C0C0C0C, 0x08080808, 0x04040404, 0, 0x0C0C0C0C, 0x08080808, 0x04040404, 0),
                      _mm256_set1_epi8(static_cast<char>(j / 2)));
  const __m256i mask = _mm256_set1_epi32(j % 2 ? static_cast<int>(0x80402010) : 0x08040201);
  auto half = [&](__m256i v) __attribute__((always_inline)) {
    __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(v, pick), mask), mask);
    return _mm256_and_si256(set, _mm256_set1_epi8(0x10));
  };
  return {half(bits.low), half(bits.high)};
}

TENON_INLINE Floats splat(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
TENON_INLINE Floats load_floats(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
TENON_INLINE void store(float* p, Floats f) {
  _mm256_storeu_ps(p, f.low);
  _mm256_storeu_ps(p + 8, f.high);
}
TENON_INLINE Floats operator+(Floats a, Floats b) { return TENON_BOTH(_mm256_add_ps); }
TENON_INLINE Floats operator*(Floats a, Floats b) { return TENON_BOTH(_mm256_mul_ps); }
TENON_INLINE Floats fma(Floats a, Floats b, Floats c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
TENON_INLINE Floats to_floats(Words w) { return {_mm256_cvtepi32_ps(w.low), _mm256_cvtepi32_ps(w.high)}; }
TENON_INLINE Floats as_floats(Words w) { return {_mm256_castsi256_ps(w.low), _mm256_castsi256_ps(w.high)}; }
TENON_INLINE Floats negate(Floats a) {
  Floats b = splat(-0.0f);
  return TENON_BOTH(_mm256_xor_ps);
}

// f16 in the low half of each dword.
TENON_INLINE Floats f16_low(Words w) {
  Words h = w & splat(0xFFFFu);
  __m256i all = _mm256_permute4x64_epi64(_mm256_packus_epi32(h.low, h.high), 0xD8);
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(all)), _mm256_cvtph_ps(_mm256_extracti128_si256(all, 1))};
}
TENON_INLINE Floats f16_at(const void* p) {
  auto* v = static_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(v)), _mm256_cvtph_ps(_mm_loadu_si128(v + 1))};
}
// 16 16-bit numbers, zero-extended.
TENON_INLINE Words halves_at(const void* p) {
  auto* v = static_cast<const __m128i*>(p);
  return {_mm256_cvtepu16_epi32(_mm_loadu_si128(v)), _mm256_cvtepu16_epi32(_mm_loadu_si128(v + 1))};
}
TENON_INLINE Floats bf16_at(const void* p) { return as_floats(halves_at(p) << 16); }

// The bits of the largest |x|.
TENON_INLINE uint32_t largest_magnitude(Floats a, Floats b) {
  __m256i most = _mm256_setzero_si256();
  for (__m256 v : {a.low, a.high, b.low, b.high})
    most = _mm256_max_epi32(most, _mm256_and_si256(_mm256_castps_si256(v), _mm256_set1_epi32(0x7FFFFFFF)));
  __m128i m = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
  m = _mm_max_epi32(m, _mm_unpackhi_epi64(m, m));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_max_epi32(m, _mm_srli_epi64(m, 32))));
}
TENON_INLINE Words to_codes(Floats r) {
  const __m256 top = _mm256_set1_ps(127.0f), bottom = _mm256_set1_ps(-127.0f);
  return {_mm256_cvtps_epi32(_mm256_max_ps(_mm256_min_ps(r.low, top), bottom)),
          _mm256_cvtps_epi32(_mm256_max_ps(_mm256_min_ps(r.high, top), bottom))};
}
TENON_INLINE void store_codes(int8_t* p, Words w) {
  __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(w.low, w.high), 0xD8);
  __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
TENON_INLINE int32_t total(Words w) {
  __m256i s = _mm256_add_epi32(w.low, w.high);
  __m128i t = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
  t = _mm_add_epi32(t, _mm_unpackhi_epi64(t, t));
  return _mm_cvtsi128_si32(t) + _mm_extract_epi32(t, 1);
}

// 16 bytes of each of 16 rows, as four vectors of one dword a row: out[j] lane r = dword j of row r.
TENON_INLINE void transpose_rows(const std::byte* rows, int64_t stride, Words (&out)[4]) {
  auto eight = [&](const std::byte* p, __m256i* to, int step) __attribute__((always_inline)) {
    auto two = [&](int r) __attribute__((always_inline)) {
      __m256i v = _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + r * stride)));
      return _mm256_inserti128_si256(v, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + (r + 4) * stride)), 1);
    };
    __m256i v0 = two(0), v1 = two(1), v2 = two(2), v3 = two(3);
    __m256i a = _mm256_unpacklo_epi32(v0, v1), b = _mm256_unpackhi_epi32(v0, v1);
    __m256i c = _mm256_unpacklo_epi32(v2, v3), d = _mm256_unpackhi_epi32(v2, v3);
    to[0] = _mm256_unpacklo_epi64(a, c);
    to[step] = _mm256_unpackhi_epi64(a, c);
    to[2 * step] = _mm256_unpacklo_epi64(b, d);
    to[3 * step] = _mm256_unpackhi_epi64(b, d);
  };
  __m256i v[8];
  eight(rows, v, 2);
  eight(rows + 8 * stride, v + 1, 2);
  for (int j = 0; j < 4; ++j) out[j] = {v[2 * j], v[2 * j + 1]};
}

// One dword of each of 16 rows.
TENON_INLINE Words row_words(const std::byte* rows, int64_t stride) {
  auto eight = [&](const std::byte* p) __attribute__((always_inline)) {
    int w[8];
    for (int r = 0; r < 8; ++r) std::memcpy(&w[r], p + r * stride, 4);
    return _mm256_set_epi32(w[7], w[6], w[5], w[4], w[3], w[2], w[1], w[0]);
  };
  return {eight(rows), eight(rows + 8 * stride)};
}

// Narrow codes are unsigned; wide ones are signed, and multiplied as |code| * (activation with the code's sign).
template <bool kWide>
struct Weights {
  Words codes, magnitude;
};
template <bool kWide>
TENON_INLINE Weights<kWide> prepare(Words codes) {
  if (!kWide) return {codes, codes};
  return {codes, {_mm256_abs_epi8(codes.low), _mm256_abs_epi8(codes.high)}};
}

// acc + the products of four codes a lane with four activations.
template <bool kWide>
TENON_INLINE Words dot4(Words acc, Weights<kWide> w, const int8_t* a) {
  int32_t four;
  std::memcpy(&four, a, 4);
  const __m256i all = _mm256_set1_epi32(four), ones = _mm256_set1_epi16(1);
  auto half = [&](__m256i sum, __m256i codes, __m256i magnitude) __attribute__((always_inline)) {
    __m256i pairs = _mm256_maddubs_epi16(magnitude, kWide ? _mm256_sign_epi8(all, codes) : all);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
  };
  return {half(acc.low, w.codes.low, w.magnitude.low), half(acc.high, w.codes.high, w.magnitude.high)};
}

#include "backend/cpu/gemm/gemm-inl.h"

}  // namespace

extern const GemmKernels kGemmAvx2{kFewRows, quantise, code_kernel, float_kernel, unpack_bf16, dot_floats};

}  // namespace tenon::cpu

#include "backend/cpu/target-end.h"
#endif
