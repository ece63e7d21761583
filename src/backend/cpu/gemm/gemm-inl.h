// The inner loops, written once on vectors of 16 dwords (Words) and 16 floats (Floats). The including file defines
// these types and their operations for one ISA level, inside its target region and an unnamed namespace, after
// unrolled-inl.h, and
//   kCodeRows, kFloatRows   rows of activations that the registers hold at a time, kHalves: 16-row halves of a tile
//   likewise; kPanelRows    rows that a panel is multiplied by at a time
//   kWideSigned             8-bit codes stay signed: the level's unsigned products would overflow

// ---- activations ----------------------------------------------------------------------------------------------------

inline void quantise(const float* x, int64_t n, int group, int offset, const CodeRows& row) noexcept {
  for (int64_t i = 0; i < n; i += 32) {
    Floats v[2] = {load_floats(x + i), load_floats(x + i + 16)};
    // As integers: infinities and NaNs are above every number.
    const uint32_t most_bits = largest_magnitude(v[0], v[1]);
    const bool finite = most_bits < 0x7F800000u;
    float most;
    std::memcpy(&most, &most_bits, 4);
    float inverse = 127.0f / most;
    const bool usable = finite && inverse < __builtin_huge_valf();  // else nothing but zeros, or as good as that
    float scale = usable ? most / 127.0f : finite ? 0.0f : __builtin_nanf("");
    const Floats factor = splat(usable ? inverse : 0.0f);
    int32_t sum[2];
    for (int h = 0; h < 2; ++h) {
      Words codes = to_codes(v[h] * factor);
      store_codes(row.codes + i + 16 * h, codes);
      sum[h] = total(codes);
    }
    if (group == 32) sum[0] += sum[1];
    for (int h = 0; h < 32 / group; ++h) {
      int64_t g = i / group + h;
      row.scale[g] = scale;
      row.sum[g] = scale * static_cast<float>(sum[h]);
      row.start[g] = -offset * sum[h];
    }
  }
}

// ---- blocks of integer codes ----------------------------------------------------------------------------------------
// Each type takes one block of 16 rows apart: sink.put(k4, codes of elements 4 k4 .. 4 k4 + 3) with the offset added,
// in ascending order inside a group; then sink.group(g, scale[, minimum]), g ascending. It reads each part of the block
// once, always in the same order, through a source: from(offset, q) is 16 bytes of each row as four vectors,
// word(offset) 4 bytes, half(offset) 2 bytes zero-extended, f16(offset) an f16 (`last`: the block ends with it).

constexpr uint32_t kNibbles = 0x0F0F0F0F;

constexpr int kWideOffset = kWideSigned ? 0 : 128;  // of types that use all 8 bits
TENON_INLINE Words wide(Words codes) { return kWideSigned ? codes : codes ^ splat(0x80808080u); }

TENON_INLINE Floats byte_floats(Words w, int byte, uint32_t mask) {
  return to_floats(w >> (8u * static_cast<unsigned>(byte)) & splat(mask));
}
TENON_INLINE Floats f16_high(Words w) { return f16_low(w >> 16); }

// panel: bytes a row takes in a packed panel, what its source calls read.
template <int bytes, int panel, int elements, int group_size, bool minimum, int code_offset, bool is_wide = false>
struct Block {
  static constexpr int kBytes = bytes, kPanel = 16 * panel, kElements = elements, kGroup = group_size;
  static constexpr int kOffset = code_offset;
  static constexpr bool kMinimum = minimum, kWide = is_wide && kWideSigned;
};

struct Q4_0 : Block<18, 18, 32, 32, false, 8> {
  template <class From, class S>
  TENON_INLINE static void split(From& from, S& sink) {
    Words q[4];
    from.four(2, q);
    unrolled<4>([&](int j) TENON_LAMBDA { sink.put(j, q[j] & splat(kNibbles)); });
    unrolled<4>([&](int j) TENON_LAMBDA { sink.put(4 + j, q[j] >> 4 & splat(kNibbles)); });
    sink.group(0, from.f16(0));
  }
};

struct Q4_1 : Block<20, 20, 32, 32, true, 0> {
  template <class From, class S>
  TENON_INLINE static void split(From& from, S& sink) {
    Words q[4], head = from.word(0);
    from.four(4, q);
    unrolled<4>([&](int j) TENON_LAMBDA { sink.put(j, q[j] & splat(kNibbles)); });
    unrolled<4>([&](int j) TENON_LAMBDA { sink.put(4 + j, q[j] >> 4 & splat(kNibbles)); });
    sink.group(0, f16_low(head), f16_high(head));
  }
};

struct Q5_0 : Block<22, 22, 32, 32, false, 16> {
  template <class From, class S>
  TENON_INLINE static void split(From& from, S& sink) {
    Words q[4], high = from.word(2);
    from.four(6, q);
    unrolled<4>([&](int j) TENON_LAMBDA { sink.put(j, (q[j] & splat(kNibbles)) | fifth_bits(high, j)); });
    unrolled<4>([&](int j) TENON_LAMBDA { sink.put(4 + j, (q[j] >> 4 & splat(kNibbles)) | fifth_bits(high, 4 + j)); });
    sink.group(0, from.f16(0));
  }
};

struct Q5_1 : Block<24, 24, 32, 32, true, 0> {
  template <class From, class S>
  TENON_INLINE static void split(From& from, S& sink) {
    Words q[4], head = from.word(0), high = from.word(4);
    from.four(8, q);
    unrolled<4>([&](int j) TENON_LAMBDA { sink.put(j, (q[j] & splat(kNibbles)) | fifth_bits(high, j)); });
    unrolled<4>([&](int j) TENON_LAMBDA { sink.put(4 + j, (q[j] >> 4 & splat(kNibbles)) | fifth_bits(high, 4 + j)); });
    sink.group(0, f16_low(head), f16_high(head));
  }
};

struct Q8_0 : Block<34, 34, 32, 32, false, kWideOffset, true> {
  template <class From, class S>
  TENON_INLINE static void split(From& from, S& sink) {
    unrolled<2>([&](int part) TENON_LAMBDA {
      Words q[4];
      from.four(2 + 16 * part, q);
      unrolled<4>([&](int j) TENON_LAMBDA { sink.put(4 * part + j, wide(q[j])); });
    });
    sink.group(0, from.f16(0));
  }
};

