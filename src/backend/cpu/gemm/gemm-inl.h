// The inner loops, written once on 512-bit vector types that the compiler splits for narrower machines; what has no such form
// (fused multiply-add, int8 dot products, f16) comes from `Isa` in the including file, inside its target region.
// Included by one .cpp per ISA level; each is a namespace of its own.

using f32x16 = float __attribute__((vector_size(64)));
using i32x16 = int32_t __attribute__((vector_size(64)));
using u32x16 = uint32_t __attribute__((vector_size(64)));
using i8x64 = int8_t __attribute__((vector_size(64)));
using u8x64 = uint8_t __attribute__((vector_size(64)));

template <class V>
inline V load(const void* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class V>
inline void store(void* p, const V& v) { __builtin_memcpy(p, &v, sizeof v); }

inline f32x16 splat(float x) { return f32x16{} + x; }

// ---- activations ------------------------------------------------------------------------------------------------------------

inline void quantise(const float* x, int64_t n, int8_t* codes, float* scale, int32_t* sum) noexcept {
  for (int64_t g = 0; g * 32 < n; ++g) {
    int count = n - g * 32 < 32 ? 16 : 32;
    const float* v = x + g * 32;
    float most = 0;
    for (int i = 0; i < count; ++i) {
      float a = v[i] < 0 ? -v[i] : v[i];
      most = a > most ? a : most;  // NaN never wins
    }
    bool usable = most > 0 && most <= 3.4e38f;
    float inverse = usable ? 127.0f / most : 0.0f;
    scale[g] = usable ? most / 127.0f : 0.0f;
    for (int half = 0; half < count / 16; ++half) {
      int32_t s = 0;
      for (int i = 0; i < 16; ++i) {
        float r = v[16 * half + i] * inverse;
        r = r < 127.0f ? r : 127.0f;
        r = r > -127.0f ? r : -127.0f;
        r = (r + 12582912.0f) - 12582912.0f;  // to the nearest integer, ties to even
        auto q = static_cast<int32_t>(r);
        codes[g * 32 + 16 * half + i] = static_cast<int8_t>(q);
        s += q;
      }
      sum[2 * g + half] = s;
    }
  }
}

// ---- weights as integer codes -------------------------------------------------------------------------------------------------

// 16 bytes of each of 16 rows, as four vectors of one dword a row: out[j] lane r = dword j of row r.
inline void transpose_rows(const std::byte* rows, int64_t stride, u32x16 (&out)[4]) {
  u32x16 v[4];
  for (int i = 0; i < 4; ++i)
    for (int lane = 0; lane < 4; ++lane) __builtin_memcpy(reinterpret_cast<std::byte*>(&v[i]) + 16 * lane, rows + (4 * lane + i) * stride, 16);
  // 4x4 transposes of dwords inside each 128-bit lane.
  auto low32 = [](u32x16 a, u32x16 b) { return __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29); };
  auto high32 = [](u32x16 a, u32x16 b) { return __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31); };
  auto low64 = [](u32x16 a, u32x16 b) { return __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29); };
  auto high64 = [](u32x16 a, u32x16 b) { return __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31); };
  u32x16 a = low32(v[0], v[1]), b = high32(v[0], v[1]), c = low32(v[2], v[3]), d = high32(v[2], v[3]);
  out[0] = low64(a, c);
  out[1] = high64(a, c);
  out[2] = low64(b, d);
  out[3] = high64(b, d);
}

constexpr uint32_t kNibbles = 0x0F0F0F0F;

inline u32x16 subtract_bytes(u32x16 a, int8_t n) { return (u32x16)((i8x64)a - n); }

// Where 16 rows of one half of a tile go: the codes of dword k4 and the scales of group g.
struct Half {
  int8_t* codes;
  float* scale;
  float* minimum;
  void put(int64_t k4, u32x16 v) const { store(codes + k4 * 4 * kTileRows, v); }
};

