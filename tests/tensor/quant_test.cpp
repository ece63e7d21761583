#include "tensor/quant.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>

#include "base/json.h"
#include "support/kit.h"
#include "tensor/half.h"

namespace tenon {
namespace {

// A plain reader of well-formed safetensors files, so that this room needs no other.
struct Tensors {
  std::string raw;
  Json header;
  size_t data = 0;
  explicit Tensors(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    raw.assign(std::istreambuf_iterator<char>(in), {});
    uint64_t n;
    std::memcpy(&n, raw.data(), 8);
    header = Json::parse(raw.substr(8, n));
    data = 8 + n;
  }
  bool has(const std::string& name) const { return header.contains(name); }
  std::span<const std::byte> bytes(const std::string& name) const {
    auto lo = header[name]["data_offsets"][0].get<size_t>(), hi = header[name]["data_offsets"][1].get<size_t>();
    return {reinterpret_cast<const std::byte*>(raw.data()) + data + lo, hi - lo};
  }
  std::vector<float> floats(const std::string& name) const {
    auto b = bytes(name);
    std::vector<float> v(b.size() / 4);
    std::memcpy(v.data(), b.data(), b.size());
    return v;
  }
};

void compare_blocks(const Tensors& t, const std::string& type, const std::string& kind) {
  DType dtype = *dtype_named(type);
  auto raw = t.bytes(type + kind + ".raw");
  auto want = t.floats(type + kind + ".f32");
  std::vector<float> got(want.size());
  ASSERT_EQ(raw.size(), bytes_for(dtype, static_cast<int64_t>(got.size()), type));
  decode(dtype, raw.data(), got.data(), static_cast<int64_t>(got.size()));
  size_t wrong = 0;
  for (size_t i = 0; i < got.size(); ++i)
    if (std::memcmp(&got[i], &want[i], 4) != 0 && !(std::isnan(got[i]) && std::isnan(want[i])) && wrong++ < 3)
      ADD_FAILURE() << type << kind << " element " << i << ": " << got[i] << ", wanted " << want[i];
  EXPECT_EQ(wrong, 0u) << type << kind;
}

int compare_all(const std::filesystem::path& file) {
  Tensors t(file);
  int types = 0;
  for (const DTypeInfo& d : all_dtypes()) {
    if (!is_float(d.dtype) || !t.has(std::string(d.name) + ".raw")) continue;
    ++types;
    compare_blocks(t, d.name, "");
    if (t.has(std::string(d.name) + ".rand.raw")) compare_blocks(t, d.name, ".rand");
  }
  return types;
}

TEST(Decode, BlocksAreBitEqualToGgmlGolden) { EXPECT_EQ(compare_all(test::golden("quant/blocks.safetensors")), 31); }

TEST(Decode, BlocksAreBitEqualToGgmlKit) {
  auto file = test::kit("formats/gguf_blocks/gguf_blocks.safetensors");
  if (!file) GTEST_SKIP() << "no kit here";
  EXPECT_EQ(compare_all(*file), 31);
}

struct Named {
  const char* name;
  SmallFloat format;
};
const Named kNamed[] = {{"f8_e4m3fn", kF8E4M3},       {"f8_e5m2", kF8E5M2},
                        {"f8_e4m3fnuz", kF8E4M3Fnuz}, {"f8_e5m2fnuz", kF8E5M2Fnuz},
                        {"f8_e4m3", kF8E4M3Ieee},     {"f8_e3m4", kF8E3M4Ieee},
                        {"f6_e2m3", kF6E2M3},         {"f6_e3m2", kF6E3M2},
                        {"f4_e2m1", kF4E2M1},         {"f16", kF16}};

void check_decode(const Tensors& t, const Named& f) {
  auto decoded = t.floats(std::string(f.name) + ".decode");
  for (size_t code = 0; code < decoded.size(); ++code) {
    float got = small_to_f32(f.format, static_cast<uint32_t>(code));
    bool same = std::memcmp(&got, &decoded[code], 4) == 0 || (std::isnan(got) && std::isnan(decoded[code]));
    ASSERT_TRUE(same) << f.name << " code " << code << ": " << got << " wanted " << decoded[code];
  }
}

void check_encode(const Tensors& t, const Named& f, bool saturate) {
  std::string key = f.name + std::string(saturate ? ".encode.saturate.bits" : ".encode.bits");
  if (!t.has(key)) return;
  auto in = t.floats(std::string(f.name) + ".encode.in");
  auto want = t.bytes(key);
  size_t width = want.size() / in.size();
  for (size_t i = 0; i < in.size(); ++i) {
    uint32_t w = 0;
    std::memcpy(&w, want.data() + i * width, width);
    uint32_t got = f32_to_small(f.format, in[i], saturate);
    bool both_nan = std::isnan(small_to_f32(f.format, got)) && std::isnan(small_to_f32(f.format, w));
    if (std::isnan(in[i]) && f.format.specials == Specials::none) continue;
    ASSERT_TRUE(got == w || both_nan) << key << " of " << in[i] << ": " << got << " wanted " << w;
  }
}

void check_e8m0(const Tensors& t) {
  auto decoded = t.floats("f8_e8m0fnu.decode");
  for (size_t code = 0; code < 256; ++code) {
    float got = e8m0_to_f32(static_cast<uint8_t>(code));
    ASSERT_TRUE(got == decoded[code] || (std::isnan(got) && std::isnan(decoded[code]))) << code;
  }
  auto in = t.floats("f8_e8m0fnu.encode.in"), floor_in = t.floats("f8_e8m0fnu.floor_log2.in");
  auto want = t.bytes("f8_e8m0fnu.encode.bits"), floor_want = t.bytes("f8_e8m0fnu.floor_log2.bits");
  for (size_t i = 0; i < in.size(); ++i) ASSERT_EQ(f32_to_e8m0(in[i]), static_cast<uint8_t>(want[i])) << in[i];
  for (size_t i = 0; i < floor_in.size(); ++i)
    ASSERT_EQ(e8m0_floor(floor_in[i]), static_cast<uint8_t>(floor_want[i])) << floor_in[i];
}

void check_ggml_scales(const Tensors& t) {
  auto mx = t.floats("ggml.mxfp4_scale"), nv = t.floats("ggml.nvfp4_scale");
  for (size_t code = 0; code < mx.size(); ++code)
    ASSERT_EQ(mxfp4_scale(static_cast<uint8_t>(code)) * 2, mx[code]) << code;
  for (size_t code = 0; code < nv.size(); ++code)
    ASSERT_EQ(nvfp4_scale(static_cast<uint8_t>(code)) * 2, nv[code]) << code;
}

// Every code of f16 and bf16 by the fast routines.
void check_halves(const Tensors& t) {
  auto f16 = t.floats("f16.decode"), bf16 = t.floats("bf16.decode");
  for (size_t code = 0; code < f16.size(); ++code) {
    float h = f16_to_f32(static_cast<uint16_t>(code)), b = bf16_to_f32(static_cast<uint16_t>(code));
    ASSERT_TRUE(std::memcmp(&h, &f16[code], 4) == 0 || (std::isnan(h) && std::isnan(f16[code]))) << code;
    ASSERT_TRUE(std::memcmp(&b, &bf16[code], 4) == 0 || (std::isnan(b) && std::isnan(bf16[code]))) << code;
  }
  auto in = t.floats("bf16.encode.in");
  auto want = t.bytes("bf16.encode.bits");
  for (size_t i = 0; i < in.size(); ++i) {
    uint16_t w;
    std::memcpy(&w, want.data() + 2 * i, 2);
    ASSERT_TRUE(f32_to_bf16(in[i]) == w || (std::isnan(in[i]) && std::isnan(bf16_to_f32(f32_to_bf16(in[i]))))) << in[i];
  }
}

// Returns how many formats the file has.
int check_numerics(const std::filesystem::path& file) {
  Tensors t(file);
  int formats = 0;
  for (const Named& f : kNamed) {
    if (!t.has(std::string(f.name) + ".decode")) continue;
    ++formats;
    check_decode(t, f);
    check_encode(t, f, false);
    check_encode(t, f, true);
  }
  check_e8m0(t);
  check_ggml_scales(t);
  if (t.has("f16.decode")) check_halves(t);
  return formats;
}

TEST(SmallFloats, TablesGolden) { EXPECT_EQ(check_numerics(test::golden("quant/small_floats.safetensors")), 9); }

TEST(SmallFloats, TablesKit) {
  auto file = test::kit("formats/numerics/numerics.safetensors");
  if (!file) GTEST_SKIP() << "no kit here";
  EXPECT_EQ(check_numerics(*file), 10);
}

// Widening, then narrowing, is the identity on every code that is a number.
TEST(SmallFloats, RoundTrip) {
  for (const Named& f : kNamed) {
    uint32_t codes = 1u << (1 + f.format.exponent_bits + f.format.mantissa_bits);
    for (uint32_t code = 0; code < codes; ++code) {
      float v = small_to_f32(f.format, code);
      if (!std::isnan(v)) {
        EXPECT_EQ(f32_to_small(f.format, v), code) << f.name;
      }
    }
  }
}

TEST(Encode, BlocksComeBackAsCloseAsTheirBitsAllow) {
  std::mt19937 rng(5);
  std::normal_distribution<float> normal;
  std::vector<float> x(32 * 200), y(x.size());
  for (float& v : x) v = normal(rng);
  for (auto [name, most] : std::initializer_list<std::pair<const char*, double>>{
           {"q8", 0.006}, {"q5", 0.037}, {"q5_0", 0.042}, {"q4", 0.075}, {"q4_0", 0.088}}) {
    DType dtype = *load_precision(name);
    std::vector<std::byte> blocks(bytes_for(dtype, static_cast<int64_t>(x.size()), "test"));
    encode(dtype, x.data(), blocks.data(), static_cast<int64_t>(x.size()));
    decode(dtype, blocks.data(), y.data(), static_cast<int64_t>(x.size()));
    double error = 0, power = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      error += static_cast<double>(x[i] - y[i]) * static_cast<double>(x[i] - y[i]);
      power += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    }
    EXPECT_LT(std::sqrt(error / power), most) << name;
  }
  EXPECT_FALSE(load_precision("q3"));
}

TEST(Encode, BlocksOfWhatTheyHoldAreExact) {
  for (const char* name : {"q8", "q5", "q5_0", "q4", "q4_0"}) {
    DType dtype = *load_precision(name);
    for (float scale : {0.0f, 0.25f, -2.0f}) {
      float x[32], y[32];
      for (int i = 0; i < 32; ++i) x[i] = scale * static_cast<float>(dtype == DType::q5_1 ? i - 8 : i % 16 - 8);
      if (dtype == DType::q8_0) x[0] = scale * 127;
      if (dtype == DType::q5_0) x[0] = scale * -16;
      std::byte block[64];
      encode(dtype, x, block, 32);
      decode(dtype, block, y, 32);
      for (int i = 0; i < 32; ++i) EXPECT_EQ(x[i], y[i]) << name << " " << scale << " element " << i;
    }
  }
}

TEST(Encode, RoundsToNearestEven) {
  float in[] = {1.0f, 1.00390625f, 1.01171875f, -2.5f, 65504.0f, 1e-8f};
  uint16_t bf[6], hf[6];
  encode(DType::bf16, in, reinterpret_cast<std::byte*>(bf), 6);
  encode(DType::f16, in, reinterpret_cast<std::byte*>(hf), 6);
  EXPECT_EQ(bf[1], 0x3F80);  // a tie, to even
  EXPECT_EQ(bf[2], 0x3F82);
  EXPECT_EQ(hf[4], 0x7BFF);
  EXPECT_EQ(hf[5], 0);
}

}  // namespace
}  // namespace tenon