// The first 16 bytes of Q4_K and Q5_K: d, dmin, then eight 6-bit scales and minima.
struct KScales {
  Floats d, dmin;
  Words low, high, min_low, min_high;  // four bytes each: groups 0-3 and 4-7
  template <class From>
  TENON_INLINE explicit KScales(From& from) {
    Words s[4];
    from.four(0, s);
    d = f16_low(s[0]);
    dmin = negate(f16_high(s[0]));
    low = s[1] & splat(0x3F3F3F3Fu);
    min_low = s[2] & splat(0x3F3F3F3Fu);
    high = (s[3] & splat(kNibbles)) | (s[1] >> 2 & splat(0x30303030u));
    min_high = (s[3] >> 4 & splat(kNibbles)) | (s[2] >> 2 & splat(0x30303030u));
  }
  template <class S>
  TENON_INLINE void group(S& sink, int g) const {
    sink.group(g, d * byte_floats(g < 4 ? low : high, g % 4, 255),
               dmin * byte_floats(g < 4 ? min_low : min_high, g % 4, 255));
  }
};

struct Q4_K : Block<144, 144, 256, 32, true, 0> {
  template <class From, class S>
  TENON_INLINE static void split(From& from, S& sink) {
    KScales scales(from);
    unrolled<4>([&](int pair) TENON_LAMBDA {
      unrolled<2>([&](int part) TENON_LAMBDA {
        Words q[4];
        from.four(16 + 32 * pair + 16 * part, q);
        unrolled<4>([&](int j) TENON_LAMBDA {
          sink.put(16 * pair + 4 * part + j, q[j] & splat(kNibbles));
          sink.put(16 * pair + 8 + 4 * part + j, q[j] >> 4 & splat(kNibbles));
        });
      });
      scales.group(sink, 2 * pair);
      scales.group(sink, 2 * pair + 1);
    });
  }
};

// Bit n of every byte, moved to bit 4.
TENON_INLINE Words bit_to_4(Words w, int n) {
  return (n < 4 ? w << static_cast<unsigned>(4 - n) : w >> static_cast<unsigned>(n - 4)) & splat(0x10101010u);
}

struct Q5_K : Block<176, 176, 256, 32, true, 0> {
  template <class From, class S>
  TENON_INLINE static void split(From& from, S& sink) {
    KScales scales(from);
    Words high[2][4];
    from.four(16, high[0]);
    from.four(32, high[1]);
    unrolled<4>([&](int pair) TENON_LAMBDA {
      unrolled<2>([&](int part) TENON_LAMBDA {
        Words q[4];
        from.four(48 + 32 * pair + 16 * part, q);
        unrolled<4>([&](int j) TENON_LAMBDA {
          sink.put(16 * pair + 4 * part + j, (q[j] & splat(kNibbles)) | bit_to_4(high[part][j], 2 * pair));
          sink.put(16 * pair + 8 + 4 * part + j, (q[j] >> 4 & splat(kNibbles)) | bit_to_4(high[part][j], 2 * pair + 1));
        });
      });
      scales.group(sink, 2 * pair);
      scales.group(sink, 2 * pair + 1);
    });
  }
};

struct Q6_K : Block<210, 210, 256, 16, false, 32> {
  template <class From, class S>
  TENON_INLINE static void split(From& from, S& sink) {
    Words s[4];
    from.four(192, s);
    Floats d = from.f16(208, true);
    unrolled<2>([&](int half) TENON_LAMBDA {
      unrolled<2>([&](int part) TENON_LAMBDA {
        Words l0[4], l1[4], h[4];
        from.four(64 * half + 16 * part, l0);
        from.four(64 * half + 32 + 16 * part, l1);
        from.four(128 + 32 * half + 16 * part, h);
        Words two = splat(0x30303030u);
        unrolled<4>([&](int j) TENON_LAMBDA {
          int at = 32 * half + 4 * part + j;
          sink.put(at, (l0[j] & splat(kNibbles)) | (h[j] << 4 & two));
          sink.put(at + 8, (l1[j] & splat(kNibbles)) | (h[j] << 2 & two));
          sink.put(at + 16, (l0[j] >> 4 & splat(kNibbles)) | (h[j] & two));
          sink.put(at + 24, (l1[j] >> 4 & splat(kNibbles)) | (h[j] >> 2 & two));
        });
      });
      unrolled<8>([&](int i) TENON_LAMBDA {
        int g = 8 * half + i;
        sink.group(g, d * to_floats(signed_shift(s[g / 4] << static_cast<unsigned>(24 - 8 * (g % 4)), 24)));
      });
    });
  }
};

struct Q2_K : Block<84, 84, 256, 16, true, 0> {
  template <class From, class S>
  TENON_INLINE static void split(From& from, S& sink) {
    Words s[4], head = from.word(80);
    from.four(0, s);
    Floats d = f16_low(head), dmin = negate(f16_high(head));
    unrolled<2>([&](int half) TENON_LAMBDA {
      unrolled<2>([&](int part) TENON_LAMBDA {
        Words q[4];
        from.four(16 + 32 * half + 16 * part, q);
        unrolled<4>([&](int bits) TENON_LAMBDA {
          unrolled<4>([&](int j) TENON_LAMBDA {
            sink.put(32 * half + 8 * bits + 4 * part + j, q[j] >> static_cast<unsigned>(2 * bits) & splat(0x03030303u));
          });
        });
      });
      unrolled<8>([&](int i) TENON_LAMBDA {
        int g = 8 * half + i;
        sink.group(g, d * byte_floats(s[g / 4], g % 4, 15), dmin * byte_floats(s[g / 4] >> 4, g % 4, 15));
      });
    });
  }
};