// f16 at `offset` of each of 16 rows, as f32.
inline f32x16 row_halves(const std::byte* rows, int64_t stride, int64_t offset) {
  uint16_t h[16];
  for (int r = 0; r < 16; ++r) __builtin_memcpy(&h[r], rows + r * stride + offset, 2);
  return Isa::widen_f16(h);
}

// Each unpacker takes one block of 16 rows; k4 and g are the block's first dword and group in the tile.
struct Q4_0 {
  static constexpr int kBytes = 18;
  static void block(const std::byte* b, int64_t stride, const Half& t) {
    u32x16 q[4];
    transpose_rows(b + 2, stride, q);
    for (int j = 0; j < 4; ++j) {
      t.put(j, subtract_bytes(q[j] & kNibbles, 8));
      t.put(4 + j, subtract_bytes(q[j] >> 4 & kNibbles, 8));
    }
    store(t.scale, row_halves(b, stride, 0));
  }
};

struct Q4_1 {
  static constexpr int kBytes = 20;
  static void block(const std::byte* b, int64_t stride, const Half& t) {
    u32x16 q[4];
    transpose_rows(b + 4, stride, q);
    for (int j = 0; j < 4; ++j) {
      t.put(j, q[j] & kNibbles);
      t.put(4 + j, q[j] >> 4 & kNibbles);
    }
    store(t.scale, row_halves(b, stride, 0));
    store(t.minimum, row_halves(b, stride, 2));
  }
};

// Bits 4j .. 4j+3 of each lane as 0x10 in byte 0..3.
inline u32x16 fifth_bits(u32x16 bits) {
  u32x16 b = bits & 15;
  return ((b | b << 7 | b << 14 | b << 21) & 0x01010101) << 4;
}

inline u32x16 row_dwords(const std::byte* rows, int64_t stride) {
  uint32_t d[16];
  for (int r = 0; r < 16; ++r) __builtin_memcpy(&d[r], rows + r * stride, 4);
  return load<u32x16>(d);
}

struct Q5_0 {
  static constexpr int kBytes = 22;
  static void block(const std::byte* b, int64_t stride, const Half& t) {
    u32x16 q[4], high = row_dwords(b + 2, stride);
    transpose_rows(b + 6, stride, q);
    for (int j = 0; j < 4; ++j) {
      t.put(j, subtract_bytes((q[j] & kNibbles) | fifth_bits(high >> (4 * j)), 16));
      t.put(4 + j, subtract_bytes((q[j] >> 4 & kNibbles) | fifth_bits(high >> (16 + 4 * j)), 16));
    }
    store(t.scale, row_halves(b, stride, 0));
  }
};

struct Q5_1 {
  static constexpr int kBytes = 24;
  static void block(const std::byte* b, int64_t stride, const Half& t) {
    u32x16 q[4], high = row_dwords(b + 4, stride);
    transpose_rows(b + 8, stride, q);
    for (int j = 0; j < 4; ++j) {
      t.put(j, (q[j] & kNibbles) | fifth_bits(high >> (4 * j)));
      t.put(4 + j, (q[j] >> 4 & kNibbles) | fifth_bits(high >> (16 + 4 * j)));
    }
    store(t.scale, row_halves(b, stride, 0));
    store(t.minimum, row_halves(b, stride, 2));
  }
};

struct Q8_0 {
  static constexpr int kBytes = 34;
  static void block(const std::byte* b, int64_t stride, const Half& t) {
    for (int part = 0; part < 2; ++part) {
      u32x16 q[4];
      transpose_rows(b + 2 + 16 * part, stride, q);
      for (int j = 0; j < 4; ++j) t.put(4 * part + j, q[j]);
    }
    store(t.scale, row_halves(b, stride, 0));
  }
};

