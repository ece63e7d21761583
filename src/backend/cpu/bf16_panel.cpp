#include "backend/cpu/bf16_panel.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "base/checked.h"

namespace tenon::cpu {
namespace {

constexpr int64_t kWeights = kTileRows * kBf16Step;  // of a block
constexpr int64_t kWeightsPerException = 256;

struct Sizes {
  int64_t blocks, exceptions;
  uint64_t heads, list, codes;  // bytes
};
Sizes sizes_of(int64_t out, int64_t in) {
  Sizes s{};
  s.blocks = ceil_div(out, kTileRows) * ceil_div(in, kBf16Step);
  s.exceptions = s.blocks * kWeights / kWeightsPerException;
  s.heads = round_up(static_cast<uint64_t>(s.blocks) * sizeof(Bf16Block), 64);
  s.list = round_up(static_cast<uint64_t>(s.exceptions) * sizeof(Bf16Exception), 64);
  s.codes = static_cast<uint64_t>(s.blocks) * kBf16BlockBytes;
  return s;
}

// A block in the order of a tile: [k / 2][32][2], zeros where the weight ends.
void gather(const LinearWeight& w, int64_t block, uint16_t (&out)[kWeights]) {
  const int64_t per_tile = ceil_div(w.in, kBf16Step), row = block / per_tile * kTileRows;
  const int64_t k = block % per_tile * kBf16Step, n = std::min(kBf16Step, w.in - k);
  if (row + kTileRows > w.out) std::memset(out, 0, sizeof out);
  for (int64_t r = 0; r < std::min<int64_t>(kTileRows, w.out - row); ++r) {
    uint32_t pairs[kBf16Step / 2] = {};
    std::memcpy(pairs, w.rows + ((row + r) * w.in + k) * 2, static_cast<size_t>(n) * 2);
    for (int64_t i = 0; i < kBf16Step / 2; ++i) std::memcpy(out + (i * kTileRows + r) * 2, &pairs[i], 4);
  }
}

// A weight's low byte, with the exponent's last bit, stays as it is. The sign and the rest of the exponent are coded.
int16_t rest(uint16_t bf16) { return static_cast<int16_t>(bf16 >> 8 & 127); }

// The top below which most weights lie within the distances.
Bf16Block choose(const uint16_t (&weights)[kWeights]) {
  int16_t lowest = 127, highest = 0;
  for (uint16_t v : weights) {
    const int16_t e = rest(v);
    highest = std::max(highest, e);
    lowest = std::min(lowest, e == 0 ? int16_t{127} : e);
  }
  if (highest - lowest < kBf16Distances) return {static_cast<uint8_t>(highest), 0, 0};
  uint16_t count[128] = {};
  for (uint16_t v : weights) ++count[rest(v)];
  int inside = 0, most = -1, best = 0;
  for (int e = 1; e < 128; ++e) {
    inside += count[e] - (e > kBf16Distances ? count[e - kBf16Distances] : 0);
    if (inside >= most) most = inside, best = e;
  }
  return {static_cast<uint8_t>(best), static_cast<uint16_t>(kWeights - count[0] - most), 0};
}

bool is_coded(int e, int top) { return e == 0 || (e <= top && e > top - kBf16Distances); }

// Where interleaving the bytes of two 64-byte vectors, 16 bytes at a time, takes half-word h of 64 from.
constexpr auto kInterleaved = [] {
  std::array<uint8_t, 64> at{};
  for (int h = 0; h < 64; ++h) at[static_cast<size_t>(h)] = static_cast<uint8_t>(h % 32 / 8 * 16 + h / 32 * 8 + h % 8);
  return at;
}();

void encode(const uint16_t (&weights)[kWeights], int top, std::byte* to) {
  uint8_t codes[256];  // per high byte of a weight
  for (int high = 0; high < 256; ++high) {
    const int e = high & 127;
    codes[high] = static_cast<uint8_t>((high & 128) >> 4 | (e != 0 && is_coded(e, top) ? top - e : kBf16Distances));
  }
  for (const uint16_t* v = weights; v < weights + kWeights; v += 128, to += 192) {
    uint8_t bytes[3][64];  // the codes of two steps of k; the low bytes of the first, of the second
    for (size_t h = 0; h < 64; ++h) {
      const size_t at = kInterleaved[h];
      bytes[0][at] = static_cast<uint8_t>(codes[v[h] >> 8] | codes[v[64 + h] >> 8] << 4);
      bytes[1][at] = static_cast<uint8_t>(v[h]);
      bytes[2][at] = static_cast<uint8_t>(v[64 + h]);
    }
    std::memcpy(to, bytes, sizeof bytes);
  }
}

}  // namespace

uint64_t bf16_panel_bytes(int64_t out, int64_t in) {
  const Sizes s = sizes_of(out, in);
  return s.heads + s.list + s.codes;
}

bool pack_bf16(const LinearWeight& w, std::byte* panels, ThreadPool& pool) noexcept {
  const Sizes s = sizes_of(w.out, w.in);
  auto* heads = reinterpret_cast<Bf16Block*>(panels);
  auto* list = reinterpret_cast<Bf16Exception*>(panels + s.heads);
  std::atomic<int64_t> used{0};
  pool.parallel_for(s.blocks, 16, [&](int64_t begin, int64_t end, int) {
    uint16_t weights[kWeights];
    for (int64_t i = begin; i < end; ++i) {
      gather(w, i, weights);
      Bf16Block block = choose(weights);
      if (block.exceptions > 0) {
        const int64_t first = used.fetch_add(block.exceptions);
        if (first + block.exceptions > s.exceptions) return;
        block.first = static_cast<uint32_t>(first);
        Bf16Exception* next = list + first;
        for (uint16_t at = 0; at < kWeights; ++at)
          if (!is_coded(rest(weights[at]), block.top)) *next++ = {at, weights[at]};
      }
      heads[i] = block;
      encode(weights, block.top, panels + s.heads + s.list + i * kBf16BlockBytes);
    }
  });
  return used <= s.exceptions;
}

Bf16Blocks bf16_blocks(const LinearWeight& w, int64_t tile, int64_t k) {
  const Sizes s = sizes_of(w.out, w.in);
  const int64_t block = tile * ceil_div(w.in, kBf16Step) + k / kBf16Step;
  return {reinterpret_cast<const Bf16Block*>(w.panels) + block,
          reinterpret_cast<const Bf16Exception*>(w.panels + s.heads),
          w.panels + s.heads + s.list + block * kBf16BlockBytes};
}

}  // namespace tenon::cpu
