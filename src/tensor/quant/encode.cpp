// Quantising at load: each block of 32 takes the scale (and minimum) with the least squared error among a few.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/half.h"
#include "tensor/quant.h"

namespace tenon {
namespace {

constexpr int kBlock = 32;

void put_f16(std::byte* to, float x) {
  uint16_t h = f32_to_f16(x);
  std::memcpy(to, &h, 2);
}
float as_f16(float x) { return f16_to_f32(f32_to_f16(x)); }

// The nearest whole number in [low, high], NaN becomes `low`: written so that compilers turn loops of it into vectors.
float nearest(float x, float low, float high) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
  x = x > low ? x : low;
  x = x < high ? x : high;
  return (x + kRound) - kRound;
}

// In eight lanes, so that it is a vector sum too.
float total(const float* x) {
  float lanes[8] = {};
  for (int i = 0; i < kBlock; i += 8)
    for (int j = 0; j < 8; ++j) lanes[j] += x[i + j];
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

// Codes 0 .. 15 or 0 .. 31: low nibbles behind `at`, fifth bits (if any) in the four bytes before.
void put_codes(const float (&values)[kBlock], bool fifth, std::byte* at) {
  int codes[kBlock];
  for (int i = 0; i < kBlock; ++i) codes[i] = static_cast<int>(values[i]);
  if (fifth) {
    uint32_t high = 0;
    for (int i = 0; i < kBlock; ++i) high |= static_cast<uint32_t>(codes[i] >> 4 & 1) << i;
    std::memcpy(at, &high, 4);
    at += 4;
  }
  for (int i = 0; i < kBlock / 2; ++i)
    at[i] = static_cast<std::byte>((codes[i] & 15) | (codes[i + kBlock / 2] & 15) << 4);
}

void q8_0(const float* x, std::byte* to) {
  float most = 0;
  for (int i = 0; i < kBlock; ++i) most = std::max(most, std::fabs(x[i]));
  const float scale = most / 127, inverse = scale > 0 ? 1 / scale : 0;
  put_f16(to, scale);
  for (int i = 0; i < kBlock; ++i)
    to[2 + i] = static_cast<std::byte>(static_cast<int>(nearest(x[i] * inverse, -127, 127)));
}

// x ~ scale * (code - half), codes 0 .. 2 half - 1.
void symmetric(const float* x, float half, bool fifth, std::byte* to) {
  float most = 0;  // of the largest magnitude, with its sign: the side of the codes with one value more is its side
  for (int i = 0; i < kBlock; ++i)
    if (std::fabs(x[i]) > std::fabs(most)) most = x[i];
  float best_scale = 0, best_error = INFINITY, codes[kBlock];
  for (int step = -6; step <= 6 && most != 0; step += 2) {
    const float inverse = -(half + 0.1f * static_cast<float>(step)) / most;
    float terms[3][kBlock];
    for (int i = 0; i < kBlock; ++i) {
      float q = nearest(x[i] * inverse, -half, half - 1);
      codes[i] = q, terms[0][i] = q * x[i], terms[1][i] = q * q;
    }
    const float square = total(terms[1]);
    if (square == 0) continue;
    const float scale = as_f16(total(terms[0]) / square);
    for (int i = 0; i < kBlock; ++i) {
      float d = x[i] - scale * codes[i];
      terms[2][i] = d * d;
    }
    if (float error = total(terms[2]); error < best_error) best_error = error, best_scale = scale;
  }
  const float inverse = best_scale != 0 ? 1 / best_scale : 0;
  for (int i = 0; i < kBlock; ++i) codes[i] = nearest(x[i] * inverse, -half, half - 1) + half;
  put_f16(to, best_scale);
  put_codes(codes, fifth, to + 2);
}

// x ~ scale * code + minimum, codes 0 .. most: from the range of x, then least squares and codes in turn.
void with_minimum(const float* x, float most, bool fifth, std::byte* to) {
  float low = x[0], high = x[0];
  for (int i = 1; i < kBlock; ++i) low = x[i] < low ? x[i] : low, high = x[i] > high ? x[i] : high;
  float scale = as_f16((high - low) / most), minimum = as_f16(low);
  float codes[kBlock], best_codes[kBlock] = {}, best_error = INFINITY, best_scale = 0, best_minimum = minimum;
  for (int round = 0; round < 3; ++round) {
    const float inverse = scale > 0 ? 1 / scale : 0;
    float terms[3][kBlock];
    for (int i = 0; i < kBlock; ++i) {
      float q = nearest((x[i] - minimum) * inverse, 0, most), d = x[i] - (scale * q + minimum);
      codes[i] = q, terms[0][i] = d * d, terms[1][i] = q * q, terms[2][i] = q * x[i];
    }
    if (float error = total(terms[0]); error < best_error) {
      best_error = error, best_scale = scale, best_minimum = minimum;
      std::copy(codes, codes + kBlock, best_codes);
    }
    const float n = kBlock, q1 = total(codes), sum = total(x), determinant = n * total(terms[1]) - q1 * q1;
    if (!(determinant > 0)) break;
    scale = as_f16((n * total(terms[2]) - q1 * sum) / determinant);
    minimum = as_f16((sum - scale * q1) / n);
  }
  put_f16(to, best_scale);
  put_f16(to + 2, best_minimum);
  put_codes(best_codes, fifth, to + 4);
}

}  // namespace

std::optional<DType> load_precision(std::string_view name) {
  constexpr std::pair<std::string_view, DType> kNames[] = {
      {"f32", DType::f32},   {"f16", DType::f16},   {"bf16", DType::bf16}, {"q8", DType::q8_0},
      {"q8_0", DType::q8_0}, {"q5", DType::q5_1},   {"q5_1", DType::q5_1}, {"q5_0", DType::q5_0},
      {"q4", DType::q4_1},   {"q4_1", DType::q4_1}, {"q4_0", DType::q4_0}};
  for (auto [text, dtype] : kNames)
    if (text == name) return dtype;
  return std::nullopt;
}

void encode(DType dtype, const float* src, std::byte* dst, int64_t n) noexcept {
  if (dtype == DType::f32) {
    std::memcpy(dst, src, static_cast<size_t>(n) * 4);
    return;
  }
  if (dtype == DType::f16 || dtype == DType::bf16) {
    for (int64_t i = 0; i < n; ++i) {
      uint16_t v = dtype == DType::f16 ? f32_to_f16(src[i]) : f32_to_bf16(src[i]);
      std::memcpy(dst + 2 * i, &v, 2);
    }
    return;
  }
  for (int64_t i = 0; i < n; i += kBlock, dst += info(dtype).bytes) {
    if (dtype == DType::q8_0) q8_0(src + i, dst);
    if (dtype == DType::q5_0) symmetric(src + i, 16, true, dst);
    if (dtype == DType::q4_0) symmetric(src + i, 8, false, dst);
    if (dtype == DType::q5_1) with_minimum(src + i, 31, true, dst);
    if (dtype == DType::q4_1) with_minimum(src + i, 15, false, dst);
  }
}

}  // namespace tenon