// The six-bit scales and minima of Q4_K and Q5_K: 12 bytes a row, as bytes of three transposed dwords.
inline void k_scales(const std::byte* b, int64_t stride, const Half& t) {
  u32x16 s[4];
  transpose_rows(b, stride, s);  // d, dmin | scales 0-3 | 4-7 | 8-11
  constexpr uint32_t kSix = 0x3F3F3F3F;
  u32x16 scale_low = s[1] & kSix, min_low = s[2] & kSix;
  u32x16 scale_high = (s[3] & kNibbles) | (s[1] >> 6 & 0x03030303) << 4;
  u32x16 min_high = (s[3] >> 4 & kNibbles) | (s[2] >> 6 & 0x03030303) << 4;
  uint16_t h[32];
  u32x16 d = s[0];
  for (int r = 0; r < 16; ++r) {
    h[r] = static_cast<uint16_t>(d[r]);
    h[16 + r] = static_cast<uint16_t>(d[r] >> 16);
  }
  f32x16 scale = Isa::widen_f16(h), minimum = Isa::widen_f16(h + 16);
  for (int g = 0; g < 8; ++g) {
    u32x16 sc = (g < 4 ? scale_low : scale_high) >> (8 * (g % 4)) & 255, mn = (g < 4 ? min_low : min_high) >> (8 * (g % 4)) & 255;
    store(t.scale + g * kTileRows, scale * __builtin_convertvector((i32x16)sc, f32x16));
    store(t.minimum + g * kTileRows, -(minimum * __builtin_convertvector((i32x16)mn, f32x16)));
  }
}

struct Q4_K {
  static constexpr int kBytes = 144;
  static void block(const std::byte* b, int64_t stride, const Half& t) {
    k_scales(b, stride, t);
    for (int part = 0; part < 8; ++part) {  // 16 bytes: half of a pair of groups
      u32x16 q[4];
      transpose_rows(b + 16 + 16 * part, stride, q);
      int64_t low = 16 * (part / 2) + 4 * (part % 2);
      for (int j = 0; j < 4; ++j) {
        t.put(low + j, q[j] & kNibbles);
        t.put(low + 8 + j, q[j] >> 4 & kNibbles);
      }
    }
  }
};

struct Q5_K {
  static constexpr int kBytes = 176;
  static void block(const std::byte* b, int64_t stride, const Half& t) {
    k_scales(b, stride, t);
    u32x16 high[8];
    for (int part = 0; part < 2; ++part) {
      u32x16 h[4];
      transpose_rows(b + 16 + 16 * part, stride, h);
      for (int j = 0; j < 4; ++j) high[4 * part + j] = h[j];
    }
    for (int part = 0; part < 8; ++part) {
      u32x16 q[4];
      transpose_rows(b + 48 + 16 * part, stride, q);
      int pair = part / 2;
      int64_t low = 16 * pair + 4 * (part % 2);
      for (int j = 0; j < 4; ++j) {
        u32x16 h = high[4 * (part % 2) + j] >> (2 * pair);
        t.put(low + j, (q[j] & kNibbles) | (h & 0x01010101) << 4);
        t.put(low + 8 + j, (q[j] >> 4 & kNibbles) | (h >> 1 & 0x01010101) << 4);
      }
    }
  }
};

