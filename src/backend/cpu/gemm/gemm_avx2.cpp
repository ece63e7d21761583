// AVX2 with FMA and F16C.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#include "backend/cpu/gemm/kernels.h"

#define TENON_TARGET "avx2,fma,f16c"
#include "backend/cpu/target-begin.h"

namespace tenon::cpu {
namespace {

struct Isa {
  static constexpr int kCodeRows = 2, kFloatRows = 2;
  using f32x16 = float __attribute__((vector_size(64)));
  using i32x16 = int32_t __attribute__((vector_size(64)));
  using u32x16 = uint32_t __attribute__((vector_size(64)));
  struct Pair {
    __m256i low, high;
  };
  template <class V>
  static Pair split(const V& v) {
    Pair p;
    std::memcpy(&p, &v, 64);
    return p;
  }
  template <class V>
  static V join(__m256i low, __m256i high) {
    Pair p{low, high};
    V v;
    std::memcpy(&v, &p, 64);
    return v;
  }

  static f32x16 fma(const f32x16& a, const f32x16& b, const f32x16& c) {
    Pair x = split(a), y = split(b), z = split(c);
    __m256 low = _mm256_fmadd_ps(_mm256_castsi256_ps(x.low), _mm256_castsi256_ps(y.low), _mm256_castsi256_ps(z.low));
    __m256 high = _mm256_fmadd_ps(_mm256_castsi256_ps(x.high), _mm256_castsi256_ps(y.high), _mm256_castsi256_ps(z.high));
    return join<f32x16>(_mm256_castps_si256(low), _mm256_castps_si256(high));
  }
  static f32x16 widen_f16(const uint16_t* h) {
    auto half = [](const uint16_t* p) { return _mm256_castps_si256(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))); };
    return join<f32x16>(half(h), half(h + 8));
  }
  static f32x16 widen_low_f16(u32x16 v) {
    uint16_t h[16];
    for (int i = 0; i < 16; ++i) h[i] = static_cast<uint16_t>(v[i]);
    return widen_f16(h);
  }

  // maddubs multiplies unsigned by signed and saturates at 16 bits: with |w| <= 128 and |a| <= 127 two products fit.
  struct Weights {
    Pair value, magnitude;
  };
  static Weights weights(const int8_t* w) {
    Pair v{_mm256_loadu_si256(reinterpret_cast<const __m256i*>(w)), _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w + 32))};
    return {v, {_mm256_abs_epi8(v.low), _mm256_abs_epi8(v.high)}};
  }
  static i32x16 dot_begin(int32_t) { return i32x16{}; }
  static __m256i dot8(__m256i acc, __m256i value, __m256i magnitude, __m256i a) {
    __m256i pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(a, value));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  static i32x16 dot4(const i32x16& acc, const Weights& w, int32_t a) {
    Pair s = split(acc);
    __m256i all = _mm256_set1_epi32(a);
    return join<i32x16>(dot8(s.low, w.value.low, w.magnitude.low, all), dot8(s.high, w.value.high, w.magnitude.high, all));
  }
};

#include "backend/cpu/gemm/gemm-inl.h"

}  // namespace

extern const GemmKernels kGemmAvx2{quantise, unpack_codes, dot_codes, unpack_floats, widen, dot_floats};

}  // namespace tenon::cpu

#include "backend/cpu/target-end.h"
#endif
