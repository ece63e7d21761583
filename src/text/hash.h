// A fast hash of short strings and of pairs for the tokenizers' own tables; not stable across machines, never stored.
#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>

namespace tenon::text {

inline uint64_t mix(uint64_t a, uint64_t b) {
  auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline uint64_t hash_bytes(const char* p, size_t n) {
  constexpr uint64_t k0 = 0x9E3779B97F4A7C15, k1 = 0xD6E8FEB86659FD93;
  auto load8 = [](const char* q) {
    uint64_t v;
    std::memcpy(&v, q, 8);
    return v;
  };
  auto load4 = [](const char* q) {
    uint32_t v;
    std::memcpy(&v, q, 4);
    return static_cast<uint64_t>(v);
  };
  uint64_t h = k0 ^ n;
  for (; n > 16; p += 16, n -= 16) h = mix(load8(p) ^ k1, load8(p + 8) ^ h);
  uint64_t a = 0, b = 0;
  if (n >= 8) {
    a = load8(p);
    b = load8(p + n - 8);
  } else if (n >= 4) {
    a = load4(p);
    b = load4(p + n - 4);
  } else if (n > 0) {
    a = static_cast<uint8_t>(p[0]) | static_cast<uint64_t>(static_cast<uint8_t>(p[n / 2])) << 8 |
        static_cast<uint64_t>(static_cast<uint8_t>(p[n - 1])) << 16;
  }
  return mix(mix(a ^ k1, b ^ h), k0);
}

// Whether `n` bytes are the same; inline, since most are few.
inline bool same_bytes(const char* a, const char* b, size_t n) {
  auto differ = [&](auto word, size_t at) {
    auto other = word;
    std::memcpy(&word, a + at, sizeof(word));
    std::memcpy(&other, b + at, sizeof(word));
    return word ^ other;
  };
  if (n > 16) return std::memcmp(a, b, n) == 0;
  if (n >= 8) return (differ(uint64_t{}, 0) | differ(uint64_t{}, n - 8)) == 0;
  if (n >= 4) return (differ(uint32_t{}, 0) | differ(uint32_t{}, n - 4)) == 0;
  for (size_t i = 0; i < n; ++i)
    if (a[i] != b[i]) return false;
  return true;
}

// Position of a hash in a table of `size` slots (any size, not only powers of two).
inline size_t slot_of(uint64_t hash, size_t size) {
  return static_cast<size_t>(static_cast<unsigned __int128>(hash) * size >> 64);
}

}  // namespace tenon::text
