// Loops that do nothing but reach the machine's limits.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tenon::cpu {

uint64_t read_all(const std::byte* data, int64_t bytes) noexcept;  // reads every cache line; bytes a multiple of 4096
int64_t multiply_add_rounds(int64_t rounds) noexcept;              // returns the floating point operations done

}  // namespace tenon::cpu
