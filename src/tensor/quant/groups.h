// Blocks for what GPTQ, AWQ, compressed-tensors and MLX store as integers with a scale per group, exactly.
// A block is a word and its codes: four bits like Q4_0's (of each 32 the first 16 in the low nibbles), or eight bits
// less 128.
//   int*:    scale * (code - zero). The word is the scale as f32, which as a former f16 or bf16 has 12 low bits to
//            spare: they hold the zero.
//   affine*: scale * code + bias, two bf16.
#pragma once
#include <bit>
#include <cstdint>

namespace tenon::quant {

constexpr uint32_t kZeroBits = 0xFFF;

// Whether a scale leaves those bits to the zero.
inline bool has_room(float scale) { return (std::bit_cast<uint32_t>(scale) & kZeroBits) == 0; }
inline uint32_t int_head(float scale, uint32_t zero) { return std::bit_cast<uint32_t>(scale) | zero; }
inline uint32_t affine_head(uint16_t scale, uint16_t bias) { return scale | uint32_t{bias} << 16; }

}  // namespace tenon::quant
