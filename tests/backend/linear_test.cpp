// Every encoding on every ISA level against the plain loops, bit for bit; and the same bits whatever m, threads,
// packing.
#include "backend/cpu/linear.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "backend/cpu/isa.h"
#include "backend/reference/linear.h"
#include "tensor/half.h"
#include "tensor/quant.h"
#include "tensor/quant/groups.h"

namespace tenon::cpu {
namespace {

struct Aligned {
  explicit Aligned(size_t n) : memory(n + 64) {
    data = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  }
  std::vector<std::byte> memory;
  std::byte* data;
};

// Random bytes would hold NaN scales: a block's f16 (and other) scales are set to small numbers.
void tame_scales(DType dtype, std::byte* block, std::mt19937& rng) {
  auto put = [&](size_t at) {
    uint16_t h = f32_to_f16(0.001f * static_cast<float>(1 + rng() % 64));
    std::memcpy(block + at, &h, 2);
  };
  switch (dtype) {
    case DType::q4_1:
    case DType::q5_1:
      put(0), put(2);
      return;
    case DType::q4_k:
    case DType::q5_k:
      put(0), put(2);
      return;
    case DType::q2_k:
      put(80), put(82);
      return;
    case DType::q3_k:
      put(108);
      return;
    case DType::q6_k:
      put(208);
      return;
    case DType::tq1_0:
      put(52);
      return;
    case DType::tq2_0:
      put(64);
      return;
    case DType::q8_k: {
      float f = 0.01f;
      std::memcpy(block, &f, 4);
      return;
    }
    case DType::int4_32:
    case DType::int4_128:
    case DType::int8_32:
    case DType::affine4_32:
    case DType::affine8_32: {
      const auto scale = f16_to_f32(f32_to_f16(0.001f * static_cast<float>(1 + rng() % 64)));
      const bool affine = dtype == DType::affine4_32 || dtype == DType::affine8_32;
      const uint32_t head = affine ? quant::affine_head(f32_to_bf16(scale), f32_to_bf16(-7 * scale))
                                   : quant::int_head(scale, rng() % (dtype == DType::int8_32 ? 257 : 17));
      std::memcpy(block, &head, 4);
      return;
    }
    case DType::iq1_m:  // the scale's bits are spread over the tops of four words
      for (size_t i = 0; i < 4; ++i)
        block[49 + 2 * i] = (block[49 + 2 * i] & std::byte{0x0F}) | (i == 3 ? std::byte{0x20} : std::byte{0x10});
      return;
    case DType::mxfp4:
      block[0] = std::byte{120};
      return;
    case DType::nvfp4:
      for (size_t i = 0; i < 4; ++i) block[i] = std::byte{0x38};
      return;
    default:
      put(0);
      return;
  }
}

std::vector<std::byte> random_weight(DType dtype, int64_t out, int64_t in, std::mt19937& rng) {
  std::vector<std::byte> bytes(bytes_for(dtype, out * in, "test"));
  std::normal_distribution<float> normal;
  if (dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16) {
    std::vector<float> v(static_cast<size_t>(out * in));
    for (float& x : v) x = normal(rng);
    encode(dtype, v.data(), bytes.data(), out * in);
    return bytes;
  }
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng());
  if (const DTypeInfo& d = info(dtype); is_block_quantised(dtype)) {
    for (size_t i = 0; i < bytes.size(); i += static_cast<size_t>(d.bytes)) tame_scales(dtype, bytes.data() + i, rng);
  } else if (dtype == DType::f64) {
    for (size_t i = 0; i < bytes.size(); i += 8) {
      double v = normal(rng);
      std::memcpy(bytes.data() + i, &v, 8);
    }
  } else {  // fp8 and smaller: no NaN codes
    for (std::byte& b : bytes) b &= std::byte{0x77};
    if (dtype == DType::f8_e8m0)
      for (std::byte& b : bytes) b = static_cast<std::byte>(124 + rng() % 6);
  }
  return bytes;
}

reference::Arithmetic arithmetic() {
  if (isa() == Isa::avx512_bf16) return reference::Arithmetic::bf16_dot;
  return isa() == Isa::baseline ? reference::Arithmetic::rounded : reference::Arithmetic::fused;
}

struct Case {
  DType dtype;
  int64_t out, in, m;
  bool f32_activations = false, in_out = false, bias = false;
};

std::vector<float> random_floats(int64_t n, std::mt19937& rng) {
  std::normal_distribution<float> normal;
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = normal(rng);
  return v;
}

constexpr float kSentinel = 12345.0f;

std::vector<float> run(const Case& c, const LinearWeight& w, const std::vector<float>& x, const float* bias,
                       int threads) {
  ThreadPool pool(threads);
  Aligned scratch(linear_scratch_bytes(c.dtype, c.m, c.in, threads, c.f32_activations));
  int64_t ldy = c.out + 3;
  std::vector<float> y(static_cast<size_t>(c.m * ldy + 8), kSentinel);
  LinearCall call{x.data(), c.m, c.in, y.data(), ldy, bias, scratch.data, c.f32_activations};
  linear(w, call, pool);
  std::vector<float> out;
  for (int64_t m = 0; m < c.m; ++m) {
    out.insert(out.end(), y.begin() + m * ldy, y.begin() + m * ldy + c.out);
    for (int64_t i = c.out; i < ldy; ++i)
      EXPECT_EQ(y[static_cast<size_t>(m * ldy + i)], kSentinel) << "wrote past row " << m;
  }
  return out;
}

void expect_same(const std::vector<float>& got, const std::vector<float>& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    if (std::memcmp(&got[i], &want[i], 4) != 0) {
      ADD_FAILURE() << what << ": element " << i << " is " << got[i] << ", wanted " << want[i];
      return;
    }
}

void check(const Case& c, std::mt19937& rng) {
  std::string what = std::string(name(c.dtype)) + (c.f32_activations ? " f32" : "") + (c.in_out ? " in_out" : "") +
                     " out " + std::to_string(c.out) + " in " + std::to_string(c.in) + " m " + std::to_string(c.m) +
                     " on " + name(isa());
  std::vector<std::byte> rows = random_weight(c.dtype, c.out, c.in, rng);
  rows.insert(rows.begin(), std::byte{0});  // unaligned
  LinearWeight w{c.dtype, c.out, c.in, rows.data() + 1, nullptr, c.in_out};
  std::vector<float> x = random_floats(c.m * c.in, rng), b = random_floats(c.out, rng);
  const float* bias = c.bias ? b.data() : nullptr;

  std::vector<float> want(static_cast<size_t>(c.m * c.out));
  LinearCall plain{x.data(), c.m, c.in, want.data(), c.out, bias, nullptr, c.f32_activations};
  reference::linear(w, plain, arithmetic());
  std::vector<float> got = run(c, w, x, bias, 1);
  expect_same(got, want, what);
  expect_same(run(c, w, x, bias, 2), got, what + " on two threads");
  if (!c.in_out && panel_bytes(c.dtype, c.out, c.in) > 0) {
    ThreadPool pool(2);
    Aligned panels(panel_bytes(c.dtype, c.out, c.in));
    ASSERT_TRUE(pack(w, panels.data, pool)) << what;
    LinearWeight packed = w;
    packed.panels = panels.data;
    packed.rows = nullptr;
    expect_same(run(c, packed, x, bias, 2), got, what + " packed");
  }
  // Row by row: the same bits.
  Case one = c;
  one.m = 1;
  for (int64_t m = 0; m < c.m; m += 5) {
    std::vector<float> row(x.begin() + m * c.in, x.begin() + (m + 1) * c.in);
    std::vector<float> part(got.begin() + m * c.out, got.begin() + (m + 1) * c.out);
    expect_same(run(one, w, row, bias, 1), part, what + " row " + std::to_string(m) + " alone");
  }
}

std::vector<DType> all_block_types() {
  std::vector<DType> types;
  for (const DTypeInfo& d : all_dtypes())
    if (is_block_quantised(d.dtype)) types.push_back(d.dtype);
  return types;
}

class LinearOnIsa : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override { force_isa(GetParam()); }
  void TearDown() override { force_isa(available_isas().back()); }
};

