// Layouts: ggml's ggml-common.h; decoding order: ggml-quants.c (dequantize_row_*).
#include "tensor/quant/expand.h"

#include <bit>
#include <cstring>

#include "tensor/half.h"
#include "tensor/quant/groups.h"
#include "tensor/quant/iq_grids.h"

namespace tenon::quant {
namespace {

uint8_t u8(const std::byte* p) { return static_cast<uint8_t>(*p); }
uint16_t u16(const std::byte* p) {
  uint16_t v;
  std::memcpy(&v, p, 2);
  return v;
}
uint32_t u32(const std::byte* p) {
  uint32_t v;
  std::memcpy(&v, p, 4);
  return v;
}
float f16(const std::byte* p) { return f16_to_f32(u16(p)); }

// Low nibbles, then high nibbles, of n bytes.
template <class F>
void nibbles(const std::byte* p, int n, int8_t* codes, F&& code) {
  for (int i = 0; i < n; ++i) {
    codes[i] = code(u8(p + i) & 15, i);
    codes[i + n] = code(u8(p + i) >> 4, i + n);
  }
}

void q4_0(const std::byte* b, Expanded& e) noexcept {
  e.scale[0] = f16(b);
  nibbles(b + 2, 16, e.codes, [](int q, int) { return static_cast<int8_t>(q - 8); });
}

void q4_1(const std::byte* b, Expanded& e) noexcept {
  e.scale[0] = f16(b);
  e.minimum[0] = f16(b + 2);
  nibbles(b + 4, 16, e.codes, [](int q, int) { return static_cast<int8_t>(q); });
}

void q5_0(const std::byte* b, Expanded& e) noexcept {
  e.scale[0] = f16(b);
  uint32_t high = u32(b + 2);
  nibbles(b + 6, 16, e.codes, [&](int q, int i) { return static_cast<int8_t>((q | (high >> i & 1) << 4) - 16); });
}

void q5_1(const std::byte* b, Expanded& e) noexcept {
  e.scale[0] = f16(b);
  e.minimum[0] = f16(b + 2);
  uint32_t high = u32(b + 4);
  nibbles(b + 8, 16, e.codes, [&](int q, int i) { return static_cast<int8_t>(q | (high >> i & 1) << 4); });
}

void q8_0(const std::byte* b, Expanded& e) noexcept {
  e.scale[0] = f16(b);
  std::memcpy(e.codes, b + 2, 32);
}

void q8_1(const std::byte* b, Expanded& e) noexcept {
  e.scale[0] = f16(b);
  std::memcpy(e.codes, b + 4, 32);
}

void q8_k(const std::byte* b, Expanded& e) noexcept {
  float d = std::bit_cast<float>(u32(b));
  for (int g = 0; g < 8; ++g) e.scale[g] = d;
  std::memcpy(e.codes, b + 4, 256);
}

void q1_0(const std::byte* b, Expanded& e) noexcept {
  for (int g = 0; g < 4; ++g) e.scale[g] = f16(b);
  for (int i = 0; i < 128; ++i) e.codes[i] = u8(b + 2 + i / 8) >> (i % 8) & 1 ? 1 : -1;
}

void q2_0(const std::byte* b, Expanded& e) noexcept {
  e.scale[0] = e.scale[1] = f16(b);
  for (int i = 0; i < 64; ++i) e.codes[i] = static_cast<int8_t>((u8(b + 2 + i / 4) >> (2 * (i % 4)) & 3) - 1);
}

void q2_k(const std::byte* b, Expanded& e) noexcept {
  const std::byte *scales = b, *qs = b + 16;
  float d = f16(b + 80), dmin = f16(b + 82);
  for (int g = 0; g < 16; ++g) {
    e.scale[g] = d * static_cast<float>(u8(scales + g) & 15);
    e.minimum[g] = -(dmin * static_cast<float>(u8(scales + g) >> 4));
  }
  for (int half = 0; half < 2; ++half)
    for (int j = 0; j < 4; ++j)
      for (int i = 0; i < 32; ++i)
        e.codes[half * 128 + j * 32 + i] = static_cast<int8_t>(u8(qs + half * 32 + i) >> (2 * j) & 3);
}

void q3_k(const std::byte* b, Expanded& e) noexcept {
  const std::byte *mask = b, *qs = b + 32, *scales = b + 96;
  float d = f16(b + 108);
  for (int g = 0; g < 16; ++g) {
    int low = u8(scales + g % 8) >> (g < 8 ? 0 : 4) & 15, high = u8(scales + 8 + g % 4) >> (2 * (g / 4)) & 3;
    e.scale[g] = d * static_cast<float>((low | high << 4) - 32);
  }
  for (int half = 0; half < 2; ++half)
    for (int j = 0; j < 4; ++j)
      for (int i = 0; i < 32; ++i) {
        int q = u8(qs + half * 32 + i) >> (2 * j) & 3;
        bool high = u8(mask + i) >> (half * 4 + j) & 1;
        e.codes[half * 128 + j * 32 + i] = static_cast<int8_t>(high ? q : q - 4);
      }
}

// The 6-bit scales and minima of Q4_K and Q5_K, eight of each in 12 bytes.
void k_scales(const std::byte* s, float d, float dmin, Expanded& e) {
  for (int g = 0; g < 8; ++g) {
    int scale, minimum;
    if (g < 4) {
      scale = u8(s + g) & 63;
      minimum = u8(s + g + 4) & 63;
    } else {
      scale = (u8(s + g + 4) & 15) | (u8(s + g - 4) >> 6) << 4;
      minimum = u8(s + g + 4) >> 4 | (u8(s + g) >> 6) << 4;
    }
    e.scale[g] = d * static_cast<float>(scale);
    e.minimum[g] = -(dmin * static_cast<float>(minimum));
  }
}

void q4_k(const std::byte* b, Expanded& e) noexcept {
  k_scales(b + 4, f16(b), f16(b + 2), e);
  for (int j = 0; j < 4; ++j)
    nibbles(b + 16 + 32 * j, 32, e.codes + 64 * j, [](int q, int) { return static_cast<int8_t>(q); });
}

void q5_k(const std::byte* b, Expanded& e) noexcept {
  k_scales(b + 4, f16(b), f16(b + 2), e);
  const std::byte *high = b + 16, *qs = b + 48;
  for (int j = 0; j < 4; ++j)
    nibbles(qs + 32 * j, 32, e.codes + 64 * j,
            [&](int q, int i) { return static_cast<int8_t>(q | (u8(high + i % 32) >> (2 * j + i / 32) & 1) << 4); });
}

void q6_k(const std::byte* b, Expanded& e) noexcept {
  const std::byte *ql = b, *qh = b + 128, *scales = b + 192;
  float d = f16(b + 208);
  for (int g = 0; g < 16; ++g) e.scale[g] = d * static_cast<float>(static_cast<int8_t>(u8(scales + g)));
  for (int half = 0; half < 2; ++half)
    for (int i = 0; i < 32; ++i) {
      const std::byte* l = ql + 64 * half;
      int h = u8(qh + 32 * half + i);
      int8_t* out = e.codes + 128 * half + i;
      out[0] = static_cast<int8_t>(((u8(l + i) & 15) | (h & 3) << 4) - 32);
      out[32] = static_cast<int8_t>(((u8(l + 32 + i) & 15) | (h >> 2 & 3) << 4) - 32);
      out[64] = static_cast<int8_t>((u8(l + i) >> 4 | (h >> 4 & 3) << 4) - 32);
      out[96] = static_cast<int8_t>((u8(l + 32 + i) >> 4 | (h >> 6 & 3) << 4) - 32);
    }
}

// Eight code values from a grid entry of 2-bit indices; bit i of `signs` negates element i.
void grid8(uint16_t entry, const int8_t (&values)[4], uint8_t signs, int8_t* out) {
  for (int i = 0; i < 8; ++i) {
    int8_t v = values[entry >> (2 * i) & 3];
    out[i] = signs >> i & 1 ? static_cast<int8_t>(-v) : v;
  }
}

void grid4(uint16_t entry, const int8_t (&values)[8], uint8_t signs, int8_t* out) {
  for (int i = 0; i < 4; ++i) {
    int8_t v = values[entry >> (3 * i) & 7];
    out[i] = signs >> i & 1 ? static_cast<int8_t>(-v) : v;
  }
}

constexpr int8_t kIq2Values[4] = {0x08, 0x19, 0x2b, 0};
constexpr int8_t kIq3xxsValues[8] = {0x04, 0x0c, 0x14, 0x1c, 0x24, 0x2c, 0x34, 0x3e};
constexpr int8_t kIq3sValues[8] = {1, 3, 5, 7, 9, 11, 13, 15};

// Seven sign bits; the eighth makes their number even.
uint8_t even_signs(uint32_t index) {
  index &= 127;
  return static_cast<uint8_t>(index | (static_cast<uint32_t>(std::popcount(index)) & 1) << 7);
}

void iq2_xxs(const std::byte* b, Expanded& e) noexcept {
  float d = f16(b);
  for (int g = 0; g < 8; ++g) {
    const std::byte* q = b + 2 + 8 * g;
    uint32_t rest = u32(q + 4);
    e.scale[g] = d * (0.5f + static_cast<float>(rest >> 28)) * 0.25f;
    for (int j = 0; j < 4; ++j)
      grid8(kIq2xxs[u8(q + j)], kIq2Values, even_signs(rest >> (7 * j)), e.codes + 32 * g + 8 * j);
  }
}

void iq2_xs(const std::byte* b, Expanded& e) noexcept {
  float d = f16(b);
  for (int g = 0; g < 16; ++g) {
    e.scale[g] = d * (0.5f + static_cast<float>(u8(b + 66 + g / 2) >> (4 * (g % 2)) & 15)) * 0.25f;
    for (int j = 0; j < 2; ++j) {
      uint16_t q = u16(b + 2 + 2 * (2 * g + j));
      grid8(kIq2xs[q & 511], kIq2Values, even_signs(q >> 9), e.codes + 16 * g + 8 * j);
    }
  }
}

void iq2_s(const std::byte* b, Expanded& e) noexcept {
  float d = f16(b);
  const std::byte *qs = b + 2, *signs = b + 34, *qh = b + 66, *scales = b + 74;
  for (int g = 0; g < 16; ++g) {
    e.scale[g] = d * (0.5f + static_cast<float>(u8(scales + g / 2) >> (4 * (g % 2)) & 15)) * 0.25f;
    for (int j = 0; j < 2; ++j) {
      int i = 2 * g + j;
      int index = u8(qs + i) | (u8(qh + i / 4) >> (2 * (i % 4)) & 3) << 8;
      grid8(kIq2s[index], kIq2Values, u8(signs + i), e.codes + 8 * i);
    }
  }
}

void iq3_xxs(const std::byte* b, Expanded& e) noexcept {
  float d = f16(b);
  for (int g = 0; g < 8; ++g) {
    uint32_t rest = u32(b + 66 + 4 * g);
    e.scale[g] = d * (0.5f + static_cast<float>(rest >> 28)) * 0.5f;
    for (int j = 0; j < 4; ++j) {
      uint8_t signs = even_signs(rest >> (7 * j));
      const std::byte* q = b + 2 + 8 * g + 2 * j;
      grid4(kIq3xxs[u8(q)], kIq3xxsValues, signs & 15, e.codes + 32 * g + 8 * j);
      grid4(kIq3xxs[u8(q + 1)], kIq3xxsValues, signs >> 4, e.codes + 32 * g + 8 * j + 4);
    }
  }
}

void iq3_s(const std::byte* b, Expanded& e) noexcept {
  float d = f16(b);
  const std::byte *qs = b + 2, *qh = b + 66, *signs = b + 74, *scales = b + 106;
  for (int g = 0; g < 8; ++g) e.scale[g] = d * static_cast<float>(1 + 2 * (u8(scales + g / 2) >> (4 * (g % 2)) & 15));
  for (int i = 0; i < 64; ++i) {
    int index = u8(qs + i) | (u8(qh + i / 8) >> (i % 8) & 1) << 8;
    grid4(kIq3s[index], kIq3sValues, u8(signs + i / 2) >> (4 * (i % 2)) & 15, e.codes + 4 * i);
  }
}

// IQ1: value = dl * (grid + delta), delta = +-1/8; as codes 8 * grid +- 1 with the scale dl / 8 (exact).
void grid1(uint16_t entry, bool negative_delta, int8_t* out) {
  for (int i = 0; i < 8; ++i)
    out[i] = static_cast<int8_t>(8 * ((entry >> (2 * i) & 3) - 1) + (negative_delta ? -1 : 1));
}

void iq1_s(const std::byte* b, Expanded& e) noexcept {
  float d = f16(b);
  for (int g = 0; g < 8; ++g) {
    uint16_t qh = u16(b + 34 + 2 * g);
    e.scale[g] = d * static_cast<float>(2 * (qh >> 12 & 7) + 1) * 0.125f;
    for (int j = 0; j < 4; ++j) {
      int index = u8(b + 2 + 4 * g + j) | (qh >> (3 * j) & 7) << 8;
      grid1(kIq1s[index], qh & 0x8000, e.codes + 32 * g + 8 * j);
    }
  }
}

void iq1_m(const std::byte* b, Expanded& e) noexcept {
  const std::byte *qs = b, *qh = b + 32, *scales = b + 48;
  uint16_t bits = 0;
  for (int i = 0; i < 4; ++i) bits = static_cast<uint16_t>(bits | (u16(scales + 2 * i) >> 12) << (4 * i));
  float d = f16_to_f32(bits);
  for (int g = 0; g < 16; ++g)
    e.scale[g] = d * static_cast<float>(2 * (u16(scales + 2 * (g / 4)) >> (3 * (g % 4)) & 7) + 1) * 0.125f;
  for (int i = 0; i < 32; ++i) {
    int h = u8(qh + i / 2) >> (4 * (i % 2)) & 15;
    grid1(kIq1s[u8(qs + i) | (h & 7) << 8], h & 8, e.codes + 8 * i);
  }
}

void iq4_nl(const std::byte* b, Expanded& e) noexcept {
  e.scale[0] = f16(b);
  nibbles(b + 2, 16, e.codes, [](int q, int) { return kIq4Values[q]; });
}

void iq4_xs(const std::byte* b, Expanded& e) noexcept {
  float d = f16(b);
  uint16_t high = u16(b + 2);
  for (int g = 0; g < 8; ++g) {
    int scale = (u8(b + 4 + g / 2) >> (4 * (g % 2)) & 15) | (high >> (2 * g) & 3) << 4;
    e.scale[g] = d * static_cast<float>(scale - 32);
    nibbles(b + 8 + 16 * g, 16, e.codes + 32 * g, [](int q, int) { return kIq4Values[q]; });
  }
}

void tq1_0(const std::byte* b, Expanded& e) noexcept {
  const std::byte *qs = b, *qh = b + 48;
  float d = f16(b + 52);
  for (int g = 0; g < 8; ++g) e.scale[g] = d;
  static constexpr uint8_t kPow3[5] = {1, 3, 9, 27, 81};
  auto trit = [](uint8_t q, int power) {
    auto x = static_cast<uint8_t>(q * kPow3[power]);
    return static_cast<int8_t>((x * 3 >> 8) - 1);
  };
  int8_t* out = e.codes;
  for (int n = 0; n < 5; ++n)
    for (int i = 0; i < 32; ++i) *out++ = trit(u8(qs + i), n);
  for (int n = 0; n < 5; ++n)
    for (int i = 0; i < 16; ++i) *out++ = trit(u8(qs + 32 + i), n);
  for (int n = 0; n < 4; ++n)
    for (int i = 0; i < 4; ++i) *out++ = trit(u8(qh + i), n);
}

void tq2_0(const std::byte* b, Expanded& e) noexcept {
  for (int g = 0; g < 8; ++g) e.scale[g] = f16(b + 64);
  for (int half = 0; half < 2; ++half)
    for (int j = 0; j < 4; ++j)
      for (int i = 0; i < 32; ++i)
        e.codes[128 * half + 32 * j + i] = static_cast<int8_t>((u8(b + 32 * half + i) >> (2 * j) & 3) - 1);
}

void mxfp4(const std::byte* b, Expanded& e) noexcept {
  e.scale[0] = mxfp4_scale(u8(b));
  nibbles(b + 1, 16, e.codes, [](int q, int) { return kE2M1Doubled[q]; });
}

void nvfp4(const std::byte* b, Expanded& e) noexcept {
  for (int g = 0; g < 4; ++g) {
    e.scale[g] = nvfp4_scale(u8(b + g));
    nibbles(b + 4 + 8 * g, 8, e.codes + 16 * g, [](int q, int) { return kE2M1Doubled[q]; });
  }
}

// Of groups.h: the first word's scale and minimum for the 4-bit codes, or with `eight` the others.
void head(const std::byte* b, bool affine, bool eight, int groups, Expanded& e) {
  const uint32_t word = u32(b);
  const float offset = eight ? 128 : 0;
  const float scale = std::bit_cast<float>(affine ? word << 16 : word & ~kZeroBits);
  const float minimum = affine ? std::bit_cast<float>(word & 0xFFFF0000u) + scale * offset
                               : -(scale * (static_cast<float>(word & kZeroBits) - offset));
  for (int g = 0; g < groups; ++g) e.scale[g] = scale, e.minimum[g] = minimum;
}

template <bool affine, int count>
void grouped4(const std::byte* b, Expanded& e) noexcept {
  head(b, affine, false, count / 32, e);
  for (int g = 0; g < count / 32; ++g)
    nibbles(b + 4 + 16 * g, 16, e.codes + 32 * g, [](int q, int) { return static_cast<int8_t>(q); });
}

template <bool affine>
void grouped8(const std::byte* b, Expanded& e) noexcept {
  head(b, affine, true, 1, e);
  std::memcpy(e.codes, b + 4, 32);
}

struct Entry {
  DType dtype;
  BlockForm form;
};
constexpr Entry kForms[] = {
    {DType::q4_0, {32, false, q4_0}},
    {DType::q4_1, {32, true, q4_1}},
    {DType::q5_0, {32, false, q5_0}},
    {DType::q5_1, {32, true, q5_1}},
    {DType::q8_0, {32, false, q8_0}},
    {DType::q8_1, {32, false, q8_1}},
    {DType::q2_k, {16, true, q2_k}},
    {DType::q3_k, {16, false, q3_k}},
    {DType::q4_k, {32, true, q4_k}},
    {DType::q5_k, {32, true, q5_k}},
    {DType::q6_k, {16, false, q6_k}},
    {DType::q8_k, {32, false, q8_k}},
    {DType::iq1_s, {32, false, iq1_s}},
    {DType::iq1_m, {16, false, iq1_m}},
    {DType::iq2_xxs, {32, false, iq2_xxs}},
    {DType::iq2_xs, {16, false, iq2_xs}},
    {DType::iq2_s, {16, false, iq2_s}},
    {DType::iq3_xxs, {32, false, iq3_xxs}},
    {DType::iq3_s, {32, false, iq3_s}},
    {DType::iq4_nl, {32, false, iq4_nl}},
    {DType::iq4_xs, {32, false, iq4_xs}},
    {DType::tq1_0, {32, false, tq1_0}},
    {DType::tq2_0, {32, false, tq2_0}},
    {DType::mxfp4, {32, false, mxfp4}},
    {DType::nvfp4, {16, false, nvfp4}},
    {DType::q1_0, {32, false, q1_0}},
    {DType::q2_0, {32, false, q2_0}},
    {DType::int4_32, {32, true, grouped4<false, 32>}},
    {DType::int4_128, {32, true, grouped4<false, 128>}},
    {DType::int8_32, {32, true, grouped8<false>}},
    {DType::affine4_32, {32, true, grouped4<true, 32>}},
    {DType::affine8_32, {32, true, grouped8<true>}},
};

constexpr bool forms_follow_the_enum() {
  for (size_t i = 0; i < std::size(kForms); ++i)
    if (static_cast<size_t>(kForms[i].dtype) != static_cast<size_t>(DType::q4_0) + i) return false;
  return true;
}
static_assert(forms_follow_the_enum());

}  // namespace

const BlockForm* block_form(DType dtype) {
  return is_block_quantised(dtype) ? &kForms[static_cast<size_t>(dtype) - static_cast<size_t>(DType::q4_0)].form
                                   : nullptr;
}

}  // namespace tenon::quant
