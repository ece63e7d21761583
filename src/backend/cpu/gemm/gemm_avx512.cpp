// AVX-512 with VNNI. The same bits as AVX2's: integer sums are exact, floats take one order.
#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "backend/cpu/gemm/kernels.h"
#include "tensor/quant/expand.h"
#include "tensor/quant/groups.h"

#define TENON_TARGET "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c"
#include "backend/cpu/target-begin.h"

namespace tenon::cpu {
namespace {

#include "backend/cpu/gemm/unrolled-inl.h"

#include "backend/cpu/gemm/transpose_avx512-inl.h"

constexpr int kCodeRows = 6, kFloatRows = 8, kHalves = 2, kPanelRows = 8, kFewRows = 16;
constexpr bool kWideSigned = false;

struct Words {  // 16 dwords, or 64 bytes
  __m512i v;
};
struct Floats {
  __m512 v;
};

TENON_INLINE Words splat(uint32_t x) { return {_mm512_set1_epi32(static_cast<int>(x))}; }
TENON_INLINE Words load_words(const void* p) { return {_mm512_loadu_si512(p)}; }
TENON_INLINE void store(void* p, Words w) { _mm512_storeu_si512(p, w.v); }
TENON_INLINE Words operator&(Words a, Words b) { return {_mm512_and_si512(a.v, b.v)}; }
TENON_INLINE Words operator|(Words a, Words b) { return {_mm512_or_si512(a.v, b.v)}; }
TENON_INLINE Words operator^(Words a, Words b) { return {_mm512_xor_si512(a.v, b.v)}; }
TENON_INLINE Words operator-(Words a, Words b) { return {_mm512_sub_epi32(a.v, b.v)}; }
TENON_INLINE Words operator<<(Words a, unsigned n) { return {(__m512i)((__v16su)a.v << n)}; }
TENON_INLINE Words operator>>(Words a, unsigned n) { return {(__m512i)((__v16su)a.v >> n)}; }
TENON_INLINE Words signed_shift(Words a, unsigned n) { return {(__m512i)((__v16si)a.v >> n)}; }
TENON_INLINE Words min(Words a, Words b) { return {_mm512_min_epi32(a.v, b.v)}; }
TENON_INLINE Words max(Words a, Words b) { return {_mm512_max_epi32(a.v, b.v)}; }

// 16 bytes, four times.
TENON_INLINE Words repeat16(const uint8_t* bytes) {
  return {_mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(bytes)))};
}
// table[byte] for bytes below 16.
TENON_INLINE Words lookup(Words table, Words bytes) { return {_mm512_shuffle_epi8(table.v, bytes.v)}; }
// In each 16 bytes: a byte of the first, one of the second, and so on.
TENON_INLINE void interleave_bytes(Words (&w)[2]) {
  const __m512i first = _mm512_unpacklo_epi8(w[0].v, w[1].v);
  w[1].v = _mm512_unpackhi_epi8(w[0].v, w[1].v);
  w[0].v = first;
}

// Bits 4j .. 4j+3 of each dword as 0x10 in its bytes 0..3.
TENON_INLINE Words fifth_bits(Words bits, int j) {
  __m512i pick = _mm512_add_epi8(_mm512_set4_epi32(0x0C0C0C0C, 0x08080808, 0x04040404, 0),
                                 _mm512_set1_epi8(static_cast<char>(j / 2)));
  __m512i spread = _mm512_shuffle_epi8(bits.v, pick);
  __mmask64 set = _mm512_test_epi8_mask(spread, _mm512_set1_epi32(j % 2 ? static_cast<int>(0x80402010) : 0x08040201));
  return {_mm512_maskz_mov_epi8(set, _mm512_set1_epi8(0x10))};
}

