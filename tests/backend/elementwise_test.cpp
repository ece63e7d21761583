#include "backend/cpu/elementwise.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "backend/reference/elementwise.h"
#include "support/isa_levels.h"

namespace tenon {
namespace {

using graph::Activation;
using test::at_every_isa;
using test::is_fused;
using Vector = std::vector<float>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kSentinel = 12345.678f;
constexpr int64_t kSizes[] = {1, 2, 3, 7, 15, 16, 17, 31, 63, 64, 65, 96, 127, 128, 200, 576, 1021};
constexpr Activation kActivations[] = {Activation::silu,    Activation::gelu,  Activation::gelu_tanh,
                                       Activation::relu,    Activation::relu2, Activation::quick_gelu,
                                       Activation::sigmoid, Activation::tanh};

Vector random(int64_t n, float spread, uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, spread);
  Vector x(static_cast<size_t>(n));
  for (float& v : x) v = normal(engine);
  return x;
}

// Runs write(y) on n floats with sentinels behind them.
template <class F>
Vector output(int64_t n, F&& write) {
  Vector y(static_cast<size_t>(n) + 16, kSentinel);
  write(y.data());
  for (size_t i = static_cast<size_t>(n); i < y.size(); ++i) EXPECT_EQ(y[i], kSentinel) << "written past the end";
  y.resize(static_cast<size_t>(n));
  return y;
}

bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

// Bit-equal where the level fuses, else within `units` roundings of `scale`.
void expect_same(const Vector& got, const Vector& want, cpu::Isa level, float scale, float units) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (is_fused(level))
      ASSERT_TRUE(same_bits(got[i], want[i])) << "element " << i << ": " << got[i] << ", not " << want[i];
    else
      ASSERT_NEAR(got[i], want[i], units * 0x1p-24f * std::max(scale, std::fabs(want[i]))) << "element " << i;
  }
}

TEST(Elementwise, RmsNormIsTheReference) {
  at_every_isa([](cpu::Isa level) {
    for (int64_t n : kSizes)
      for (float offset : {0.0f, 1.0f})
        for (bool weighted : {false, true}) {
          const Vector x = random(n, 3, 1), w = random(n, 1, 2);
          const float* weight = weighted ? w.data() : nullptr;
          const Vector got = output(n, [&](float* y) { cpu::rms_norm(x.data(), weight, offset, 1e-5f, y, n); });
          const Vector want = output(n, [&](float* y) { reference::rms_norm(x.data(), weight, offset, 1e-5f, y, n); });
          expect_same(got, want, level, 1, 16);
          Vector in_place = x;
          cpu::rms_norm(in_place.data(), weight, offset, 1e-5f, in_place.data(), n);
          EXPECT_EQ(in_place, got);
        }
  });
}

TEST(Elementwise, RmsNormIsTheFormula) {
  at_every_isa([](cpu::Isa) {
    const int64_t n = 1021;
    const Vector x = random(n, 3, 3), w = random(n, 1, 4);
    double sum = 0;
    for (float v : x) sum += static_cast<double>(v) * v;
    const Vector y = output(n, [&](float* out) { cpu::rms_norm(x.data(), w.data(), 0, 1e-6f, out, n); });
    for (size_t i = 0; i < y.size(); ++i)
      EXPECT_NEAR(y[i], x[i] / std::sqrt(sum / n + 1e-6) * w[i], 1e-6 * (1 + std::fabs(y[i])));
  });
}

TEST(Elementwise, LayerNormIsTheReference) {
  at_every_isa([](cpu::Isa level) {
    for (int64_t n : kSizes)
      for (int parts = 0; parts < 4; ++parts) {
        Vector x = random(n, 3, 5);
        const Vector w = random(n, 1, 6), b = random(n, 1, 7);
        for (float& v : x) v += 10;  // a mean that matters
        const float *weight = parts & 1 ? w.data() : nullptr, *bias = parts & 2 ? b.data() : nullptr;
        const Vector got = output(n, [&](float* y) { cpu::layer_norm(x.data(), weight, bias, 1e-5f, y, n); });
        const Vector want = output(n, [&](float* y) { reference::layer_norm(x.data(), weight, bias, 1e-5f, y, n); });
        expect_same(got, want, level, 10, 64);
        cpu::layer_norm(x.data(), weight, bias, 1e-5f, x.data(), n);
        EXPECT_EQ(x, got);
      }
  });
}