struct Q6_K {
  static constexpr int kBytes = 210;
  static void block(const std::byte* b, int64_t stride, const Half& t) {
    for (int half = 0; half < 2; ++half)
      for (int part = 0; part < 2; ++part) {
        u32x16 l0[4], l1[4], h[4];
        transpose_rows(b + 64 * half + 16 * part, stride, l0);
        transpose_rows(b + 64 * half + 32 + 16 * part, stride, l1);
        transpose_rows(b + 128 + 32 * half + 16 * part, stride, h);
        int64_t at = 32 * half + 4 * part;
        for (int j = 0; j < 4; ++j) {
          constexpr uint32_t kTwo = 0x03030303;
          t.put(at + j, subtract_bytes((l0[j] & kNibbles) | (h[j] & kTwo) << 4, 32));
          t.put(at + 8 + j, subtract_bytes((l1[j] & kNibbles) | (h[j] >> 2 & kTwo) << 4, 32));
          t.put(at + 16 + j, subtract_bytes((l0[j] >> 4 & kNibbles) | (h[j] >> 4 & kTwo) << 4, 32));
          t.put(at + 24 + j, subtract_bytes((l1[j] >> 4 & kNibbles) | (h[j] >> 6 & kTwo) << 4, 32));
        }
      }
    u32x16 s[4];
    transpose_rows(b + 192, stride, s);
    f32x16 d = row_halves(b, stride, 208);
    for (int g = 0; g < 16; ++g) {
      i32x16 scale = (i32x16)(s[g / 4] << (24 - 8 * (g % 4))) >> 24;
      store(t.scale + g * kTileRows, d * __builtin_convertvector(scale, f32x16));
    }
  }
};

template <class T, int kElements, int kGroup>
inline void unpack_half(const std::byte* rows, int64_t stride, int64_t blocks, Half t) {
  for (int64_t b = 0; b < blocks; ++b) {
    // The next cache lines of these rows, some blocks ahead.
    for (int r = 0; r < 16; ++r) __builtin_prefetch(rows + b * T::kBytes + r * stride + 512);
    T::block(rows + b * T::kBytes, stride, t);
    t.codes += kElements * kTileRows;
    t.scale += kElements / kGroup * kTileRows;
    t.minimum += kElements / kGroup * kTileRows;
  }
}

template <class T, int kElements, int kGroup>
inline void unpack_tile(const std::byte* rows, int64_t stride, int64_t blocks, const CodeTile& tile) {
  unpack_half<T, kElements, kGroup>(rows, stride, blocks, {tile.codes, tile.scale, tile.minimum});
  unpack_half<T, kElements, kGroup>(rows + 16 * stride, stride, blocks, {tile.codes + 64, tile.scale + 16, tile.minimum + 16});
}

inline bool unpack_codes(DType dtype, const std::byte* rows, int64_t stride, int row_count, int64_t blocks, const CodeTile& tile) noexcept {
  if (row_count < kTileRows) return false;
  switch (dtype) {
    case DType::q4_0: unpack_tile<Q4_0, 32, 32>(rows, stride, blocks, tile); return true;
    case DType::q4_1: unpack_tile<Q4_1, 32, 32>(rows, stride, blocks, tile); return true;
    case DType::q5_0: unpack_tile<Q5_0, 32, 32>(rows, stride, blocks, tile); return true;
    case DType::q5_1: unpack_tile<Q5_1, 32, 32>(rows, stride, blocks, tile); return true;
    case DType::q8_0: unpack_tile<Q8_0, 32, 32>(rows, stride, blocks, tile); return true;
    case DType::q4_k: unpack_tile<Q4_K, 256, 32>(rows, stride, blocks, tile); return true;
    case DType::q5_k: unpack_tile<Q5_K, 256, 32>(rows, stride, blocks, tile); return true;
    case DType::q6_k: unpack_tile<Q6_K, 256, 16>(rows, stride, blocks, tile); return true;
    default: return false;
  }
}