TEST_P(LinearOnIsa, EveryEncodingMatchesThePlainLoops) {
  std::mt19937 rng(17);
  for (const DTypeInfo& d : all_dtypes()) {
    if (!is_float(d.dtype)) continue;
    for (bool f32 : {false, true}) {
      check({d.dtype, 70, d.block * 3 + (d.block == 1 ? 61 : 0), 11, f32}, rng);
      check({d.dtype, 33, d.block * (d.block > 100 ? 9 : 40), 1, f32, false, true}, rng);
    }
  }
}

TEST_P(LinearOnIsa, OddShapes) {
  std::mt19937 rng(5);
  for (DType t : {DType::f32, DType::bf16, DType::f16})
    for (int64_t out : {1, 31, 32, 64, 100})
      for (int64_t in : {1, 4, 8, 17, 512, 600})
        for (int64_t m : {1, 3, 9}) {
          check({t, out, in, m, false, false, true}, rng);
          check({t, out, in, m, false, true, false}, rng);
          check({t, out, in, m, true, false, false}, rng);
        }
}

TEST_P(LinearOnIsa, ManyRowsCrossEveryChunk) {
  std::mt19937 rng(6);
  for (DType t : {DType::q4_0, DType::q4_1, DType::q8_0, DType::q4_k, DType::q6_k, DType::bf16})
    check({t, 65, 2304, 130}, rng);
  check({DType::bf16, 40, 2305, 250}, rng);
}

