#include "backend/reference/linear.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tensor/half.h"
#include "tensor/quant.h"
#include "tensor/quant/expand.h"

namespace tenon::reference {
namespace {

float multiply_add(float a, float b, float c, bool fused) { return fused ? std::fma(a, b, c) : a * b + c; }

// The weight as f32 [out][in].
std::vector<float> decoded(const cpu::LinearWeight& w) {
  std::vector<float> v(static_cast<size_t>(w.out * w.in));
  if (w.reader)
    for (int64_t o = 0; o < w.out; ++o) w.reader->read(o, 0, w.in, v.data() + o * w.in);
  else
    decode(w.dtype, w.rows, v.data(), w.out * w.in);
  if (!w.in_out) return v;
  std::vector<float> t(v.size());
  for (int64_t i = 0; i < w.in; ++i)
    for (int64_t o = 0; o < w.out; ++o) t[static_cast<size_t>(o * w.in + i)] = v[static_cast<size_t>(i * w.out + o)];
  return t;
}

struct Codes {
  std::vector<int> codes;
  std::vector<float> scale;  // per 32
};

// x ~ scale * code in groups of 32: code = nearest integer, ties to even, of x * (127 / absmax). A group with an
// infinity or a NaN has the scale NaN; one so small that 127 / absmax is no number counts as zeros.
Codes quantise(const float* x, int64_t n) {
  Codes c;
  for (int64_t g = 0; g < n; g += 32) {
    float most = 0;
    bool finite = true;
    for (int64_t i = g; i < g + 32; ++i) {
      finite = finite && std::isfinite(x[i]);
      most = std::max(most, std::fabs(x[i]));
    }
    float inverse = 127.0f / most;
    bool usable = finite && std::isfinite(inverse);
    c.scale.push_back(usable ? most / 127.0f : finite ? 0.0f : std::numeric_limits<float>::quiet_NaN());
    for (int64_t i = g; i < g + 32; ++i) {
      float r = usable ? std::clamp(x[i] * inverse, -127.0f, 127.0f) : 0.0f;
      c.codes.push_back(static_cast<int>(std::nearbyint(r)));
    }
  }
  return c;
}

float dot_codes(const cpu::LinearWeight& w, int64_t row, const Codes& x, bool fused) {
  const quant::BlockForm& form = *quant::block_form(w.dtype);
  const DTypeInfo& d = info(w.dtype);
  quant::Expanded e;
  float acc = 0;
  for (int64_t k = 0; k < w.in; k += d.block) {
    form.expand(w.rows + (row * w.in + k) / d.block * d.bytes, e);
    for (int g = 0; g < d.block / form.group; ++g) {
      int dot = 0, sum = 0;
      for (int i = g * form.group; i < (g + 1) * form.group; ++i) {
        dot += e.codes[i] * x.codes[static_cast<size_t>(k + i)];
        sum += x.codes[static_cast<size_t>(k + i)];
      }
      float sa = x.scale[static_cast<size_t>((k + g * form.group) / 32)];
      acc = multiply_add(e.scale[g] * sa, static_cast<float>(dot), acc, fused);
      if (form.has_minimum) acc = multiply_add(e.minimum[g], sa * static_cast<float>(sum), acc, fused);
    }
  }
  return acc;
}

// A denormal counts as zero.
float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

// Pairs of k, the odd one first; in bf16 and back: x rounded, the weights as they are.
float dot_bf16(const float* x, const float* w, int64_t in) {
  auto step = [&](int64_t k, float acc) {
    return flushed(std::fma(bf16_to_f32(f32_to_bf16(flushed(x[k]))), flushed(w[k]), acc));
  };
  float acc = 0;
  for (int64_t k = 0; k < in; k += 2) {
    if (k + 1 < in) acc = step(k + 1, acc);
    acc = step(k, acc);
  }
  return acc;
}

}  // namespace

void linear(const cpu::LinearWeight& w, const cpu::LinearCall& call, Arithmetic arithmetic) {
  const bool fused = arithmetic != Arithmetic::rounded;
  const bool pairs = arithmetic == Arithmetic::bf16_dot && w.dtype == DType::bf16 && !w.in_out && !call.f32_activations;
  bool codes = !call.f32_activations && quant::block_form(w.dtype);
  std::vector<float> values;
  if (!codes) values = decoded(w);
  for (int64_t m = 0; m < call.m; ++m) {
    const float* x = call.x + m * call.ldx;
    Codes c;
    if (codes) c = quantise(x, w.in);
    for (int64_t o = 0; o < w.out; ++o) {
      float acc = 0;
      if (codes)
        acc = dot_codes(w, o, c, fused);
      else if (pairs)
        acc = dot_bf16(x, values.data() + o * w.in, w.in);
      else
        for (int64_t k = 0; k < w.in; ++k)
          acc = multiply_add(x[k], values[static_cast<size_t>(o * w.in + k)], acc, fused);
      if (call.bias) acc += call.bias[o];
      call.y[m * call.ldy + o] = acc;
    }
  }
}

}  // namespace tenon::reference
