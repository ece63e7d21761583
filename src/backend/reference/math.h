// Exponential, tanh and erfc as this engine defines them: the coefficients, and plain twins of the vector code
// (cpu/math-inl.h), bit-equal to it where the machine has fused multiply-add. Coefficients: own weighted minimax fits,
// rounded to float.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace tenon::reference {

// exp(x) = 2^n * e^r with n = round(x / ln 2), |r| <= ln 2 / 2. Adding kRoundBias rounds to an integer (its unit is 1)
// and leaves n + 127, the exponent field of 2^n, in the low bits. ln 2 in two parts: n * kLn2High is exact.
constexpr float kLog2e = 1.44269504088896341f;
constexpr float kRoundBias = 12582912.0f + 127.0f;
constexpr float kLn2High = 0.693359375f;
constexpr float kLn2Low = -2.12194440e-4f;
// Beyond these 2^n is 0 (n = -127) and infinity (n = 128). Results that would be below 2^-126.5 are 0, from 2^127.5
// infinity.
constexpr float kExpLowest = -88.0296919f;
constexpr float kExpHighest = 88.7228394f;
// e^r = 1 + r + r^2 (c0 + c1 r + ... + c4 r^4), relative error 3e-9.
constexpr float kExp[] = {0.5f, 0.166665181517601f, 0.04166620597243309f, 0.008368928916752338f,
                          0.0013950556749477983f};

// -ln erfc(a) = a (c0 + c1 a + ... + c9 a^9) for a >= 0; fitted to an absolute error of erfc of 2e-9 (5e-8 with float
// rounding) on [0, 4], grows without bound beyond.
constexpr float kErfc[] = {1.128379225730896f,      0.6366175413131714f,      0.10278701782226562f,
                           -0.019169045612215996f,  -0.00016186066204681993f, 0.0017053079791367054f,
                           -0.0006833120132796466f, 0.00014725558867212385f,  -1.758303915266879e-05f,
                           9.081237521968433e-07f};

// tanh is 1 to the last bit from here on.
constexpr float kTanhHighest = 10.0f;

struct ExpParts {
  float r, p, scale;  // exp = (1 + r + r^2 p) * scale
};

inline ExpParts exp_parts(float x) {
  const float t = std::fma(x, kLog2e, kRoundBias);
  const float n = t - kRoundBias;
  const float r = std::fma(n, -kLn2Low, std::fma(n, -kLn2High, x));
  float p = kExp[4];
  for (int i = 3; i >= 0; --i) p = std::fma(p, r, kExp[i]);
  return {r, p, std::bit_cast<float>(std::bit_cast<uint32_t>(t) << 23)};
}

inline float exp(float x) {
  x = kExpLowest > x ? kExpLowest : x;  // a NaN stays
  x = kExpHighest < x ? kExpHighest : x;
  const ExpParts e = exp_parts(x);
  return std::fma(std::fma(e.p, e.r, 1.0f), e.r, 1.0f) * e.scale;
}

// By e^(2|x|) - 1, which keeps the relative accuracy of small arguments.
inline float tanh(float x) {
  float a = std::fabs(x);
  a = kTanhHighest < a ? kTanhHighest : a;
  const ExpParts e = exp_parts(a + a);
  const float m = std::fma(e.scale, std::fma(e.p * e.r, e.r, e.r), e.scale - 1.0f);
  return std::copysign(m / (m + 2.0f), x);
}

// a >= 0.
inline float erfc(float a) {
  float q = kErfc[9];
  for (int i = 8; i >= 0; --i) q = std::fma(q, a, kErfc[i]);
  return exp(-(q * a));
}

inline float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }

}  // namespace tenon::reference