// Longer than the stretches that a panel's halves take in turns.
TEST_P(LinearOnIsa, FewRowsOfLongPanels) {
  std::mt19937 rng(10);
  for (DType t : {DType::q4_0, DType::q5_1, DType::q8_0, DType::q5_k, DType::mxfp4, DType::bf16})
    for (int64_t m : {1, 2, 4, 8, 11}) check({t, 70, 1792, m}, rng);
}

// Denormals, zeros of both signs and numbers of every size, in sums that stay finite.
TEST_P(LinearOnIsa, Bf16OfEveryMagnitude) {
  std::mt19937 rng(12);
  const Case c{DType::bf16, 33, 50, 13};
  auto any = [&](uint32_t exponents) {
    return std::bit_cast<float>(static_cast<uint32_t>((rng() & 0x807FFFFF) | (rng() % exponents) << 23));
  };
  std::vector<float> v(static_cast<size_t>(c.out * c.in)), x(static_cast<size_t>(c.m * c.in));
  for (float& w : v) w = any(rng() % 2 ? 3 : 180);
  for (float& a : x) a = any(rng() % 2 ? 3 : 180);
  std::vector<std::byte> rows(v.size() * 2);
  encode(c.dtype, v.data(), rows.data(), c.out * c.in);
  LinearWeight w{c.dtype, c.out, c.in, rows.data()};
  std::vector<float> want(static_cast<size_t>(c.m * c.out));
  reference::linear(w, {x.data(), c.m, c.in, want.data(), c.out}, arithmetic());
  expect_same(run(c, w, x, nullptr, 1), want, "on " + name(isa()));
}

// Panels of BF16 hold every bit, also of weights far from their neighbours, as long as those are few.
TEST_P(LinearOnIsa, Bf16PanelsKeepOutliers) {
  std::mt19937 rng(13);
  const Case c{DType::bf16, 70, 100, 5};
  std::vector<float> v = random_floats(c.out * c.in, rng), x = random_floats(c.m * c.in, rng);
  for (size_t i = 0; i < v.size(); i += 5) v[i] = i % 2 ? 0.0f : -0.0f;
  for (size_t i : {3u, 64u, 65u, 1023u, 6999u}) v[i] = 1e-30f;
  for (size_t i : {500u, 502u, 6000u}) v[i] = -1e30f;
  for (size_t i : {700u, 6500u}) v[i] = 3e-39f;
  v[900] = INFINITY;
  std::vector<std::byte> rows(v.size() * 2);
  encode(c.dtype, v.data(), rows.data(), c.out * c.in);
  LinearWeight w{c.dtype, c.out, c.in, rows.data()};
  Aligned panels(panel_bytes(c.dtype, c.out, c.in));
  ThreadPool pool(2);
  ASSERT_TRUE(pack(w, panels.data, pool));
  LinearWeight packed = w;
  packed.panels = panels.data;
  packed.rows = nullptr;
  expect_same(run(c, packed, x, nullptr, 2), run(c, w, x, nullptr, 1), "on " + name(isa()));

  for (float& f : v) f *= std::exp2(static_cast<float>(rng() % 60));
  encode(c.dtype, v.data(), rows.data(), c.out * c.in);
  EXPECT_FALSE(pack(w, panels.data, pool));
}

