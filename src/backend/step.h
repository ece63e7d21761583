// What a device is told of one step besides the graph's values: sequences, their state, threads and scratch.
#pragma once
#include <cstdint>
#include <span>

#include "backend/cpu/attention.h"
#include "base/thread_pool.h"

namespace tenon::backend {

// One sequence's rows in the step.
struct SequenceRows {
  int64_t row_begin = 0, row_count = 0;
  int64_t position = 0;  // of its first row
  int64_t prompt_length =
      0;  // rope regimes that depend on length: a token's length is max(prompt_length, its position + 1)
};

// Where one layer's keys and values live.
struct KvView {
  std::byte* pool = nullptr;
  cpu::KvShape shape;
  int64_t window = 0;
  std::span<const cpu::AttendSequence> sequences;  // with the block tables of this layer's window
};

struct Step {
  int64_t rows = 0, outputs = 0;
  std::span<const SequenceRows> sequences;
  std::span<const KvView> states;  // by Graph::states index
  ThreadPool* threads = nullptr;
  std::byte* scratch = nullptr;  // the plan's bytes, 64-byte aligned
  bool f32_activations = false;
};

}  // namespace tenon::backend