struct Q3_K : Block<110, 112, 256, 16, false, 4> {
  template <class From, class S>
  TENON_INLINE static void split(From& from, S& sink) {
    // The 16 bytes from 94 end with the block: two bytes of codes, twelve of scales, d.
    Words s[4], mask[2][4];
    from.four(94, s);
    Floats d = f16_high(s[3]);
    from.four(0, mask[0]);
    from.four(16, mask[1]);
    auto scale_byte = [&](int i) TENON_LAMBDA { return s[(i + 2) / 4] >> static_cast<unsigned>(8 * ((i + 2) % 4)); };
    unrolled<2>([&](int half) TENON_LAMBDA {
      unrolled<2>([&](int part) TENON_LAMBDA {
        Words q[4];
        from.four(32 + 32 * half + 16 * part, q);
        unrolled<4>([&](int bits) TENON_LAMBDA {
          unrolled<4>([&](int j) TENON_LAMBDA {
            int n = 4 * half + bits;  // of the mask: moved to bit 2
            Words m = mask[part][j];
            Words high = n < 2 ? m << static_cast<unsigned>(2 - n) : m >> static_cast<unsigned>(n - 2);
            sink.put(32 * half + 8 * bits + 4 * part + j,
                     (q[j] >> static_cast<unsigned>(2 * bits) & splat(0x03030303u)) | (high & splat(0x04040404u)));
          });
        });
      });
      unrolled<8>([&](int i) TENON_LAMBDA {
        int g = 8 * half + i;
        Words low = scale_byte(g % 8) >> (g < 8 ? 0u : 4u) & splat(15u);
        Words high = scale_byte(8 + g % 4) >> static_cast<unsigned>(2 * (g / 4)) & splat(3u);
        sink.group(g, d * to_floats((low | high << 4) - splat(32u)));
      });
    });
  }
};

// Sixteen code values as bytes, ready for lookup(): all 8 bits used.
struct Codebook {
  alignas(16) uint8_t value[16];
};
constexpr Codebook with_offset(const int8_t (&values)[16], int offset) {
  Codebook c{};
  for (int i = 0; i < 16; ++i) c.value[i] = static_cast<uint8_t>(values[i] + offset);
  return c;
}
constexpr Codebook kIq4Codebook = with_offset(quant::kIq4Values, kWideOffset);
constexpr Codebook kE2M1Codebook = with_offset(quant::kE2M1Doubled, 12);

template <class From, class S>
TENON_INLINE void put_codebook(From& from, int offset, const Codebook& book, int k4, S& sink) {
  Words v[4];
  from.four(offset, v);
  unrolled<4>([&](int j) TENON_LAMBDA { sink.put(k4 + j, lookup(repeat16(book.value), v[j] & splat(kNibbles))); });
  unrolled<4>([&](int j)
                  TENON_LAMBDA { sink.put(k4 + 4 + j, lookup(repeat16(book.value), v[j] >> 4 & splat(kNibbles))); });
}

struct Iq4Nl : Block<18, 18, 32, 32, false, kWideOffset, true> {
  template <class From, class S>
  TENON_INLINE static void split(From& from, S& sink) {
    put_codebook(from, 2, kIq4Codebook, 0, sink);
    sink.group(0, from.f16(0));
  }
};

struct Iq4Xs : Block<136, 136, 256, 32, false, kWideOffset, true> {
  template <class From, class S>
  TENON_INLINE static void split(From& from, S& sink) {
    Words head = from.word(0), low = from.word(4);
    Floats d = f16_low(head);
    unrolled<8>([&](int g) TENON_LAMBDA {
      put_codebook(from, 8 + 16 * g, kIq4Codebook, 8 * g, sink);
      Words scale = (low >> static_cast<unsigned>(4 * g) & splat(15u)) |
                    (head >> static_cast<unsigned>(16 + 2 * g) & splat(3u)) << 4;
      sink.group(g, d * to_floats(scale - splat(32u)));
    });
  }
};

struct Mxfp4 : Block<17, 18, 32, 32, false, 12> {
  template <class From, class S>
  TENON_INLINE static void split(From& from, S& sink) {
    put_codebook(from, 1, kE2M1Codebook, 0, sink);
    // 2^(e - 128): e - 1 is the exponent field, but for e = 0 and 1 the value is below the normal range.
    alignas(16) static constexpr uint8_t kBelow[16] = {0x20, 0x40};
    Words e = from.half(0) & splat(255u), one = splat(1u);
    Words normal = (max(e, one) - one) << 23, below = lookup(repeat16(kBelow), min(e, splat(2u))) & splat(255u);
    sink.group(0, as_floats(normal | below << 16));
  }
};

// tensor/quant/groups.h. With 8 bits the codes are less 128, and the minimum makes up for it.
struct GroupHead {
  Floats scale, minimum;
  TENON_INLINE GroupHead(Words word, bool affine, float offset) {
    scale = as_floats(affine ? word << 16 : word & splat(~quant::kZeroBits));
    minimum = affine ? as_floats(word & splat(0xFFFF0000u)) + scale * splat(offset)
                     : negate(scale * (to_floats(word & splat(quant::kZeroBits)) + splat(-offset)));
  }
};

template <bool kAffine, int kCount>
struct Grouped4 : Block<4 + kCount / 2, 4 + kCount / 2, kCount, 32, true, 0> {
  template <class From, class S>
  TENON_INLINE static void split(From& from, S& sink) {
    const GroupHead head(from.word(0), kAffine, 0);
    unrolled<kCount / 32>([&](int g) TENON_LAMBDA {
      Words q[4];
      from.four(4 + 16 * g, q);
      unrolled<4>([&](int j) TENON_LAMBDA { sink.put(8 * g + j, q[j] & splat(kNibbles)); });
      unrolled<4>([&](int j) TENON_LAMBDA { sink.put(8 * g + 4 + j, q[j] >> 4 & splat(kNibbles)); });
      sink.group(g, head.scale, head.minimum);
    });
  }
};

template <bool kAffine>
struct Grouped8 : Block<36, 36, 32, 32, true, kWideOffset, true> {
  template <class From, class S>
  TENON_INLINE static void split(From& from, S& sink) {
    const GroupHead head(from.word(0), kAffine, 128);
    unrolled<2>([&](int part) TENON_LAMBDA {
      Words q[4];
      from.four(4 + 16 * part, q);
      unrolled<4>([&](int j) TENON_LAMBDA { sink.put(4 * part + j, wide(q[j])); });
    });
    sink.group(0, head.scale, head.minimum);
  }
};

// ---- where split blocks go ------------------------------------------------------------------------------------------

struct TileSink {
  uint8_t* codes;
  float *scale, *minimum;
  TENON_INLINE void put(int k4, Words w) { store(codes + k4 * 4 * kTileRows, w); }
  TENON_INLINE void group(int g, Floats s) { store(scale + g * kTileRows, s); }
  TENON_INLINE void group(int g, Floats s, Floats m) {
    store(scale + g * kTileRows, s);
    store(minimum + g * kTileRows, m);
  }
};

