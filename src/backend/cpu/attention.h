// Paged attention. A KV block holds 32 positions of one layer; inside it, per KV head, K lies transposed [head_dim][32]
// (lanes are positions) and V as [32][head_dim]. Order of sums: docs/numerics.md (tiles of 32 positions, segments of
// kSegment, from position 0).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/thread_pool.h"

namespace tenon::cpu {

enum class KvType : uint8_t { f32, f16, bf16, q8, q4 };

constexpr int64_t kKvBlock = 32;    // positions per block
constexpr int64_t kSegment = 1024;  // positions per segment

struct KvShape {
  KvType type = KvType::bf16;
  int64_t kv_heads = 0, head_dim = 0;
  uint64_t block_stride = 0;  // bytes from block to block; 0: they follow each other
};
// Bytes of one block of one layer (K and V of all heads), a multiple of 64.
// q8, q4: codes of 8 or 4 bits and one f16 scale per token, head and group of 32 along head_dim (the last may be
// shorter). q4 keeps K rotated (hadamard.h).
uint64_t kv_block_bytes(const KvShape& shape);
inline uint64_t kv_block_stride(const KvShape& shape) {
  return shape.block_stride ? shape.block_stride : kv_block_bytes(shape);
}

// One sequence's rows in the step and its blocks: logical block j is blocks[j % block_count] (a ring for sliding
// windows).
struct AttendSequence {
  int64_t row_begin = 0, row_count = 0;
  int64_t position = 0;  // of its first row
  const int32_t* blocks = nullptr;
  int64_t block_count = 0;
};

struct AttendCall {
  KvShape kv;
  int64_t heads = 0;
  float scale = 1;
  int64_t window = 0;  // a token sees itself and the window-1 before it; 0: all before it
  float softcap = 0;   // scores become softcap * tanh(score / softcap); 0: none
  const float* q = nullptr;
  int64_t ldq = 0;  // [rows, heads * head_dim]
  float* y = nullptr;
  int64_t ldy = 0;            // [rows, heads * head_dim]
  std::byte* pool = nullptr;  // the layer's blocks: block b at pool + b * kv_block_stride
  std::span<const AttendSequence> sequences;
  std::byte* scratch = nullptr;  // attend_scratch_bytes(), 64-byte aligned
};

size_t attend_scratch_bytes(const KvShape& kv, int64_t heads, int threads);

// Rounds this step's keys and values ([rows, kv_heads * head_dim], row strides ldk, ldv) into their blocks; before
// attend().
void store_kv(const KvShape& kv, std::byte* pool, const float* k, int64_t ldk, const float* v, int64_t ldv,
              std::span<const AttendSequence> sequences, ThreadPool& pool_threads) noexcept;
void attend(const AttendCall& call, ThreadPool& pool) noexcept;

}  // namespace tenon::cpu
