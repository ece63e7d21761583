// Where a KV block keeps one head's keys and values.
#pragma once
#include <cstdint>

#include "backend/cpu/attention.h"

namespace tenon::cpu {

constexpr int64_t kKvGroup = 32;            // q8, q4: elements of head_dim that share a scale
constexpr int64_t kKvPairs = kKvGroup / 2;  // q4: byte i of a group holds elements i (low bits) and i + 16, both + 8

// Byte offsets inside one KV head's part of a block; the heads' parts follow each other.
struct KvLayout {
  int64_t element = 0;                 // bytes of a code; q4: of two
  int64_t codes = 0;                   // of a token and head: head_dim; q4: 16 for each group
  int64_t groups = 0;                  // q8, q4: scales of a token and head, else 0
  int64_t v = 0;                       // K codes [codes][32] lie at 0, V codes [32][codes] here
  int64_t k_scales = 0, v_scales = 0;  // q8, q4: f16 [groups][32] and [32][groups]
  int64_t head_bytes = 0;
};

constexpr KvLayout kv_layout(const KvShape& shape) {
  KvLayout l;
  const bool grouped = shape.type == KvType::q8 || shape.type == KvType::q4;
  l.element = shape.type == KvType::f32 ? 4 : grouped ? 1 : 2;
  l.groups = grouped ? (shape.head_dim + kKvGroup - 1) / kKvGroup : 0;
  l.codes = shape.type == KvType::q4 ? l.groups * kKvPairs : shape.head_dim;
  const int64_t codes = l.codes * kKvBlock * l.element, scales = l.groups * kKvBlock * 2;
  l.v = codes;
  l.k_scales = 2 * codes;
  l.v_scales = l.k_scales + scales;
  l.head_bytes = l.v_scales + scales;
  return l;
}

}  // namespace tenon::cpu