// Lines of the next rows, as many as one step over 16 rows takes: in memory order, whatever the order of use.
// All that is asked for ahead goes to the second-level cache: misses of the first are few at a time (24 on Zen 4, which
// is 15 GB/s), and from there on it is near enough.
TENON_INLINE void prefetch(const std::byte* next, int64_t from, int64_t bytes) {
#pragma GCC unroll 64
  for (int64_t i = from; i < from + bytes; i += 64) __builtin_prefetch(next + i, 0, 2);
}

// The lines that begin in the next `bytes` bytes of each of 16 rows, as far as one row tells.
TENON_INLINE void prefetch_rows(const std::byte* at, int64_t stride, int64_t bytes) {
  if (bytes < 64 && reinterpret_cast<uintptr_t>(at) % 64 >= static_cast<uintptr_t>(bytes)) return;
  for (int64_t i = 0; i < bytes; i += 64)
    for (int r = 0; r < 16; ++r) __builtin_prefetch(at + r * stride + i);
}

// ---- where blocks come from -----------------------------------------------------------------------------------------

struct Rows {  // a block of 16 rows in the file
  const std::byte* b;
  int64_t stride;
  TENON_INLINE void four(int offset, Words (&q)[4]) const { transpose_rows(b + offset, stride, q); }
  TENON_INLINE Words word(int offset) const { return row_words(b + offset, stride); }
  TENON_INLINE Words half(int offset) const { return word(offset) & splat(0xFFFFu); }
  TENON_INLINE Floats f16(int offset, bool last = false) const {
    return last ? f16_high(word(offset - 2)) : f16_low(word(offset));
  }
};

// How far ahead of their use lines of a panel are asked for.
constexpr int64_t kAhead = 4096;

// What the calls of T::split() on Rows gave, in their order: 64 bytes a vector, 32 a half. kPrefetch: lines are asked
// for one by one as it goes.
template <bool kPrefetch>
struct Panel {
  const std::byte* at;
  TENON_INLINE void four(int, Words (&q)[4]) {
    unrolled<4>([&](int j) TENON_LAMBDA {
      if (kPrefetch) __builtin_prefetch(at + kAhead + 64 * j, 0, 2);
      q[j] = load_words(at + 64 * j);
    });
    at += 256;
  }
  TENON_INLINE Words word(int) {
    if (kPrefetch) __builtin_prefetch(at + kAhead, 0, 2);
    return load_words((at += 64) - 64);
  }
  TENON_INLINE Words half(int) { return halves_at((at += 32) - 32); }
  TENON_INLINE Floats f16(int, bool = false) { return f16_at((at += 32) - 32); }
};

// A large block's lines asked for at once would stand in the way of its loads.
template <class T>
constexpr bool kSmooth = T::kPanel > 2048;
template <class T>
using StreamedPanel = Panel<kSmooth<T>>;

// Reads rows and writes the panel.
struct Packing {
  Rows rows;
  std::byte* to;
  void put(const Words& w) { store(to, w), to += 64; }
  void four(int offset, Words (&q)[4]) {
    rows.four(offset, q);
    for (const Words& w : q) put(w);
  }
  Words word(int offset) {
    Words w = rows.word(offset);
    put(w);
    return w;
  }
  void put_halves(int offset) {
    for (int r = 0; r < 16; ++r) std::memcpy(to + 2 * r, rows.b + r * rows.stride + offset, 2);
    to += 32;
  }
  Words half(int offset) {
    put_halves(offset);
    return rows.half(offset);
  }
  Floats f16(int offset, bool last = false) {
    put_halves(offset);
    return rows.f16(offset, last);
  }
};

struct NoSink {
  void put(int, const Words&) {}
  void group(int, const Floats&) {}
  void group(int, const Floats&, const Floats&) {}
};

// A panel holds a block of 16 rows, that of the other 16, the next block of the first, and so on: one stream of memory.
template <class T>
inline void pack_rows(const std::byte* rows, int64_t stride, int64_t blocks, std::byte* panel) noexcept {
  Packing p{{rows, stride}, panel};
  NoSink sink;
  for (int64_t i = 0; i < blocks; ++i)
    for (int half = 0; half < 2; ++half) {
      p.rows.b = rows + 16 * half * stride + i * T::kBytes;
      T::split(p, sink);
    }
}

template <class T>
inline void unpack(const std::byte* rows, int64_t stride, int64_t blocks, const CodeTile& tile) noexcept {
  constexpr int kGroups = T::kElements / T::kGroup;
  for (int half = 0; half < 2; ++half) {
    const std::byte *b = rows + 16 * half * stride, *next = b + 16 * stride;
    const bool whole_rows = blocks * T::kBytes == stride;
    TileSink sink{tile.codes + 64 * half, tile.scale + 16 * half, tile.minimum + 16 * half};
    for (int64_t i = 0; i < blocks; ++i) {
      if (whole_rows)
        prefetch(next, i * 16 * T::kBytes, 16 * T::kBytes);
      else
        prefetch_rows(b + 512, stride, T::kBytes);
      Rows from{b, stride};
      T::split(from, sink);
      b += T::kBytes;
      sink.codes += T::kElements * kTileRows;
      sink.scale += kGroups * kTileRows;
      sink.minimum += kGroups * kTileRows;
    }
  }
}

template <class T>
inline void unpack_panel(const std::byte* panel, int64_t blocks, const CodeTile& tile) noexcept {
  constexpr int kGroups = T::kElements / T::kGroup;
  StreamedPanel<T> from{panel};
  for (int64_t i = 0; i < blocks; ++i)
    for (int half = 0; half < 2; ++half) {
      const int64_t group = i * kGroups * kTileRows + 16 * half;
      TileSink sink{tile.codes + i * T::kElements * kTileRows + 64 * half, tile.scale + group, tile.minimum + group};
      if (!kSmooth<T>) prefetch(from.at + kAhead, 0, T::kPanel);
      T::split(from, sink);
    }
}

template <bool kMinimum>
TENON_INLINE Floats add_group(Floats acc, Words dot, Floats scale, Floats minimum, float x_scale, float x_sum) {
  acc = fma(scale * splat(x_scale), to_floats(dot), acc);
  return kMinimum ? fma(minimum, splat(x_sum), acc) : acc;
}

// Multiplies by kRows rows of activations at once.
template <class T, int kRows>
struct DotSink {
  CodeRows x;  // from this block on
  Floats acc[kRows];
  Words dot[kRows][T::kElements / T::kGroup];

