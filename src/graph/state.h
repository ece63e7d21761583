// State that a layer asks for and that outlives a step. The runtime turns each request into buffers.
#pragma once
#include <cstdint>

namespace tenon::graph {

// Paged keys and values of one attention layer; layers with equal windows share one block table.
struct KvState {
  int64_t kv_heads = 0, head_dim = 0;
  int64_t window = 0;  // positions a token sees, itself included; 0: all
  bool operator==(const KvState&) const = default;
};

}  // namespace tenon::graph
