// The baseline level: vectors of 16 bytes, which every x86-64 and ARM64 has. No fused multiply-add, so its bits are its
// own.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "backend/cpu/gemm/kernels.h"
#include "tensor/half.h"
#include "tensor/quant/expand.h"
#include "tensor/quant/groups.h"

namespace tenon::cpu {
namespace {

#include "backend/cpu/gemm/unrolled-inl.h"

constexpr int kCodeRows = 1, kFloatRows = 2, kHalves = 1, kPanelRows = 1, kFewRows = 1;
constexpr bool kWideSigned = false;

using U32x4 = uint32_t __attribute__((vector_size(16)));
using I32x4 = int32_t __attribute__((vector_size(16)));
using F32x4 = float __attribute__((vector_size(16)));

struct Words {  // 16 dwords, or 64 bytes
  U32x4 a, b, c, d;
};
struct Floats {
  F32x4 a, b, c, d;
};

// f of each quarter of one, two or three vectors.
template <class To, class F, class V, class... More>
TENON_INLINE To quarters(F f, const V& x, const More&... y) {
  return {f(x.a, y.a...), f(x.b, y.b...), f(x.c, y.c...), f(x.d, y.d...)};
}
template <class To, class From>
TENON_INLINE To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

TENON_INLINE Words splat(uint32_t x) {
  U32x4 v = {x, x, x, x};
  return {v, v, v, v};
}
TENON_INLINE Words load_words(const void* p) {
  Words w;
  std::memcpy(&w, p, 64);
  return w;
}
TENON_INLINE void store(void* p, Words w) { std::memcpy(p, &w, 64); }
TENON_INLINE Words operator&(Words x, Words y) {
  return quarters<Words>([](U32x4 a, U32x4 b) { return a & b; }, x, y);
}
TENON_INLINE Words operator|(Words x, Words y) {
  return quarters<Words>([](U32x4 a, U32x4 b) { return a | b; }, x, y);
}
TENON_INLINE Words operator^(Words x, Words y) {
  return quarters<Words>([](U32x4 a, U32x4 b) { return a ^ b; }, x, y);
}
TENON_INLINE Words operator+(Words x, Words y) {
  return quarters<Words>([](U32x4 a, U32x4 b) { return a + b; }, x, y);
}
TENON_INLINE Words operator-(Words x, Words y) {
  return quarters<Words>([](U32x4 a, U32x4 b) { return a - b; }, x, y);
}
TENON_INLINE Words operator<<(Words x, unsigned n) {
  return quarters<Words>([n](U32x4 a) { return a << n; }, x);
}
TENON_INLINE Words operator>>(Words x, unsigned n) {
  return quarters<Words>([n](U32x4 a) { return a >> n; }, x);
}
TENON_INLINE Words signed_shift(Words x, unsigned n) {
  return quarters<Words>([n](U32x4 a) { return (U32x4)((I32x4)a >> static_cast<int>(n)); }, x);
}
TENON_INLINE Words min(Words x, Words y) {
  return quarters<Words>(
      [](U32x4 a, U32x4 b) {
        auto less = (U32x4)(a < b);
        return (a & less) | (b & ~less);
      },
      x, y);
}
TENON_INLINE Words max(Words x, Words y) { return x + y - min(x, y); }

// 16 bytes, four times.
TENON_INLINE Words repeat16(const uint8_t* bytes) {
  U32x4 v;
  std::memcpy(&v, bytes, 16);
  return {v, v, v, v};
}
// table[byte] for bytes below 16.
inline Words lookup(Words table, Words bytes) {
  uint8_t t[64], b[64];
  std::memcpy(t, &table, 64);
  std::memcpy(b, &bytes, 64);
  for (uint8_t& i : b) i = t[i & 15];
  return load_words(b);
}
// In each 16 bytes: a byte of the first, one of the second, and so on.
inline void interleave_bytes(Words (&w)[2]) {
  uint8_t from[2][64], to[2][64];
  std::memcpy(from, w, 128);
  for (int i = 0; i < 64; ++i) {
    const int at = i / 16 * 16 + i % 16 / 2;
    to[0][i] = from[i % 2][at];
    to[1][i] = from[i % 2][at + 8];
  }
  std::memcpy(w, to, 128);
}

// Bits 4j .. 4j+3 of each dword as 0x10 in its bytes 0..3.
TENON_INLINE Words fifth_bits(Words bits, int j) {
  Words b = bits >> static_cast<unsigned>(4 * j) & splat(15u);
  return ((b | b << 7 | b << 14 | b << 21) & splat(0x01010101u)) << 4;
}

TENON_INLINE Floats splat(float x) {
  F32x4 v = {x, x, x, x};
  return {v, v, v, v};
}
TENON_INLINE Floats load_floats(const float* p) { return bits_as<Floats>(load_words(p)); }
TENON_INLINE void store(float* p, Floats f) { std::memcpy(p, &f, 64); }
TENON_INLINE Floats operator+(Floats x, Floats y) {
  return quarters<Floats>([](F32x4 a, F32x4 b) { return a + b; }, x, y);
}
TENON_INLINE Floats operator*(Floats x, Floats y) {
  return quarters<Floats>([](F32x4 a, F32x4 b) { return a * b; }, x, y);
}
TENON_INLINE Floats fma(Floats x, Floats y, Floats z) {
  return quarters<Floats>([](F32x4 a, F32x4 b, F32x4 c) { return a * b + c; }, x, y, z);
}
TENON_INLINE Floats to_floats(Words w) {
  return quarters<Floats>([](U32x4 a) { return __builtin_convertvector((I32x4)a, F32x4); }, w);
}
TENON_INLINE Floats as_floats(Words w) {
  return quarters<Floats>([](U32x4 a) { return (F32x4)a; }, w);
}
TENON_INLINE Words as_words(Floats f) {
  return quarters<Words>([](F32x4 a) { return (U32x4)a; }, f);
}
TENON_INLINE Floats negate(Floats f) { return as_floats(as_words(f) ^ splat(0x80000000u)); }

// f16 in the low half of each dword: exponent and mantissa as those of an f32 that is 2^112 too small, which is exact
// below the normal range too; infinities and NaNs get the largest exponent back.
TENON_INLINE Floats f16_low(Words w) {
  Words magnitude = (w & splat(0x7FFFu)) << 13, sign = (w & splat(0x8000u)) << 16;
  Words finite = as_words(as_floats(magnitude) * splat(0x1p112f));
  Words special = quarters<Words>([](U32x4 a) { return (U32x4)(a >= 0x0F800000u) & 0x7F800000u; }, magnitude);
  return as_floats(finite | special | sign);
}
TENON_INLINE Words halves_at(const void* p) {
  uint16_t h[16];
  std::memcpy(h, p, 32);
  Words w;
  uint32_t v[16];
  for (int i = 0; i < 16; ++i) v[i] = h[i];
  std::memcpy(&w, v, 64);
  return w;
}
TENON_INLINE Floats f16_at(const void* p) { return f16_low(halves_at(p)); }
TENON_INLINE Floats bf16_at(const void* p) { return as_floats(halves_at(p) << 16); }

// The bits of the largest |x|.
inline uint32_t largest_magnitude(Floats a, Floats b) {
  uint32_t most = 0;
  for (Words w : {as_words(a), as_words(b)}) {
    uint32_t bits[16];
    store(bits, w & splat(0x7FFFFFFFu));
    for (uint32_t v : bits) most = v > most ? v : most;
  }
  return most;
}
inline Words to_codes(Floats r) {
  float x[16];
  uint32_t codes[16];
  store(x, r);
  for (int i = 0; i < 16; ++i) {
    float v = x[i] < 127.0f ? x[i] : 127.0f;
    v = v > -127.0f ? v : -127.0f;
    codes[i] =
        static_cast<uint32_t>(static_cast<int32_t>((v + 12582912.0f) - 12582912.0f));  // to the nearest, ties to even
  }
  return load_words(codes);
}
inline void store_codes(int8_t* p, Words w) {
  uint32_t codes[16];
  store(codes, w);
  for (int i = 0; i < 16; ++i) p[i] = static_cast<int8_t>(codes[i]);
}
inline int32_t total(Words w) {
  U32x4 s = w.a + w.b + w.c + w.d;
  return static_cast<int32_t>(s[0] + s[1] + s[2] + s[3]);
}

// 16 bytes of each of 16 rows, as four vectors of one dword a row: out[j] lane r = dword j of row r.
TENON_INLINE void transpose_rows(const std::byte* rows, int64_t stride, Words (&out)[4]) {
  auto four = [&](const std::byte* p, U32x4& to0, U32x4& to1, U32x4& to2, U32x4& to3) TENON_LAMBDA {
    U32x4 v[4];
    for (int r = 0; r < 4; ++r) std::memcpy(&v[r], p + r * stride, 16);
    U32x4 a = __builtin_shufflevector(v[0], v[1], 0, 4, 1, 5), b = __builtin_shufflevector(v[0], v[1], 2, 6, 3, 7);
    U32x4 c = __builtin_shufflevector(v[2], v[3], 0, 4, 1, 5), d = __builtin_shufflevector(v[2], v[3], 2, 6, 3, 7);
    to0 = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    to1 = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    to2 = __builtin_shufflevector(b, d, 0, 1, 4, 5);
    to3 = __builtin_shufflevector(b, d, 2, 3, 6, 7);
  };
  four(rows, out[0].a, out[1].a, out[2].a, out[3].a);
  four(rows + 4 * stride, out[0].b, out[1].b, out[2].b, out[3].b);
  four(rows + 8 * stride, out[0].c, out[1].c, out[2].c, out[3].c);
  four(rows + 12 * stride, out[0].d, out[1].d, out[2].d, out[3].d);
}

// One dword of each of 16 rows.
TENON_INLINE Words row_words(const std::byte* rows, int64_t stride) {
  auto four = [&](const std::byte* p) TENON_LAMBDA {
    uint32_t w[4];
    for (int r = 0; r < 4; ++r) std::memcpy(&w[r], p + r * stride, 4);
    return U32x4{w[0], w[1], w[2], w[3]};
  };
  return {four(rows), four(rows + 4 * stride), four(rows + 8 * stride), four(rows + 12 * stride)};
}

template <bool kWide>
struct Weights {
  Words even, odd;  // bytes 0 and 2, 1 and 3 of each dword, as 16 bits
};
template <bool kWide>
TENON_INLINE Weights<kWide> prepare(Words codes) {
  return {codes & splat(0x00FF00FFu), codes >> 8 & splat(0x00FF00FFu)};
}

// acc + w.low16 * a.low16 + w.high16 * a.high16 of each dword.
TENON_INLINE U32x4 pair_dot(U32x4 acc, U32x4 w, uint32_t a) {
#if defined(__SSE2__)
  return acc + (U32x4)_mm_madd_epi16((__m128i)w, _mm_set1_epi32(static_cast<int>(a)));
#else
  const I32x4 low = ((I32x4)w << 16 >> 16) * static_cast<int32_t>(static_cast<int16_t>(a));
  return acc + (U32x4)(low + ((I32x4)w >> 16) * static_cast<int32_t>(static_cast<int16_t>(a >> 16)));
#endif
}

// acc + the products of four unsigned codes a lane with four activations.
template <bool kWide>
TENON_INLINE Words dot4(Words acc, Weights<kWide> w, const int8_t* a) {
  auto pair = [](int8_t low, int8_t high) TENON_LAMBDA {
    return static_cast<uint32_t>(static_cast<uint16_t>(low)) | static_cast<uint32_t>(static_cast<uint16_t>(high)) << 16;
  };
  const uint32_t even = pair(a[0], a[2]), odd = pair(a[1], a[3]);
  auto both = [&](U32x4 sum, U32x4 e, U32x4 o) TENON_LAMBDA { return pair_dot(pair_dot(sum, e, even), o, odd); };
  return quarters<Words>(both, acc, w.even, w.odd);
}

#include "backend/cpu/gemm/gemm-inl.h"

}  // namespace

extern const GemmKernels kGemmBaseline{kFewRows, quantise, code_kernel, float_kernel, unpack_bf16, dot_floats};

}  // namespace tenon::cpu
