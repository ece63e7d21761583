// AVX-512 without and with VNNI: the same bits, since integer sums are exact. Without it the integer loops are AVX2's.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#include "backend/cpu/gemm/kernels.h"

#define TENON_TARGET "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c"
#include "backend/cpu/target-begin.h"

namespace tenon::cpu {
namespace {

struct Isa {
  static constexpr int kCodeRows = 4, kFloatRows = 8;
  using f32x16 = float __attribute__((vector_size(64)));
  using i32x16 = int32_t __attribute__((vector_size(64)));
  using u32x16 = uint32_t __attribute__((vector_size(64)));

  static f32x16 fma(f32x16 a, f32x16 b, f32x16 c) { return (f32x16)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
  static f32x16 widen_f16(const uint16_t* h) { return (f32x16)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(h))); }
  static f32x16 widen_low_f16(u32x16 v) { return (f32x16)_mm512_cvtph_ps(_mm512_cvtepi32_epi16((__m512i)v)); }

  // vpdpbusd multiplies unsigned by signed: weights get 128 added, which the starting value takes away again.
  using Weights = __m512i;
  static Weights weights(const int8_t* w) { return _mm512_xor_si512(_mm512_loadu_si512(w), _mm512_set1_epi8(static_cast<char>(0x80))); }
  static i32x16 dot_begin(int32_t sum) { return (i32x16)_mm512_set1_epi32(-128 * sum); }
  static i32x16 dot4(i32x16 acc, Weights w, int32_t a) { return (i32x16)_mm512_dpbusd_epi32((__m512i)acc, w, _mm512_set1_epi32(a)); }
};

#include "backend/cpu/gemm/gemm-inl.h"

}  // namespace

extern const GemmKernels kGemmAvx512Vnni{quantise, unpack_codes, dot_codes, unpack_floats, widen, dot_floats};

}  // namespace tenon::cpu

#include "backend/cpu/target-end.h"
#endif