TEST(Elementwise, LayerNormIsTheFormula) {
  at_every_isa([](cpu::Isa) {
    const int64_t n = 777;
    const Vector x = random(n, 2, 8), w = random(n, 1, 9), b = random(n, 1, 10);
    double mean = 0, variance = 0;
    for (float v : x) mean += v / static_cast<double>(n);
    for (float v : x) variance += (v - mean) * (v - mean) / static_cast<double>(n);
    const Vector y = output(n, [&](float* out) { cpu::layer_norm(x.data(), w.data(), b.data(), 1e-5f, out, n); });
    for (size_t i = 0; i < y.size(); ++i)
      EXPECT_NEAR(y[i], (x[i] - mean) / std::sqrt(variance + 1e-5) * w[i] + b[i], 2e-6 * (1 + std::fabs(y[i])));
  });
}

TEST(Elementwise, RopeIsTheReference) {
  struct Case {
    int64_t heads, head_dim, rotary;
  };
  at_every_isa([](cpu::Isa level) {
    for (Case c : {Case{1, 2, 2}, Case{3, 64, 64}, Case{2, 80, 32}, Case{5, 6, 4}, Case{2, 96, 96}, Case{2, 50, 34}})
      for (bool interleaved : {false, true}) {
        const Vector x = random(c.heads * c.head_dim, 2, 11), table = random(c.rotary, 1, 12);
        const int64_t n = c.heads * c.head_dim;
        const Vector got = output(
            n, [&](float* y) { cpu::rope(x.data(), table.data(), interleaved, c.rotary, c.heads, c.head_dim, y); });
        const Vector want = output(n, [&](float* y) {
          reference::rope(x.data(), table.data(), interleaved, c.rotary, c.heads, c.head_dim, y);
        });
        expect_same(got, want, level, 8, 4);
        Vector in_place = x;
        cpu::rope(in_place.data(), table.data(), interleaved, c.rotary, c.heads, c.head_dim, in_place.data());
        EXPECT_EQ(in_place, got);
      }
  });
}

TEST(Elementwise, RopeTurnsPairs) {
  // A quarter turn: cosine 0, sine 1.
  const float table[] = {0, 0, 1, 1}, x[] = {1, 2, 3, 4, 5};
  float halves[5], pairs[5];
  cpu::rope(x, table, false, 4, 1, 5, halves);
  cpu::rope(x, table, true, 4, 1, 5, pairs);
  EXPECT_EQ(Vector(halves, halves + 5), (Vector{-3, -4, 1, 2, 5}));
  EXPECT_EQ(Vector(pairs, pairs + 5), (Vector{-2, 1, -4, 3, 5}));
}

TEST(Elementwise, ActivationsAreTheReference) {
  at_every_isa([](cpu::Isa level) {
    for (Activation f : kActivations)
      for (int64_t n : kSizes) {
        const Vector x = random(n, 4, 13), up = random(n, 1, 14);
        expect_same(output(n, [&](float* y) { cpu::activate(f, x.data(), y, n); }),
                    output(n, [&](float* y) { reference::activate(f, x.data(), y, n); }), level, 1, 32);
        expect_same(output(n, [&](float* y) { cpu::gated(f, x.data(), up.data(), y, n); }),
                    output(n, [&](float* y) { reference::gated(f, x.data(), up.data(), y, n); }), level, 1, 64);
      }
  });
}

double formula(Activation f, double x) {
  switch (f) {
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::gelu:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case Activation::relu:
      return x > 0 ? x : 0;
    case Activation::relu2:
      return x > 0 ? x * x : 0;
    case Activation::quick_gelu:
      return x / (1 + std::exp(-1.702 * x));
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
  }
  return kNan;
}

// Every function within 4 roundings of its own or its argument's size.
TEST(Elementwise, ActivationsAreTheFormulas) {
  at_every_isa([](cpu::Isa) {
    Vector x;
    for (float v = -30; v < 30; v += 0.0037f) x.push_back(v);
    for (float v : {-1e6f, -150.0f, -1e-6f, 0.0f, 1e-20f, 150.0f, 1e6f}) x.push_back(v);
    const auto n = static_cast<int64_t>(x.size());
    for (Activation f : kActivations) {
      const Vector y = output(n, [&](float* out) { cpu::activate(f, x.data(), out, n); });
      for (size_t i = 0; i < x.size(); ++i) {
        const double want = formula(f, x[i]);
        ASSERT_NEAR(y[i], want, 4 * 0x1p-24 * std::max<double>(std::fabs(want), std::min(1.0f, std::fabs(x[i]))))
            << "activation " << static_cast<int>(f) << " at " << x[i];
      }
    }
  });
}