  TENON_INLINE void put(int k4, Words w) {
    constexpr int kPerGroup = T::kGroup / 4;
    const int g = k4 / kPerGroup;
    Weights<T::kWide> weights = prepare<T::kWide>(w);
    unrolled<kRows>([&](int r) TENON_LAMBDA {
      Words& d = dot[r][g];
      if (k4 % kPerGroup == 0) d = splat(static_cast<uint32_t>(x.start[r * x.groups + g]));
      d = dot4<T::kWide>(d, weights, x.codes + r * x.in + 4 * k4);
    });
  }
  TENON_INLINE void group(int g, Floats s) {
    unrolled<kRows>(
        [&](int r) TENON_LAMBDA { acc[r] = add_group<false>(acc[r], dot[r][g], s, s, x.scale[r * x.groups + g], 0); });
  }
  TENON_INLINE void group(int g, Floats s, Floats m) {
    unrolled<kRows>([&](int r) TENON_LAMBDA {
      int64_t i = r * x.groups + g;
      acc[r] = add_group<true>(acc[r], dot[r][g], s, m, x.scale[i], x.sum[i]);
    });
  }
  TENON_INLINE void next_block() {
    constexpr int kGroups = T::kElements / T::kGroup;
    x.codes += T::kElements;
    x.scale += kGroups;
    x.sum += kGroups;
    x.start += kGroups;
  }
};

template <class T>
inline void dot_row(const std::byte* rows, int64_t stride, int64_t blocks, const CodeRows& x, float* y) noexcept {
  for (int half = 0; half < 2; ++half) {
    const std::byte *b = rows + 16 * half * stride, *next = b + 16 * stride;
    DotSink<T, 1> sink;
    sink.x = x;
    sink.acc[0] = splat(0.0f);
    for (int64_t i = 0; i < blocks; ++i, sink.next_block()) {
      prefetch(next, i * 16 * T::kBytes, 16 * T::kBytes);
      Rows from{b + i * T::kBytes, stride};
      T::split(from, sink);
    }
    store(y + 16 * half, sink.acc[0]);
  }
}

// Both halves together.
template <class T, int kRows>
inline void dot_panel_halves(const std::byte* panel, int64_t blocks, const CodeRows& x, float* y) noexcept {
  StreamedPanel<T> from{panel};
  DotSink<T, kRows> sink[2];
  unrolled<2>([&](int h) TENON_LAMBDA {
    sink[h].x = x;
    unrolled<kRows>([&](int r) TENON_LAMBDA { sink[h].acc[r] = splat(0.0f); });
  });
  for (int64_t i = 0; i < blocks; ++i)
    unrolled<2>([&](int h) TENON_LAMBDA {
      if (!kSmooth<T>) prefetch(from.at + kAhead, 0, T::kPanel);
      T::split(from, sink[h]);
      sink[h].next_block();
    });
  unrolled<2>([&](int h) TENON_LAMBDA {
    unrolled<kRows>([&](int r) TENON_LAMBDA { store(y + r * kTileRows + 16 * h, sink[h].acc[r]); });
  });
}

// A stretch of one half, then the same stretch of the other: the registers hold the sums of one only.
template <class T, int kRows>
inline void dot_panel_in_turns(const std::byte* panel, int64_t blocks, const CodeRows& x, float* y) noexcept {
  constexpr int64_t kTurn = T::kPanel < 4096 ? 4096 / T::kPanel : 1;  // blocks
  DotSink<T, kRows> sink;
  sink.x = x;
  for (int64_t i = 0; i < blocks; i += kTurn) {
    const int64_t n = blocks - i < kTurn ? blocks - i : kTurn;
    const CodeRows here = sink.x;
#pragma GCC unroll 1
    for (int h = 0; h < 2; ++h) {
      Panel<false> from{panel + (2 * i + h) * T::kPanel};
      sink.x = here;
      float* sums = y + 16 * h;
      unrolled<kRows>([&](int r)
                          TENON_LAMBDA { sink.acc[r] = i == 0 ? splat(0.0f) : load_floats(sums + r * kTileRows); });
      for (int64_t block = 0; block < n; ++block, from.at += T::kPanel) {
        if (h == 0) prefetch(from.at + kAhead, 0, 2 * T::kPanel);
        T::split(from, sink);
        sink.next_block();
      }
      unrolled<kRows>([&](int r) TENON_LAMBDA { store(sums + r * kTileRows, sink.acc[r]); });
    }
  }
}

template <class T, int kRows>
inline void dot_panel_rows(const std::byte* panel, int64_t blocks, const CodeRows& x, float* y) noexcept {
  if constexpr (kRows <= (T::kElements == 32 ? 4 : 2))
    dot_panel_halves<T, kRows>(panel, blocks, x, y);
  else
    dot_panel_in_turns<T, kRows>(panel, blocks, x, y);
}

template <class T, int kRows>
inline void dot_panel(const std::byte* panel, int64_t blocks, const CodeRows& x, int m, float* y) noexcept {
  int row = 0;
  for (; row + kRows <= m; row += kRows) dot_panel_rows<T, kRows>(panel, blocks, x.row(row), y + row * kTileRows);
  if constexpr (kRows > 1)
    if (row < m) dot_panel<T, kRows / 2>(panel, blocks, x.row(row), m - row, y + row * kTileRows);
}

// ---- a tile times many rows -----------------------------------------------------------------------------------------

template <int kRows, int kVectors>
TENON_INLINE void load_outputs(const Outputs& o, int64_t row, int half, Floats (&acc)[kRows][kVectors]) {
  bool whole = o.lanes.count == kTileRows;
  if (!o.add) {
    unrolled<kRows>([&](int r)
                        TENON_LAMBDA { unrolled<kVectors>([&](int h) TENON_LAMBDA { acc[r][h] = splat(0.0f); }); });
    return;
  }
  unrolled<kRows>([&](int r) TENON_LAMBDA {
    const float* y = o.y + (row + r) * o.ldy;
    float buffer[kTileRows] = {};
    if (!whole) {
      std::memcpy(buffer + o.lanes.first, y, static_cast<size_t>(o.lanes.count) * 4);
      y = buffer;
    }
    unrolled<kVectors>([&](int h) TENON_LAMBDA { acc[r][h] = load_floats(y + 16 * (half + h)); });
  });
}

