#include "backend/reference/elementwise.h"

#include <cmath>
#include <limits>

#include "backend/reference/math.h"

namespace tenon::reference {
namespace {

// Element i goes to lane i % 64, in order; then the upper half of the lanes is added to the lower until one is left.
struct LaneSum {
  static constexpr int kCount = 64;
  float lanes[kCount] = {};

  float total() {
    for (int width = kCount / 2; width > 0; width /= 2)
      for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
    return lanes[0];
  }
};

float centred_square_sum(const float* x, float mean, int64_t n) {
  LaneSum sum;
  for (int64_t i = 0; i < n; ++i) {
    float& lane = sum.lanes[i % LaneSum::kCount];
    const float centred = x[i] - mean;
    lane = std::fma(centred, centred, lane);
  }
  return sum.total();
}

float mean_of(const float* x, int64_t n) {
  LaneSum sum;
  for (int64_t i = 0; i < n; ++i) sum.lanes[i % LaneSum::kCount] += x[i];
  return sum.total() / static_cast<float>(n);
}

float apply(Activation f, float x) {
  switch (f) {
    case Activation::silu:
      return x / (1.0f + exp(-x));
    case Activation::gelu: {
      // Phi(x) = erfc(-x / sqrt 2) / 2, from the side where erfc is small.
      const float e = erfc(std::fabs(x) * 0.707106781186547524f);
      return 0.5f * x * (x < 0.0f ? e : 2.0f - e);
    }
    case Activation::gelu_tanh: {
      // (1 + tanh k) / 2 = sigmoid(2 k), k = sqrt(2 / pi) (x + 0.044715 x^3)
      const float k2 = 1.59576912160573071f * x * std::fma(0.044715f * x, x, 1.0f);
      return x / (1.0f + exp(-k2));
    }
    case Activation::relu:
      return 0.0f > x ? 0.0f : x;
    case Activation::relu2: {
      const float r = 0.0f > x ? 0.0f : x;
      return r * r;
    }
    case Activation::quick_gelu:
      return x / (1.0f + exp(-(1.702f * x)));
    case Activation::sigmoid:
      return sigmoid(x);
    case Activation::tanh:
      return tanh(x);
  }
  return x;
}

}  // namespace

void rms_norm(const float* x, const float* weight, float offset, float eps, float* y, int64_t n) {
  const float inverse = 1.0f / std::sqrt(centred_square_sum(x, 0.0f, n) / static_cast<float>(n) + eps);
  for (int64_t i = 0; i < n; ++i) y[i] = weight ? x[i] * inverse * (weight[i] + offset) : x[i] * inverse;
}

void layer_norm(const float* x, const float* weight, const float* bias, float eps, float* y, int64_t n) {
  const float mean = mean_of(x, n);
  const float inverse = 1.0f / std::sqrt(centred_square_sum(x, mean, n) / static_cast<float>(n) + eps);
  for (int64_t i = 0; i < n; ++i) {
    float value = (x[i] - mean) * inverse;
    if (weight) value *= weight[i];
    y[i] = bias ? value + bias[i] : value;
  }
}

void rope(const float* x, const float* table, bool interleaved, int64_t rotary, int64_t heads, int64_t head_dim,
          float* y) {
  const int64_t half = rotary / 2;
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < half; ++i) {
      const int64_t first = h * head_dim + (interleaved ? 2 * i : i);
      const int64_t second = interleaved ? first + 1 : first + half;
      const float a = x[first], b = x[second], cosine = table[i], sine = table[half + i];
      y[first] = std::fma(-b, sine, a * cosine);
      y[second] = std::fma(a, sine, b * cosine);
    }
    for (int64_t i = rotary; i < head_dim; ++i) y[h * head_dim + i] = x[h * head_dim + i];
  }
}

void activate(Activation f, const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = apply(f, x[i]);
}

void gated(Activation f, const float* gate, const float* up, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = apply(f, gate[i]) * up[i];
}

void softcap(const float* x, float cap, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = cap * tanh(x[i] / cap);
}

int64_t argmax(const float* x, int64_t n) {
  int64_t best = -1;
  for (int64_t i = 0; i < n; ++i)
    if (!std::isnan(x[i]) && (best < 0 || x[i] > x[best])) best = i;
  return best < 0 ? 0 : best;
}

}  // namespace tenon::reference
