#include "backend/reference/math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tenon::reference {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Units in the last place between a float and the exact value it stands for.
double ulps(float got, double exact) {
  const double unit =
      std::nextafter(std::fabs(static_cast<float>(exact)), kInfinity) - std::fabs(static_cast<float>(exact));
  return std::fabs(static_cast<double>(got) - exact) / unit;
}

TEST(Math, ExpIsWithinOneUlp) {
  double worst = 0;
  for (float x = -87.0f; x < 88.3f; x += 0.000731f)
    worst = std::max(worst, ulps(exp(x), std::exp(static_cast<double>(x))));
  EXPECT_LT(worst, 1.2);
}

TEST(Math, ExpAtItsEnds) {
  EXPECT_EQ(exp(0.0f), 1.0f);
  EXPECT_EQ(exp(-0.0f), 1.0f);
  EXPECT_EQ(exp(-88.1f), 0.0f);
  EXPECT_EQ(exp(-1e30f), 0.0f);
  EXPECT_EQ(exp(-kInfinity), 0.0f);
  EXPECT_EQ(exp(88.8f), kInfinity);
  EXPECT_EQ(exp(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(exp(kNan)));
}

TEST(Math, TanhIsWithinThreeUlps) {
  double worst = 0;
  for (float x = 1e-6f; x < 12; x *= 1.0001f) {
    worst = std::max(worst, ulps(tanh(x), std::tanh(static_cast<double>(x))));
    EXPECT_EQ(tanh(-x), -tanh(x));
  }
  EXPECT_LT(worst, 3.0);
  EXPECT_EQ(tanh(kInfinity), 1.0f);
  EXPECT_EQ(tanh(-kInfinity), -1.0f);
  EXPECT_TRUE(std::signbit(tanh(-0.0f)));
  EXPECT_TRUE(std::isnan(tanh(kNan)));
}

TEST(Math, ErfcIsWithinAUnitOfOne) {
  double worst = 0;
  for (float a = 0; a < 12; a += 0.00037f)
    worst = std::max(worst, std::fabs(erfc(a) - std::erfc(static_cast<double>(a))));
  EXPECT_LT(worst, 1.2e-7);
  EXPECT_EQ(erfc(kInfinity), 0.0f);
  EXPECT_TRUE(std::isnan(erfc(kNan)));
}

}  // namespace
}  // namespace tenon::reference
