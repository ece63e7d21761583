// Instruction set levels. The highest one the machine has is used unless TENON_ISA forces a lower one.
#pragma once
#include <string>
#include <vector>

namespace tenon::cpu {

// avx512_bf16: dot products of BF16 round the activations (docs/numerics.md), at twice the rate of f32 on AMD's
// processors. Others do them at half of it, so they do not have the level.
enum class Isa { baseline, avx2, avx512, avx512_bf16 };

// The level in force. The first call also tells Highway's dispatch, so it comes before any vector kernel
// (device_named() does it).
Isa isa();
void force_isa(Isa level);          // tests; throws Error{invalid_argument} when the machine lacks it
std::vector<Isa> available_isas();  // ascending
std::string name(Isa level);

}  // namespace tenon::cpu
