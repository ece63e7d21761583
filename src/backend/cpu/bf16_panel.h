// Panels of BF16 weights, 12 bits each without loss: the low byte as it is, the sign, and in three bits how far the
// rest of the exponent lies below the block's top. Weights of a block are close in size; the one in some thousand that
// is not stands in a list.
#pragma once
#include "backend/cpu/gemm/kernels.h"
#include "backend/cpu/linear.h"

namespace tenon::cpu {

// Whole blocks of 32 x 32 weights, and room for one exception in 256 weights.
uint64_t bf16_panel_bytes(int64_t out, int64_t in);
// False where the exceptions are too many: the weight stays as it is.
bool pack_bf16(const LinearWeight& weight, std::byte* panels, ThreadPool& pool) noexcept;

// From the block that element k of tile `tile` begins; the blocks of a tile follow each other.
Bf16Blocks bf16_blocks(const LinearWeight& weight, int64_t tile, int64_t k);

}  // namespace tenon::cpu