template <int kRows, int kVectors>
TENON_INLINE void store_outputs(const Outputs& o, int64_t row, int half, const Floats (&acc)[kRows][kVectors]) {
  bool whole = o.lanes.count == kTileRows;
  unrolled<kRows>([&](int r) TENON_LAMBDA {
    float* y = o.y + (row + r) * o.ldy;
    if (whole) {
      unrolled<kVectors>([&](int h) TENON_LAMBDA { store(y + 16 * (half + h), acc[r][h]); });
      return;
    }
    float buffer[kTileRows];
    unrolled<kVectors>([&](int h) TENON_LAMBDA { store(buffer + 16 * (half + h), acc[r][h]); });
    // Of the lanes [first, first + count) those in this call's vectors.
    int begin = o.lanes.first > 16 * half ? o.lanes.first : 16 * half;
    int end =
        o.lanes.first + o.lanes.count < 16 * (half + kVectors) ? o.lanes.first + o.lanes.count : 16 * (half + kVectors);
    if (begin < end) std::memcpy(y + begin - o.lanes.first, buffer + begin, static_cast<size_t>(end - begin) * 4);
  });
}

constexpr int fewer(int rows) { return rows > 4 ? 4 : rows > 2 ? 2 : 1; }

template <int kRows, int kGroup, bool kMinimum, bool kWide>
inline void dot_codes_rows(const CodeTile& tile, int half, int64_t groups, const CodeRows& x, int64_t first_group,
                           int64_t row, const Outputs& out) {
  Floats acc[kRows][kHalves];
  load_outputs(out, row, half, acc);
  const uint8_t* w = tile.codes + 64 * half;
  const int8_t* a = x.codes + row * x.in + first_group * kGroup;
  for (int64_t g = 0; g < groups; ++g, a += kGroup) {
    const int64_t at = row * x.groups + first_group + g;
    Words dot[kRows][kHalves];
    unrolled<kRows>([&](int r) TENON_LAMBDA {
      Words start = splat(static_cast<uint32_t>(x.start[at + r * x.groups]));
      unrolled<kHalves>([&](int h) TENON_LAMBDA { dot[r][h] = start; });
    });
    unrolled<kGroup / 4>([&](int k4) TENON_LAMBDA {
      Weights<kWide> weights[kHalves];
      unrolled<kHalves>([&](int h) TENON_LAMBDA { weights[h] = prepare<kWide>(load_words(w + 64 * h)); });
      unrolled<kRows>([&](int r) TENON_LAMBDA {
        unrolled<kHalves>([&](int h)
                              TENON_LAMBDA { dot[r][h] = dot4<kWide>(dot[r][h], weights[h], a + r * x.in + 4 * k4); });
      });
      w += 4 * kTileRows;
    });
    unrolled<kHalves>([&](int h) TENON_LAMBDA {
      Floats scale = load_floats(tile.scale + g * kTileRows + 16 * (half + h));
      Floats minimum = kMinimum ? load_floats(tile.minimum + g * kTileRows + 16 * (half + h)) : scale;
      unrolled<kRows>([&](int r) TENON_LAMBDA {
        int64_t i = at + r * x.groups;
        acc[r][h] = add_group<kMinimum>(acc[r][h], dot[r][h], scale, minimum, x.scale[i], kMinimum ? x.sum[i] : 0);
      });
    });
  }
  store_outputs(out, row, half, acc);
}

template <int kRows, int kGroup, bool kMinimum, bool kWide>
inline void dot_codes_from(const CodeTile& tile, int half, int64_t groups, const CodeRows& x, int64_t first_group,
                           int64_t row, int64_t m, const Outputs& out) {
  for (; row + kRows <= m; row += kRows)
    dot_codes_rows<kRows, kGroup, kMinimum, kWide>(tile, half, groups, x, first_group, row, out);
  if constexpr (kRows > 1)
    dot_codes_from<fewer(kRows), kGroup, kMinimum, kWide>(tile, half, groups, x, first_group, row, m, out);
}

template <int kGroup, bool kMinimum, bool kWide>
inline void dot_codes(const CodeTile& tile, int64_t groups, const CodeRows& x, int64_t first_group, int64_t m,
                      const Outputs& out) noexcept {
  for (int half = 0; half < 2; half += kHalves)
    dot_codes_from<kCodeRows, kGroup, kMinimum, kWide>(tile, half, groups, x, first_group, 0, m, out);
}

template <int kGroup, bool kMinimum, int kOffset>
inline void code_values(const CodeTile& tile, int64_t groups, float* out) noexcept {
  for (int64_t g = 0; g < groups; ++g)
    unrolled<2>([&](int half) TENON_LAMBDA {
      Floats scale = load_floats(tile.scale + g * kTileRows + 16 * half);
      Floats minimum = kMinimum ? load_floats(tile.minimum + g * kTileRows + 16 * half) : scale;
      for (int k = 0; k < kGroup; ++k) {
        Words w = load_words(tile.codes + (g * kGroup + k) / 4 * 4 * kTileRows + 64 * half);
        const auto shift = static_cast<unsigned>(8 * (k % 4));
        Words code =
            kOffset == 0 ? signed_shift(w << (24 - shift), 24) : (w >> shift & splat(255u)) - splat(uint32_t{kOffset});
        Floats value = scale * to_floats(code);
        store(out + (g * kGroup + k) * kTileRows + 16 * half, kMinimum ? value + minimum : value);
      }
    });
}

// Large blocks keep more numbers at once than the registers hold beside the sums of many rows.
template <class T>
constexpr int kPanelFewRows = T::kElements == 32 ? kFewRows : std::min(kFewRows, T::kGroup == 32 ? 4 : 3);

template <class T>
constexpr CodeKernel kKernel{.offset = T::kOffset,
                             .few_rows = kPanelFewRows<T>,
                             .panel_bytes = T::kPanel,
                             .dot = dot_codes<T::kGroup, T::kMinimum, T::kWide>,
                             .values = code_values<T::kGroup, T::kMinimum, T::kOffset>,
                             .unpack = unpack<T>,
                             .dot_row = dot_row<T>,
                             .pack = pack_rows<T>,
                             .unpack_panel = unpack_panel<T>,
                             .dot_panel = dot_panel<T, T::kElements == 32 ? kPanelRows : std::min(kPanelRows, 4)>};

// Types without a vector form: codes of all 8 bits.
template <int kGroup, bool kMinimum>
constexpr CodeKernel kExpanded{.offset = kWideOffset,
                               .dot = dot_codes<kGroup, kMinimum, kWideSigned>,
                               .values = code_values<kGroup, kMinimum, kWideOffset>};

