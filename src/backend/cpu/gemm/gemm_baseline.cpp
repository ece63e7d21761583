// The baseline level: no fused multiply-add, so its bits are its own.
#include <cstring>

#include "backend/cpu/gemm/kernels.h"
#include "tensor/half.h"

namespace tenon::cpu {
namespace {

struct Isa {
  static constexpr int kCodeRows = 2, kFloatRows = 2;
  using f32x16 = float __attribute__((vector_size(64)));
  using i32x16 = int32_t __attribute__((vector_size(64)));
  using u32x16 = uint32_t __attribute__((vector_size(64)));

  static f32x16 fma(f32x16 a, f32x16 b, f32x16 c) { return a * b + c; }
  static f32x16 widen_f16(const uint16_t* h) {
    f32x16 v;
    for (int i = 0; i < 16; ++i) v[i] = f16_to_f32(h[i]);
    return v;
  }
  static f32x16 widen_low_f16(u32x16 v) {
    f32x16 out;
    for (int i = 0; i < 16; ++i) out[i] = f16_to_f32(static_cast<uint16_t>(v[i]));
    return out;
  }
  struct Weights {
    i32x16 byte[4];
  };
  static Weights weights(const int8_t* w) {
    i32x16 v;
    std::memcpy(&v, w, 64);
    return {{v << 24 >> 24, v << 16 >> 24, v << 8 >> 24, v >> 24}};
  }
  static i32x16 dot_begin(int32_t) { return i32x16{}; }
  static i32x16 dot4(i32x16 acc, const Weights& w, int32_t a) {
    for (int j = 0; j < 4; ++j) {
      // Products of int8 fit 16 bits: a multiply of the low halves would do, but SSE2 has only this form.
      acc += w.byte[j] * static_cast<int32_t>(static_cast<int8_t>(a >> (8 * j)));
    }
    return acc;
  }
};

#include "backend/cpu/gemm/gemm-inl.h"

}  // namespace

extern const GemmKernels kGemmBaseline{quantise, unpack_codes, dot_codes, unpack_floats, widen, dot_floats};

}  // namespace tenon::cpu