TENON_INLINE Floats splat(float x) { return {_mm512_set1_ps(x)}; }
TENON_INLINE Floats load_floats(const float* p) { return {_mm512_loadu_ps(p)}; }
TENON_INLINE void store(float* p, Floats f) { _mm512_storeu_ps(p, f.v); }
TENON_INLINE Floats operator+(Floats a, Floats b) { return {_mm512_add_ps(a.v, b.v)}; }
TENON_INLINE Floats operator*(Floats a, Floats b) { return {_mm512_mul_ps(a.v, b.v)}; }
TENON_INLINE Floats fma(Floats a, Floats b, Floats c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
TENON_INLINE Floats to_floats(Words w) { return {_mm512_cvtepi32_ps(w.v)}; }
TENON_INLINE Floats as_floats(Words w) { return {_mm512_castsi512_ps(w.v)}; }
TENON_INLINE Floats negate(Floats f) { return as_floats(Words{_mm512_castps_si512(f.v)} ^ splat(0x80000000u)); }

// f16 in the low half of each dword.
TENON_INLINE Floats f16_low(Words w) { return {_mm512_cvtph_ps(_mm512_cvtepi32_epi16(w.v))}; }
TENON_INLINE Floats f16_at(const void* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
}
// 16 16-bit numbers, zero-extended.
TENON_INLINE Words halves_at(const void* p) {
  return {_mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
}
TENON_INLINE Floats bf16_at(const void* p) { return as_floats(halves_at(p) << 16); }

// The bits of the largest |x|.
TENON_INLINE uint32_t largest_magnitude(Floats a, Floats b) {
  const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
  __m512i x = _mm512_and_si512(_mm512_castps_si512(a.v), magnitude),
          y = _mm512_and_si512(_mm512_castps_si512(b.v), magnitude);
  return static_cast<uint32_t>(_mm512_reduce_max_epi32(_mm512_max_epi32(x, y)));
}
TENON_INLINE Words to_codes(Floats r) {
  return {_mm512_cvtps_epi32(_mm512_max_ps(_mm512_min_ps(r.v, _mm512_set1_ps(127.0f)), _mm512_set1_ps(-127.0f)))};
}
TENON_INLINE void store_codes(int8_t* p, Words w) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(w.v));
}
TENON_INLINE int32_t total(Words w) { return _mm512_reduce_add_epi32(w.v); }

// out[j] lane r = dword j of row r.
TENON_INLINE void transpose_rows(const std::byte* rows, int64_t stride, Words (&out)[4]) {
  __m512i v[4];
  transpose_rows(rows, stride, v);
  unrolled<4>([&](int j) TENON_LAMBDA { out[j] = {v[j]}; });
}

// One dword of each of 16 rows.
TENON_INLINE Words row_words(const std::byte* rows, int64_t stride) {
  auto four = [&](const std::byte* p) __attribute__((always_inline)) {
    int w[4];
    for (int r = 0; r < 4; ++r) std::memcpy(&w[r], p + r * stride, 4);
    return _mm_set_epi32(w[3], w[2], w[1], w[0]);
  };
  __m512i v = _mm512_castsi128_si512(four(rows));
  v = _mm512_inserti32x4(v, four(rows + 4 * stride), 1);
  v = _mm512_inserti32x4(v, four(rows + 8 * stride), 2);
  return {_mm512_inserti32x4(v, four(rows + 12 * stride), 3)};
}

template <bool kWide>
struct Weights {
  Words codes;
};
template <bool kWide>
TENON_INLINE Weights<kWide> prepare(Words codes) {
  return {codes};
}

// acc + the products of four unsigned codes a lane with four activations.
template <bool kWide>
TENON_INLINE Words dot4(Words acc, Weights<kWide> w, const int8_t* a) {
  int32_t four;
  std::memcpy(&four, a, 4);
  return {_mm512_dpbusd_epi32(acc.v, w.codes.v, _mm512_set1_epi32(four))};
}

#include "backend/cpu/gemm/gemm-inl.h"

}  // namespace

extern const GemmKernels kGemmAvx512Vnni{kFewRows, quantise, code_kernel, float_kernel, unpack_bf16, dot_floats};

}  // namespace tenon::cpu

#include "backend/cpu/target-end.h"
#endif