inline const CodeKernel& code_kernel(DType dtype) noexcept {
  switch (dtype) {
    case DType::q4_0:
      return kKernel<Q4_0>;
    case DType::q4_1:
      return kKernel<Q4_1>;
    case DType::q5_0:
      return kKernel<Q5_0>;
    case DType::q5_1:
      return kKernel<Q5_1>;
    case DType::q8_0:
      return kKernel<Q8_0>;
    case DType::q2_k:
      return kKernel<Q2_K>;
    case DType::q3_k:
      return kKernel<Q3_K>;
    case DType::q4_k:
      return kKernel<Q4_K>;
    case DType::q5_k:
      return kKernel<Q5_K>;
    case DType::q6_k:
      return kKernel<Q6_K>;
    case DType::iq4_nl:
      return kKernel<Iq4Nl>;
    case DType::iq4_xs:
      return kKernel<Iq4Xs>;
    case DType::mxfp4:
      return kKernel<Mxfp4>;
    case DType::int4_32:
      return kKernel<Grouped4<false, 32>>;
    case DType::int4_128:
      return kKernel<Grouped4<false, 128>>;
    case DType::int8_32:
      return kKernel<Grouped8<false>>;
    case DType::affine4_32:
      return kKernel<Grouped4<true, 32>>;
    case DType::affine8_32:
      return kKernel<Grouped8<true>>;
    default:
      break;
  }
  const quant::BlockForm& form = *quant::block_form(dtype);
  if (form.group == 32) return form.has_minimum ? kExpanded<32, true> : kExpanded<32, false>;
  return form.has_minimum ? kExpanded<16, true> : kExpanded<16, false>;
}

// ---- weights as floats ----------------------------------------------------------------------------------------------
// Each type takes 16 bytes of each of 16 rows apart: kStep vectors of one k each.

struct F32 {
  static constexpr int kStep = 4, kBytes = 4;
  TENON_INLINE static void split(const Words (&v)[4], Floats (&out)[kStep]) {
    unrolled<4>([&](int j) TENON_LAMBDA { out[j] = as_floats(v[j]); });
  }
  static constexpr int kPacked = 1;  // elements of k that lie together in a panel
  TENON_INLINE static void split_panel(const std::byte* p, Floats (&out)[kPacked]) { out[0] = widen(p); }
  TENON_INLINE static Floats widen(const std::byte* p) { return as_floats(load_words(p)); }
};

struct Bf16 {
  static constexpr int kStep = 8, kBytes = 2;
  TENON_INLINE static void split(const Words (&v)[4], Floats (&out)[kStep]) {
    unrolled<4>([&](int j) TENON_LAMBDA {
      out[2 * j] = as_floats(v[j] << 16);
      out[2 * j + 1] = as_floats(v[j] & splat(0xFFFF0000u));
    });
  }
  static constexpr int kPacked = 2;
  TENON_INLINE static void split_panel(const std::byte* p, Floats (&out)[kPacked]) {
    const Words pairs = load_words(p);
    out[0] = as_floats(pairs << 16);
    out[1] = as_floats(pairs & splat(0xFFFF0000u));
  }
  TENON_INLINE static Floats widen(const std::byte* p) { return bf16_at(p); }
};

struct F16 {
  static constexpr int kStep = 8, kBytes = 2;
  TENON_INLINE static void split(const Words (&v)[4], Floats (&out)[kStep]) {
    unrolled<4>([&](int j) TENON_LAMBDA {
      out[2 * j] = f16_low(v[j]);
      out[2 * j + 1] = f16_high(v[j]);
    });
  }
  static constexpr int kPacked = 1;
  TENON_INLINE static void split_panel(const std::byte* p, Floats (&out)[kPacked]) { out[0] = widen(p); }
  TENON_INLINE static Floats widen(const std::byte* p) { return f16_at(p); }
};

template <class T>
inline void unpack_floats(const std::byte* rows, int64_t stride, int64_t k, float* tile) noexcept {
  for (int half = 0; half < 2; ++half)
    for (int64_t i = 0; i < k; i += T::kStep) {
      const std::byte* at = rows + 16 * half * stride + i * T::kBytes;
      if (i % (4 * T::kStep) == 0)
        for (int r = 0; r < 16; ++r) __builtin_prefetch(at + r * stride + 512);
      Words v[4];
      Floats f[T::kStep];
      transpose_rows(at, stride, v);
      T::split(v, f);
      unrolled<T::kStep>([&](int j) TENON_LAMBDA { store(tile + (i + j) * kTileRows + 16 * half, f[j]); });
    }
}

template <class T>
inline void dot_float_row(const std::byte* rows, int64_t stride, int64_t k, const float* x, float* y) noexcept {
  // Both halves together: one chain of fused multiply-adds would wait for itself.
  Floats acc[2] = {load_floats(y), load_floats(y + 16)};
  const std::byte* next = rows + 32 * stride;
  for (int64_t i = 0; i < k; i += T::kStep) {
    prefetch(next, 32 * i * T::kBytes, 32 * T::kStep * T::kBytes);
    Floats f[2][T::kStep];
    unrolled<2>([&](int half) TENON_LAMBDA {
      Words v[4];
      transpose_rows(rows + 16 * half * stride + i * T::kBytes, stride, v);
      T::split(v, f[half]);
    });
    unrolled<T::kStep>([&](int j) TENON_LAMBDA {
      unrolled<2>([&](int half) TENON_LAMBDA { acc[half] = fma(splat(x[i + j]), f[half][j], acc[half]); });
    });
  }
  store(y, acc[0]);
  store(y + 16, acc[1]);
}

template <class T>
inline void widen(const std::byte* from, int64_t count, float* to) noexcept {
  for (int64_t i = 0; i < count; i += 16) store(to + i, T::widen(from + i * T::kBytes));
}

// The high bytes of the BF16 that the 16 codes stand for, per block's top.
struct Bf16HighBytes {
  alignas(16) uint8_t of[16];
};
constexpr auto kBf16HighBytes = [] {
  std::array<Bf16HighBytes, 128> table{};
  for (int top = 0; top < 128; ++top)
    for (int code = 0; code < 16; ++code) {
      const int below = code & 7, exponent = below == kBf16Distances || below > top ? 0 : top - below;
      table[static_cast<size_t>(top)].of[code] = static_cast<uint8_t>(exponent | (code & 8) << 4);
    }
  return table;
}();

