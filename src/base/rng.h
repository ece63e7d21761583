// Philox 4x32-10 (Salmon et al. 2011): a counter-based generator, so that a draw depends on its coordinates and nothing
// else.
#pragma once
#include <array>
#include <cstdint>

namespace tenon {

constexpr std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t{0xD2511F53} * counter[0], b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

// Uniform in [0, 1), 53 bits, for (seed, choice index, position, draw).
constexpr double philox_uniform(uint64_t seed, uint32_t choice, uint64_t position, uint32_t draw) {
  auto r = philox({static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), choice, draw},
                  {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  uint64_t bits = (uint64_t{r[0]} << 32 | r[1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace tenon