TEST_P(LinearOnIsa, NoRowsDoNothing) {
  std::mt19937 rng(7);
  check({DType::q8_0, 32, 32, 0}, rng);
}

TEST_P(LinearOnIsa, EveryNumberOfRowsAtATime) {
  std::mt19937 rng(9);
  for (DType t : {DType::q4_1, DType::q8_0, DType::q4_k, DType::q6_k, DType::q2_k, DType::iq3_s, DType::f16,
                  DType::bf16, DType::f32})
    for (int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 17, 33}) check({t, 48, 256, m, false, false, true}, rng);
}

// All codes of the activations at their largest, all codes of the weights at both ends: no intermediate may overflow.
TEST_P(LinearOnIsa, LargestCodesDoNotOverflow) {
  for (DType t : all_block_types())
    for (int fill : {0x00, 0x7F, 0x80, 0xFF, 0x08, 0x88}) {
      std::mt19937 rng(10);
      Case c{t, 32, info(t).block, 1};
      std::vector<std::byte> rows(bytes_for(t, c.out * c.in, "test"), static_cast<std::byte>(fill));
      for (size_t i = 0; i < rows.size(); i += static_cast<size_t>(info(t).bytes)) tame_scales(t, rows.data() + i, rng);
      LinearWeight w{t, c.out, c.in, rows.data()};
      for (float sign : {1.0f, -1.0f}) {
        std::vector<float> x(static_cast<size_t>(c.in), sign), want(32);
        reference::linear(w, {x.data(), 1, c.in, want.data(), 32}, arithmetic());
        expect_same(run(c, w, x, nullptr, 1), want, std::string(name(t)) + " filled with " + std::to_string(fill));
        c.m = 2;  // by way of a tile
        std::vector<float> two = x;
        two.insert(two.end(), x.begin(), x.end());
        std::vector<float> got = run(c, w, two, nullptr, 1);
        got.resize(32);
        expect_same(got, want, std::string(name(t)) + " filled with " + std::to_string(fill) + ", two rows");
        c.m = 1;
      }
    }
}

TEST_P(LinearOnIsa, InfinityAndNanStayInTheirRow) {
  std::mt19937 rng(8);
  std::vector<std::byte> rows = random_weight(DType::q4_1, 64, 64, rng);
  LinearWeight w{DType::q4_1, 64, 64, rows.data()};
  const Case c{DType::q4_1, 64, 64, 4};
  std::vector<float> x(4 * 64, 1.0f);
  const std::vector<float> clean = run(c, w, x, nullptr, 1);
  x[64 + 3] = INFINITY;
  x[128 + 40] = -NAN;
  std::vector<float> got = run(c, w, x, nullptr, 1);
  for (size_t i = 64; i < 192; ++i) EXPECT_TRUE(std::isnan(got[i])) << i;
  got.erase(got.begin() + 64, got.begin() + 192);
  expect_same(got, {clean.begin(), clean.begin() + 128}, "the other rows");
}

TEST_P(LinearOnIsa, GroupsOfZerosAndOfTinyNumbers) {
  std::mt19937 rng(11);
  std::vector<std::byte> rows = random_weight(DType::q8_0, 32, 128, rng);
  LinearWeight w{DType::q8_0, 32, 128, rows.data()};
  std::vector<float> x(128, 0.0f), want(32);
  x[32] = 1e-40f;  // 127 / 1e-40 is infinite
  x[64] = 1e-37f, x[65] = -1e30f;
  x[96] = 3e-36f, x[97] = -1e-36f;
  reference::linear(w, {x.data(), 1, 128, want.data(), 32}, arithmetic());
  for (float y : want) EXPECT_TRUE(std::isfinite(y));
  expect_same(run({DType::q8_0, 32, 128, 1}, w, x, nullptr, 1), want, "tiny");
}

INSTANTIATE_TEST_SUITE_P(Isas, LinearOnIsa, testing::ValuesIn(available_isas()),
                         [](const auto& i) { return name(i.param); });

}  // namespace
}  // namespace tenon::cpu
