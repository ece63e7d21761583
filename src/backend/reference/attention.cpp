#include "backend/reference/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backend/cpu/hadamard.h"
#include "backend/cpu/kv_layout.h"
#include "backend/reference/math.h"
#include "tensor/half.h"

namespace tenon::reference {
namespace {

using namespace cpu;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <class T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

// One KV head of one block, element by element.
struct HeadBlock {
  const KvShape& kv;
  KvLayout layout;
  std::byte* data;

  HeadBlock(const KvShape& shape, std::byte* pool, const AttendSequence& s, int64_t position, int64_t head)
      : kv(shape), layout(kv_layout(shape)) {
    const int32_t block = s.blocks[position / kKvBlock % s.block_count];
    data =
        pool + static_cast<uint64_t>(block) * kv_block_stride(shape) + static_cast<uint64_t>(head * layout.head_bytes);
  }

  // q4: the byte that element d shares.
  int64_t code(int64_t d) const { return kv.type == KvType::q4 ? d / kKvGroup * kKvPairs + d % kKvPairs : d; }
  std::byte* k_code(int64_t slot, int64_t d) const { return data + (code(d) * kKvBlock + slot) * layout.element; }
  std::byte* v_code(int64_t slot, int64_t d) const {
    return data + layout.v + (slot * layout.codes + code(d)) * layout.element;
  }
  std::byte* k_scale(int64_t slot, int64_t d) const {
    return data + layout.k_scales + (d / kKvGroup * kKvBlock + slot) * 2;
  }
  std::byte* v_scale(int64_t slot, int64_t d) const {
    return data + layout.v_scales + (slot * layout.groups + d / kKvGroup) * 2;
  }

  float read(const std::byte* code, const std::byte* scale, int64_t d) const {
    switch (kv.type) {
      case KvType::f32:
        return load<float>(code);
      case KvType::f16:
        return f16_to_f32(load<uint16_t>(code));
      case KvType::bf16:
        return bf16_to_f32(load<uint16_t>(code));
      case KvType::q8:
        return static_cast<float>(load<int8_t>(code)) * f16_to_f32(load<uint16_t>(scale));
      case KvType::q4:
        return static_cast<float>((load<uint8_t>(code) >> q4_shift(d) & 15) - 8) * f16_to_f32(load<uint16_t>(scale));
    }
    return 0;
  }
  static int q4_shift(int64_t d) { return d % kKvGroup < kKvPairs ? 0 : 4; }
  float k(int64_t slot, int64_t d) const { return read(k_code(slot, d), k_scale(slot, d), d); }
  float v(int64_t slot, int64_t d) const { return read(v_code(slot, d), v_scale(slot, d), d); }
};

// Of the group of `count` values at x. Not finite: the group reads as NaN.
uint16_t q8_scale(const float* x, int64_t count) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(x[i])) return f32_to_f16(std::numeric_limits<float>::quiet_NaN());
    largest = std::max(largest, std::fabs(x[i]));
  }
  return f32_to_f16(std::min(largest / 127.0f, 65504.0f));
}

int8_t q8_code(float x, float scale) {
  if (!(scale > 0)) return 0;
  return static_cast<int8_t>(std::clamp(std::nearbyint(x / scale), -127.0f, 127.0f));
}

// The value of largest magnitude becomes -8.
uint16_t q4_scale(const float* x, int64_t count) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(x[i])) return f32_to_f16(std::numeric_limits<float>::quiet_NaN());
    if (std::fabs(x[i]) > std::fabs(largest)) largest = x[i];
  }
  return largest == 0 ? uint16_t{0} : f32_to_f16(std::clamp(largest / -8.0f, -65504.0f, 65504.0f));
}

int q4_code(float x, float scale) {
  if (scale == 0 || std::isnan(scale)) return 8;
  return static_cast<int>(std::clamp(std::nearbyint(x / scale), -8.0f, 7.0f)) + 8;
}

void write(const HeadBlock& b, std::byte* code, std::byte* scale, const float* x, int64_t d) {
  switch (b.kv.type) {
    case KvType::f32:
      return store(code, x[d]);
    case KvType::f16:
      return store(code, f32_to_f16(x[d]));
    case KvType::bf16:
      return store(code, f32_to_bf16(x[d]));
    case KvType::q8: {
      const int64_t group = d / kKvGroup * kKvGroup;
      const uint16_t s = q8_scale(x + group, std::min(kKvGroup, b.kv.head_dim - group));
      store(scale, s);
      return store(code, q8_code(x[d], f16_to_f32(s)));
    }
    case KvType::q4: {
      const int64_t group = d / kKvGroup * kKvGroup;
      const uint16_t s = q4_scale(x + group, std::min(kKvGroup, b.kv.head_dim - group));
      store(scale, s);
      const int shift = HeadBlock::q4_shift(d), other = load<uint8_t>(code) & (15 << (4 - shift));
      return store(code, static_cast<uint8_t>(other | q4_code(x[d], f16_to_f32(s)) << shift));
    }
  }
}

// The softmax-weighted sum over a run of positions, relative to its largest score.
struct Partial {
  float max = -kInfinity;
  float lanes[16] = {};  // of the weights' sum
  float sum = 0;
  std::vector<float> out;
};