TEST(Elementwise, NanStaysNanAndInfinitiesSaturate) {
  at_every_isa([](cpu::Isa) {
    for (Activation f : kActivations) {
      const Vector x = {kNan, 1, kInfinity};
      const Vector y = output(3, [&](float* out) { cpu::activate(f, x.data(), out, 3); });
      EXPECT_TRUE(std::isnan(y[0]));
      EXPECT_FALSE(std::isnan(y[1]));
      EXPECT_EQ(y[2], f == Activation::sigmoid || f == Activation::tanh ? 1.0f : kInfinity) << static_cast<int>(f);
    }
  });
}

TEST(Elementwise, SoftcapIsTheReference) {
  at_every_isa([](cpu::Isa level) {
    for (int64_t n : kSizes) {
      const Vector x = random(n, 40, 15);
      const Vector got = output(n, [&](float* y) { cpu::softcap(x.data(), 30, y, n); });
      expect_same(got, output(n, [&](float* y) { reference::softcap(x.data(), 30, y, n); }), level, 30, 8);
      for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(got[i], 30 * std::tanh(x[i] / 30.0), 1e-5);
    }
  });
}

TEST(Elementwise, LowRankIsTheSumOfItsProducts) {
  at_every_isa([](cpu::Isa) {
    for (int64_t in : {int64_t{1}, int64_t{17}, int64_t{64}, int64_t{200}})
      for (int64_t out : {int64_t{1}, int64_t{15}, int64_t{64}, int64_t{130}})
        for (int64_t rank : {int64_t{1}, int64_t{8}, int64_t{13}}) {
          const Vector x = random(in, 1, 20), a = random(rank * in, 0.3f, 21), b = random(rank * out, 0.3f, 22),
                       y = random(out, 1, 23);
          const Vector got = output(out, [&](float* to) {
            std::copy(y.begin(), y.end(), to);
            cpu::add_low_rank(x.data(), a.data(), b.data(), rank, in, out, to);
          });
          for (int64_t o = 0; o < out; ++o) {
            double want = y[static_cast<size_t>(o)];
            for (int64_t k = 0; k < rank; ++k) {
              double dot = 0;
              for (int64_t i = 0; i < in; ++i)
                dot += static_cast<double>(x[static_cast<size_t>(i)]) * a[static_cast<size_t>(k * in + i)];
              want += dot * b[static_cast<size_t>(k * out + o)];
            }
            ASSERT_NEAR(got[static_cast<size_t>(o)], want, 1e-5 * (1 + std::fabs(want)));
          }
        }
  });
}

TEST(Elementwise, SumsProductsAndScale) {
  at_every_isa([](cpu::Isa) {
    for (int64_t n : kSizes) {
      const Vector a = random(n, 2, 16), b = random(n, 2, 17);
      const Vector sum = output(n, [&](float* y) { cpu::add(a.data(), b.data(), y, n); });
      const Vector product = output(n, [&](float* y) { cpu::multiply(a.data(), b.data(), y, n); });
      const Vector scaled = output(n, [&](float* y) { cpu::scale(a.data(), 0.3f, y, n); });
      for (size_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(sum[i], a[i] + b[i]);
        EXPECT_EQ(product[i], a[i] * b[i]);
        EXPECT_EQ(scaled[i], a[i] * 0.3f);
      }
    }
  });
}

TEST(Elementwise, ArgmaxTakesTheLowestOfEquals) {
  at_every_isa([](cpu::Isa) {
    for (int64_t n : kSizes)
      for (int64_t at = 0; at < n; at += 1 + n / 9) {
        Vector x = random(n, 1, 18);
        x[static_cast<size_t>(at)] = 50;
        x[static_cast<size_t>(n - 1)] = 50;
        EXPECT_EQ(cpu::argmax(x.data(), n), at);
        EXPECT_EQ(reference::argmax(x.data(), n), at);
      }
  });
}

TEST(Elementwise, ArgmaxNeverTakesNan) {
  at_every_isa([](cpu::Isa) {
    for (int64_t n : kSizes) {
      Vector x(static_cast<size_t>(n), kNan);
      EXPECT_EQ(cpu::argmax(x.data(), n), 0);
      x[static_cast<size_t>(n / 2)] = -kInfinity;
      EXPECT_EQ(cpu::argmax(x.data(), n), n / 2);
      EXPECT_EQ(reference::argmax(x.data(), n), n / 2);
      x[static_cast<size_t>(n - 1)] = -3;
      EXPECT_EQ(cpu::argmax(x.data(), n), n - 1);
    }
  });
}

}  // namespace
}  // namespace tenon
