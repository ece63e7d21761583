// The baseline level, plain C++ that any compiler turns into the vectors it has: no fused multiply-add, so its bits are its own.
#include <cmath>
#include <cstring>
#include <utility>

#include "backend/cpu/gemm/kernels.h"
#include "tensor/half.h"
#include "tensor/quant/expand.h"

namespace tenon::cpu {
namespace {

// Without vector registers wide enough to hold them, inlining every operation would only make the code huge.
#define TENON_INLINE inline
#define TENON_LAMBDA

constexpr int kCodeRows = 2, kFloatRows = 2, kHalves = 1;
constexpr bool kWideSigned = false;

struct Words {  // 16 dwords, or 64 bytes
  uint32_t v[16];
};
struct Floats {
  float v[16];
};

template <class To, class F>
TENON_INLINE To each(F f) {
  To out;
  for (int i = 0; i < 16; ++i) out.v[i] = f(i);
  return out;
}

TENON_INLINE Words splat(uint32_t x) {
  return each<Words>([&](int) { return x; });
}
TENON_INLINE Words load_words(const void* p) {
  Words w;
  std::memcpy(&w, p, 64);
  return w;
}
TENON_INLINE void store(void* p, const Words& w) { std::memcpy(p, &w, 64); }
TENON_INLINE Words operator&(const Words& a, const Words& b) {
  return each<Words>([&](int i) { return a.v[i] & b.v[i]; });
}
TENON_INLINE Words operator|(const Words& a, const Words& b) {
  return each<Words>([&](int i) { return a.v[i] | b.v[i]; });
}
TENON_INLINE Words operator^(const Words& a, const Words& b) {
  return each<Words>([&](int i) { return a.v[i] ^ b.v[i]; });
}
TENON_INLINE Words operator+(const Words& a, const Words& b) {
  return each<Words>([&](int i) { return a.v[i] + b.v[i]; });
}
TENON_INLINE Words operator-(const Words& a, const Words& b) {
  return each<Words>([&](int i) { return a.v[i] - b.v[i]; });
}
TENON_INLINE Words operator<<(const Words& a, unsigned n) {
  return each<Words>([&](int i) { return a.v[i] << n; });
}
TENON_INLINE Words operator>>(const Words& a, unsigned n) {
  return each<Words>([&](int i) { return a.v[i] >> n; });
}
TENON_INLINE Words signed_shift(const Words& a, unsigned n) {
  return each<Words>([&](int i) { return static_cast<uint32_t>(static_cast<int32_t>(a.v[i]) >> n); });
}
TENON_INLINE Words min(const Words& a, const Words& b) {
  return each<Words>([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
TENON_INLINE Words max(const Words& a, const Words& b) {
  return each<Words>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}

// table[byte] for bytes below 16.
TENON_INLINE Words lookup(const uint8_t* table, const Words& bytes) {
  uint8_t b[64];
  std::memcpy(b, &bytes, 64);
  for (uint8_t& i : b) i = table[i & 15];
  return load_words(b);
}

// Bits 4j .. 4j+3 of each dword as 0x10 in its bytes 0..3.
TENON_INLINE Words fifth_bits(const Words& bits, int j) {
  Words b = bits >> static_cast<unsigned>(4 * j) & splat(15u);
  return ((b | b << 7 | b << 14 | b << 21) & splat(0x01010101u)) << 4;
}

TENON_INLINE Floats splat(float x) {
  return each<Floats>([&](int) { return x; });
}
TENON_INLINE Floats load_floats(const float* p) {
  Floats f;
  std::memcpy(&f, p, 64);
  return f;
}
TENON_INLINE void store(float* p, const Floats& f) { std::memcpy(p, &f, 64); }
TENON_INLINE Floats operator*(const Floats& a, const Floats& b) {
  return each<Floats>([&](int i) { return a.v[i] * b.v[i]; });
}
TENON_INLINE Floats fma(const Floats& a, const Floats& b, const Floats& c) {
  return each<Floats>([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
}
TENON_INLINE Floats to_floats(const Words& w) {
  return each<Floats>([&](int i) { return static_cast<float>(static_cast<int32_t>(w.v[i])); });
}
TENON_INLINE Floats as_floats(const Words& w) {
  Floats f;
  std::memcpy(&f, &w, 64);
  return f;
}
TENON_INLINE Floats negate(const Floats& f) {
  return each<Floats>([&](int i) { return -f.v[i]; });
}

// f16 in the low half of each dword.
TENON_INLINE Floats f16_low(const Words& w) {
  return each<Floats>([&](int i) { return f16_to_f32(static_cast<uint16_t>(w.v[i])); });
}
TENON_INLINE Floats f16_at(const void* p) {
  uint16_t h[16];
  std::memcpy(h, p, 32);
  return each<Floats>([&](int i) { return f16_to_f32(h[i]); });
}
TENON_INLINE Floats bf16_at(const void* p) {
  uint16_t h[16];
  std::memcpy(h, p, 32);
  return each<Floats>([&](int i) { return bf16_to_f32(h[i]); });
}

TENON_INLINE float largest(const Floats& a, const Floats& b) {
  float most = 0;
  for (const Floats* f : {&a, &b})
    for (float x : f->v) most = std::fabs(x) > most ? std::fabs(x) : most;  // NaN never wins
  return most;
}
TENON_INLINE Words to_codes(const Floats& r) {
  return each<Words>([&](int i) {
    float x = r.v[i] < 127.0f ? r.v[i] : 127.0f;
    x = x > -127.0f ? x : -127.0f;
    return static_cast<uint32_t>(static_cast<int32_t>((x + 12582912.0f) - 12582912.0f));  // to the nearest, ties to even
  });
}
TENON_INLINE void store_codes(int8_t* p, const Words& w) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<int8_t>(w.v[i]);
}
TENON_INLINE int32_t total(const Words& w) {
  uint32_t sum = 0;
  for (uint32_t x : w.v) sum += x;
  return static_cast<int32_t>(sum);
}

// 16 bytes of each of 16 rows, as four vectors of one dword a row: out[j] lane r = dword j of row r.
TENON_INLINE void transpose_rows(const std::byte* rows, int64_t stride, Words (&out)[4]) {
  for (int r = 0; r < 16; ++r) {
    uint32_t w[4];
    std::memcpy(w, rows + r * stride, 16);
    for (int j = 0; j < 4; ++j) out[j].v[r] = w[j];
  }
}

// One dword of each of 16 rows.
TENON_INLINE Words row_words(const std::byte* rows, int64_t stride) {
  Words w;
  for (int r = 0; r < 16; ++r) std::memcpy(&w.v[r], rows + r * stride, 4);
  return w;
}

template <bool kWide>
struct Weights {
  Words even, odd;  // bytes 0 and 2, 1 and 3 of each dword as 16 bits
};
template <bool kWide>
TENON_INLINE Weights<kWide> prepare(const Words& codes) {
  return {codes & splat(0x00FF00FFu), codes >> 8 & splat(0x00FF00FFu)};
}

// acc + the products of four unsigned codes a lane with four activations.
template <bool kWide>
TENON_INLINE Words dot4(const Words& acc, const Weights<kWide>& w, const int8_t* a) {
  int16_t even[32], odd[32];
  std::memcpy(even, &w.even, 64);
  std::memcpy(odd, &w.odd, 64);
  const auto a0 = static_cast<int16_t>(a[0]), a1 = static_cast<int16_t>(a[1]), a2 = static_cast<int16_t>(a[2]), a3 = static_cast<int16_t>(a[3]);
  return each<Words>([&](int i) {
    int32_t sum = even[2 * i] * a0 + even[2 * i + 1] * a2 + odd[2 * i] * a1 + odd[2 * i + 1] * a3;
    return acc.v[i] + static_cast<uint32_t>(sum);
  });
}

#include "backend/cpu/gemm/gemm-inl.h"

}  // namespace

extern const GemmKernels kGemmBaseline{quantise, code_kernel, float_kernel, dot_floats};

}  // namespace tenon::cpu
