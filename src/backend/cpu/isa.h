// Instruction set levels. The highest one the machine has is used unless TENON_ISA forces a lower one.
#pragma once
#include <string>
#include <vector>

namespace tenon::cpu {

enum class Isa { baseline, avx2, avx512, amx };

Isa isa();                         // the level in force
void force_isa(Isa level);         // tests; throws Error{invalid_argument} when the machine lacks it
std::vector<Isa> available_isas();  // ascending
std::string name(Isa level);

}  // namespace tenon::cpu