inline void unpack_bf16(const Bf16Blocks& from, int64_t blocks, uint32_t* tile) noexcept {
  const std::byte* at = from.codes;
  for (int64_t b = 0; b < blocks; ++b) {
    const Words high = repeat16(kBf16HighBytes[from.heads[b].top].of);
    uint32_t* to = tile + b * kTileRows * kBf16Step / 2;
    __builtin_prefetch(from.heads + b + 16);
    for (int64_t i = 0; i < kBf16BlockBytes; i += 192) {
      unrolled<3>([&](int line) TENON_LAMBDA { __builtin_prefetch(at + kBf16Ahead + 64 * line, 0, 2); });
      const Words codes = load_words(at);
      unrolled<2>([&](int step) TENON_LAMBDA {
        Words halves[2] = {load_words(at + 64 + 64 * step),
                           lookup(high, (step ? codes >> 4 : codes) & splat(kNibbles))};
        interleave_bytes(halves);
        store(to, halves[0]);
        store(to + 16, halves[1]);
        to += 32;
      });
      at += 192;
    }
    const Bf16Exception* exceptions = from.list + from.heads[b].first;
    for (int i = 0; i < from.heads[b].exceptions; ++i)
      std::memcpy(reinterpret_cast<std::byte*>(tile + b * kTileRows * kBf16Step / 2) + 2 * exceptions[i].at,
                  &exceptions[i].value, 2);
  }
}

template <class T>
inline void unpack_float_panel(const std::byte* panel, int64_t k, float* tile) noexcept {
  for (int64_t i = 0; i < k; i += T::kPacked)
    unrolled<2>([&](int half) TENON_LAMBDA {
      Floats f[T::kPacked];
      T::split_panel(panel + (i * kTileRows + 16 * half * T::kPacked) * T::kBytes, f);
      unrolled<T::kPacked>([&](int j) TENON_LAMBDA {
        if (i + j < k) store(tile + (i + j) * kTileRows + 16 * half, f[j]);
      });
    });
}

template <class T, int kRows>
inline void dot_float_panel_rows(const std::byte* panel, int64_t k, const float* x, int64_t ldx, float* y) {
  Floats acc[kRows][2];
  unrolled<kRows>([&](int r) TENON_LAMBDA {
    acc[r][0] = load_floats(y + r * kTileRows);
    acc[r][1] = load_floats(y + r * kTileRows + 16);
  });
  auto step = [&](int64_t i, auto elements) TENON_LAMBDA {
    constexpr int kBytes = kTileRows * T::kPacked * T::kBytes;
    prefetch(panel + kAhead, 0, kBytes);
    Floats w[2][T::kPacked];
    unrolled<2>([&](int half) TENON_LAMBDA { T::split_panel(panel + kBytes / 2 * half, w[half]); });
    panel += kBytes;
    unrolled<elements>([&](int j) TENON_LAMBDA {
      unrolled<kRows>([&](int r) TENON_LAMBDA {
        Floats all = splat(x[r * ldx + i + j]);
        unrolled<2>([&](int half) TENON_LAMBDA { acc[r][half] = fma(all, w[half][j], acc[r][half]); });
      });
    });
  };
  int64_t i = 0;
  for (; i + T::kPacked <= k; i += T::kPacked) step(i, std::integral_constant<int, T::kPacked>());
  if (i < k) step(i, std::integral_constant<int, 1>());
  unrolled<kRows>([&](int r) TENON_LAMBDA {
    store(y + r * kTileRows, acc[r][0]);
    store(y + r * kTileRows + 16, acc[r][1]);
  });
}

template <class T, int kRows = kPanelRows>
inline void dot_float_panel(const std::byte* panel, int64_t k, const float* x, int64_t ldx, int m, float* y) noexcept {
  int row = 0;
  for (; row + kRows <= m; row += kRows)
    dot_float_panel_rows<T, kRows>(panel, k, x + row * ldx, ldx, y + row * kTileRows);
  if constexpr (kRows > 1)
    if (row < m) dot_float_panel<T, kRows / 2>(panel, k, x + row * ldx, ldx, m - row, y + row * kTileRows);
}

template <class T>
constexpr FloatKernel kFloatKernel{T::kStep, unpack_floats<T>,      dot_float_row<T>,
                                   widen<T>, unpack_float_panel<T>, dot_float_panel<T>};

inline const FloatKernel* float_kernel(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32:
      return &kFloatKernel<F32>;
    case DType::bf16:
      return &kFloatKernel<Bf16>;
    case DType::f16:
      return &kFloatKernel<F16>;
    default:
      return nullptr;
  }
}

template <int kRows>
inline void dot_floats_rows(const float* tile, int64_t tile_stride, int half, int64_t k, const float* x, int64_t ldx,
                            int64_t row, const Outputs& out) {
  Floats acc[kRows][kHalves];
  load_outputs(out, row, half, acc);
  const float* a = x + row * ldx;
  for (int64_t i = 0; i < k; ++i) {
    Floats w[kHalves];
    unrolled<kHalves>([&](int h) TENON_LAMBDA { w[h] = load_floats(tile + i * tile_stride + 16 * (half + h)); });
    unrolled<kRows>([&](int r) TENON_LAMBDA {
      Floats all = splat(a[r * ldx + i]);
      unrolled<kHalves>([&](int h) TENON_LAMBDA { acc[r][h] = fma(all, w[h], acc[r][h]); });
    });
  }
  store_outputs(out, row, half, acc);
}

template <int kRows>
inline void dot_floats_from(const float* tile, int64_t tile_stride, int half, int64_t k, const float* x, int64_t ldx,
                            int64_t row, int64_t m, const Outputs& out) {
  for (; row + kRows <= m; row += kRows) dot_floats_rows<kRows>(tile, tile_stride, half, k, x, ldx, row, out);
  if constexpr (kRows > 1) dot_floats_from<fewer(kRows)>(tile, tile_stride, half, k, x, ldx, row, m, out);
}

inline void dot_floats(const float* tile, int64_t tile_stride, int64_t k, const float* x, int64_t ldx, int64_t m,
                       const Outputs& out) noexcept {
  for (int half = 0; half < 2; half += kHalves)
    dot_floats_from<kFloatRows>(tile, tile_stride, half, k, x, ldx, 0, m, out);
}
