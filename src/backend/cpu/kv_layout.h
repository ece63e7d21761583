// Where a KV block keeps one head's keys and values.
#pragma once
#include <cstdint>

#include "backend/cpu/attention.h"

namespace tenon::cpu {

constexpr int64_t kKvGroup = 32;  // q8: elements of head_dim that share a scale

// Byte offsets inside one KV head's part of a block; the heads' parts follow each other.
struct KvLayout {
  int64_t element = 0;                 // bytes of a code
  int64_t groups = 0;                  // q8: scales of a token and head, else 0
  int64_t v = 0;                       // K codes [head_dim][32] lie at 0, V codes [32][head_dim] here
  int64_t k_scales = 0, v_scales = 0;  // q8: f16 [groups][32] and [32][groups]
  int64_t head_bytes = 0;
};

constexpr KvLayout kv_layout(const KvShape& shape) {
  KvLayout l;
  l.element = shape.type == KvType::f32 ? 4 : shape.type == KvType::q8 ? 1 : 2;
  l.groups = shape.type == KvType::q8 ? (shape.head_dim + kKvGroup - 1) / kKvGroup : 0;
  const int64_t codes = shape.head_dim * kKvBlock * l.element, scales = l.groups * kKvBlock * 2;
  l.v = codes;
  l.k_scales = 2 * codes;
  l.v_scales = l.k_scales + scales;
  l.head_bytes = l.v_scales + scales;
  return l;
}

}  // namespace tenon::cpu