// kRows rows of activations against the tile: exact int32 sums per group, then one fma for the scale and one for the minimum.
template <int kRows, int kGroup, bool kMinimum>
inline void dot_codes_rows(const CodeTile& tile, int64_t groups, const CodeRows& x, int64_t k_begin, int64_t m0, float* y, int64_t ldy,
                           int row_count) {
  alignas(64) float acc_memory[kRows][kTileRows] = {};
  for (int r = 0; r < kRows; ++r) __builtin_memcpy(acc_memory[r], y + (m0 + r) * ldy, static_cast<size_t>(row_count) * 4);
  f32x16 acc[kRows][2];
  for (int r = 0; r < kRows; ++r)
    for (int h = 0; h < 2; ++h) acc[r][h] = load<f32x16>(acc_memory[r] + 16 * h);
  const int8_t* w = tile.codes;
  for (int64_t g = 0; g < groups; ++g) {
    int64_t k = k_begin + g * kGroup;
    int32_t sum[kRows];
    i32x16 dot[kRows][2];
    for (int r = 0; r < kRows; ++r) {
      const int32_t* s = x.sum + (m0 + r) * (x.in / 16) + k / 16;
      sum[r] = kGroup == 32 ? s[0] + s[1] : s[0];
      for (int h = 0; h < 2; ++h) dot[r][h] = Isa::dot_begin(sum[r]);
    }
    for (int k4 = 0; k4 < kGroup / 4; ++k4, w += 4 * kTileRows) {
      auto w0 = Isa::weights(w), w1 = Isa::weights(w + 64);
      for (int r = 0; r < kRows; ++r) {
        int32_t a;
        __builtin_memcpy(&a, x.codes + (m0 + r) * x.in + k + 4 * k4, 4);
        dot[r][0] = Isa::dot4(dot[r][0], w0, a);
        dot[r][1] = Isa::dot4(dot[r][1], w1, a);
      }
    }
    for (int h = 0; h < 2; ++h) {
      f32x16 scale = load<f32x16>(tile.scale + g * kTileRows + 16 * h);
      f32x16 minimum = kMinimum ? load<f32x16>(tile.minimum + g * kTileRows + 16 * h) : f32x16{};
      for (int r = 0; r < kRows; ++r) {
        float sa = x.scale[(m0 + r) * ((x.in + 31) / 32) + k / 32];
        acc[r][h] = Isa::fma(scale * splat(sa), __builtin_convertvector(dot[r][h], f32x16), acc[r][h]);
        if (kMinimum) acc[r][h] = Isa::fma(minimum, splat(sa * static_cast<float>(sum[r])), acc[r][h]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int h = 0; h < 2; ++h) store(acc_memory[r] + 16 * h, acc[r][h]);
    __builtin_memcpy(y + (m0 + r) * ldy, acc_memory[r], static_cast<size_t>(row_count) * 4);
  }
}

template <int kGroup, bool kMinimum>
inline void dot_codes_all(const CodeTile& tile, int64_t groups, const CodeRows& x, int64_t k_begin, int64_t m, float* y, int64_t ldy, int row_count) {
  int64_t i = 0;
  for (; i + Isa::kCodeRows <= m; i += Isa::kCodeRows)
    dot_codes_rows<Isa::kCodeRows, kGroup, kMinimum>(tile, groups, x, k_begin, i, y, ldy, row_count);
  for (; i < m; ++i) dot_codes_rows<1, kGroup, kMinimum>(tile, groups, x, k_begin, i, y, ldy, row_count);
}

inline void dot_codes(const CodeTile& tile, int group, bool has_minimum, int64_t groups, const CodeRows& x, int64_t k_begin, int64_t m,
                      float* y, int64_t ldy, int row_count) noexcept {
  if (group == 32) {
    has_minimum ? dot_codes_all<32, true>(tile, groups, x, k_begin, m, y, ldy, row_count)
                : dot_codes_all<32, false>(tile, groups, x, k_begin, m, y, ldy, row_count);
  } else {
    has_minimum ? dot_codes_all<16, true>(tile, groups, x, k_begin, m, y, ldy, row_count)
                : dot_codes_all<16, false>(tile, groups, x, k_begin, m, y, ldy, row_count);
  }
}

// ---- weights as floats ----------------------------------------------------------------------------------------------------------

inline void unpack_floats_half(DType dtype, const std::byte* rows, int64_t stride, int64_t k, float* tile) {
  u32x16 v[4];
  if (dtype == DType::f32) {
    for (int64_t i = 0; i < k; i += 4) {
      for (int r = 0; r < 16; ++r) __builtin_prefetch(rows + r * stride + 4 * i + 512);
      transpose_rows(rows + 4 * i, stride, v);
      for (int j = 0; j < 4; ++j) store(tile + (i + j) * kTileRows, v[j]);
    }
    return;
  }
  for (int64_t i = 0; i < k; i += 8) {
    for (int r = 0; r < 16; ++r) __builtin_prefetch(rows + r * stride + 2 * i + 512);
    transpose_rows(rows + 2 * i, stride, v);
    for (int j = 0; j < 4; ++j) {
      float* at = tile + (i + 2 * j) * kTileRows;
      if (dtype == DType::bf16) {
        store(at, v[j] << 16);
        store(at + kTileRows, v[j] & 0xFFFF0000u);
      } else {
        store(at, Isa::widen_low_f16(v[j]));
        store(at + kTileRows, Isa::widen_low_f16(v[j] >> 16));
      }
    }
  }
}

inline bool unpack_floats(DType dtype, const std::byte* rows, int64_t stride, int row_count, int64_t k, float* tile) noexcept {
  bool vector = (dtype == DType::f32 && k % 4 == 0) || ((dtype == DType::bf16 || dtype == DType::f16) && k % 8 == 0);
  if (!vector || row_count < kTileRows) return false;
  unpack_floats_half(dtype, rows, stride, k, tile);
  unpack_floats_half(dtype, rows + 16 * stride, stride, k, tile + 16);
  return true;
}

inline void widen(DType dtype, const std::byte* from, float* to, int64_t n) noexcept {
  for (int64_t i = 0; i < n; i += 16) {  // panels are whole vectors
    uint16_t h[16];
    __builtin_memcpy(h, from + 2 * i, 32);
    if (dtype == DType::bf16) {
      u32x16 v;
      for (int j = 0; j < 16; ++j) v[j] = static_cast<uint32_t>(h[j]) << 16;
      store(to + i, v);
    } else {
      store(to + i, Isa::widen_f16(h));
    }
  }
}

template <int kRows>
inline void dot_floats_rows(const float* tile, int64_t tile_stride, int64_t k, const float* x, int64_t ldx, float* y, int64_t ldy, int row_count) {
  alignas(64) float acc_memory[kRows][kTileRows] = {};
  for (int r = 0; r < kRows; ++r) __builtin_memcpy(acc_memory[r], y + r * ldy, static_cast<size_t>(row_count) * 4);
  f32x16 acc[kRows][2];
  for (int r = 0; r < kRows; ++r)
    for (int h = 0; h < 2; ++h) acc[r][h] = load<f32x16>(acc_memory[r] + 16 * h);
  for (int64_t i = 0; i < k; ++i) {
    f32x16 w0 = load<f32x16>(tile + i * tile_stride), w1 = load<f32x16>(tile + i * tile_stride + 16);
    for (int r = 0; r < kRows; ++r) {
      f32x16 a = splat(x[r * ldx + i]);
      acc[r][0] = Isa::fma(a, w0, acc[r][0]);
      acc[r][1] = Isa::fma(a, w1, acc[r][1]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int h = 0; h < 2; ++h) store(acc_memory[r] + 16 * h, acc[r][h]);
    __builtin_memcpy(y + r * ldy, acc_memory[r], static_cast<size_t>(row_count) * 4);
  }
}

inline void dot_floats(const float* tile, int64_t tile_stride, int64_t k, const float* x, int64_t ldx, int64_t m, float* y, int64_t ldy,
                       int row_count) noexcept {
  int64_t i = 0;
  for (; i + Isa::kFloatRows <= m; i += Isa::kFloatRows)
    dot_floats_rows<Isa::kFloatRows>(tile, tile_stride, k, x + i * ldx, ldx, y + i * ldy, ldy, row_count);
  for (; i < m; ++i) dot_floats_rows<1>(tile, tile_stride, k, x + i * ldx, ldx, y + i * ldy, ldy, row_count);
}