// Query row `q` of one head against positions [begin, end) of one tile of 32.
void attend_tile(const AttendCall& call, const AttendSequence& s, int64_t kv_head, const float* q, int64_t begin,
                 int64_t end, Partial& p) {
  const HeadBlock block(call.kv, call.pool, s, begin, kv_head);
  const int64_t first = begin % kKvBlock, last = first + end - begin;
  float weight[kKvBlock], max = p.max;
  for (int64_t j = first; j < last; ++j) {
    float score = 0;
    for (int64_t d = 0; d < call.kv.head_dim; ++d) score = std::fma(q[d], block.k(j, d), score);
    score *= call.scale;
    if (call.softcap > 0) score = call.softcap * tanh(score / call.softcap);
    weight[j] = score;
    max = std::max(max, score);
  }
  const float rescale = exp(p.max - max);
  for (int64_t j = 0; j < kKvBlock; ++j) weight[j] = first <= j && j < last ? exp(weight[j] - max) : 0.0f;
  for (int i = 0; i < 16; ++i) p.lanes[i] = std::fma(p.lanes[i], rescale, weight[i] + weight[i + 16]);
  for (int64_t d = 0; d < call.kv.head_dim; ++d) {
    float& o = p.out[static_cast<size_t>(d)];
    o *= rescale;
    for (int64_t j = first; j < last; ++j) o = std::fma(weight[j], block.v(j, d), o);
  }
  p.max = max;
}

// The lanes' sum: the upper half added to the lower until one is left.
void close(Partial& p) {
  for (int width = 8; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) p.lanes[i] += p.lanes[i + width];
  p.sum = p.lanes[0];
}

void merge(Partial& total, const Partial& p) {
  const float max = std::max(total.max, p.max);
  const float a = exp(total.max - max), b = exp(p.max - max);
  total.max = max;
  total.sum = std::fma(total.sum, a, p.sum * b);
  for (size_t d = 0; d < p.out.size(); ++d) total.out[d] = std::fma(total.out[d], a, p.out[d] * b);
}

void attend_row(const AttendCall& call, const AttendSequence& s, int64_t kv_head, int64_t position, const float* q,
                float* y) {
  const int64_t begin = call.window > 0 ? std::max<int64_t>(0, position - call.window + 1) : 0, end = position + 1;
  std::vector<float> rotated(q, q + call.kv.head_dim);
  if (call.kv.type == KvType::q4) hadamard(rotated.data(), call.kv.head_dim, hadamard_size(call.kv.head_dim));
  q = rotated.data();
  Partial total;
  for (int64_t segment = begin / kSegment; segment * kSegment < end; ++segment) {
    Partial p;
    p.out.resize(static_cast<size_t>(call.kv.head_dim));
    const int64_t from = std::max(begin, segment * kSegment), to = std::min(end, (segment + 1) * kSegment);
    for (int64_t tile = from / kKvBlock; tile * kKvBlock < to; ++tile)
      attend_tile(call, s, kv_head, q, std::max(from, tile * kKvBlock), std::min(to, (tile + 1) * kKvBlock), p);
    close(p);
    if (segment == begin / kSegment)
      total = p;
    else
      merge(total, p);
  }
  for (size_t d = 0; d < total.out.size(); ++d) y[d] = total.out[d] / total.sum;
}

}  // namespace

void store_kv(const KvShape& kv, std::byte* pool, const float* k, int64_t ldk, const float* v, int64_t ldv,
              std::span<const AttendSequence> sequences) {
  for (const AttendSequence& s : sequences)
    for (int64_t r = 0; r < s.row_count; ++r)
      for (int64_t h = 0; h < kv.kv_heads; ++h) {
        const int64_t position = s.position + r, slot = position % kKvBlock;
        const HeadBlock b(kv, pool, s, position, h);
        const float *key = k + (s.row_begin + r) * ldk + h * kv.head_dim,
                    *value = v + (s.row_begin + r) * ldv + h * kv.head_dim;
        const bool q4 = kv.type == KvType::q4;
        std::vector<float> keys(key, key + kv.head_dim), values(value, value + kv.head_dim);
        if (q4) hadamard(keys.data(), kv.head_dim, hadamard_size(kv.head_dim));
        const int64_t codes = q4 ? b.layout.groups * kKvGroup : kv.head_dim;  // the last group is filled up with zeros
        keys.resize(static_cast<size_t>(codes));
        values.resize(static_cast<size_t>(codes));
        for (int64_t d = 0; d < codes; ++d) {
          write(b, b.k_code(slot, d), b.k_scale(slot, d), keys.data(), d);
          write(b, b.v_code(slot, d), b.v_scale(slot, d), values.data(), d);
        }
      }
}

void attend(const AttendCall& call) {
  const int64_t group = call.heads / call.kv.kv_heads, dim = call.kv.head_dim;
  for (const AttendSequence& s : call.sequences)
    for (int64_t r = 0; r < s.row_count; ++r)
      for (int64_t h = 0; h < call.heads; ++h)
        attend_row(call, s, h / group, s.position + r, call.q + (s.row_begin + r) * call.ldq + h * dim,
                   call.y + (s.row_begin + r) * call.ldy + h * dim);
}

}  // namespace tenon::reference
