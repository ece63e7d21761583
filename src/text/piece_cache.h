// Ids of pieces met lately in one text: direct-mapped and bounded; keys are compared in full, so it never changes a
// result.
#pragma once
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "text/hash.h"

namespace tenon::text {

class PieceCache {
 public:
  static constexpr size_t kMostBytes = 24, kMostIds = 9,
                          kEntries = 8192;  // entries fill one cache line, the table 512 KiB

  static bool fits(std::string_view piece) { return piece.size() <= kMostBytes; }

  // A piece as words with zeros behind it.
  struct Key {
    uint64_t words[3] = {0, 0, 0};
    uint8_t bytes;

    explicit Key(std::string_view piece) : bytes(static_cast<uint8_t>(piece.size())) {
      const char* p = piece.data();
      size_t n = piece.size(), w = 0;
      for (; n > 8; p += 8, n -= 8) std::memcpy(&words[w++], p, 8);
      if (w > 0) {  // the last 8 bytes overlap what is there already
        std::memcpy(&words[w], p + n - 8, 8);
        words[w] >>= 8 * (8 - n);
      } else if (n >= 4) {
        uint32_t low, high;
        std::memcpy(&low, p, 4);
        std::memcpy(&high, p + n - 4, 4);
        words[0] = low | static_cast<uint64_t>(high) << (8 * (n - 4));
      } else {
        for (size_t i = 0; i < n; ++i) words[0] |= static_cast<uint64_t>(static_cast<uint8_t>(p[i])) << (8 * i);
      }
    }
    uint64_t hash() const {
      return mix(words[0] ^ 0x9E3779B97F4A7C15 ^ bytes,
                 mix(words[1] ^ 0xD6E8FEB86659FD93, words[2] ^ 0xA0761D6478BD642F));
    }
  };

  struct alignas(64) Entry {
    uint64_t words[3] = {0, 0, 0};
    uint8_t bytes = 0, ids = 0;  // bytes 0: empty
    int32_t id[kMostIds] = {};

    bool holds(const Key& k) const {
      return ((words[0] ^ k.words[0]) | (words[1] ^ k.words[1]) | (words[2] ^ k.words[2])) == 0 && bytes == k.bytes;
    }
    // false: too many ids; the entry stays as it was.
    bool store(const Key& k, const std::vector<uint32_t>& all) {
      if (all.size() > kMostIds) return false;
      std::memcpy(words, k.words, sizeof(words));
      bytes = k.bytes;
      ids = static_cast<uint8_t>(all.size());
      for (size_t i = 0; i < all.size(); ++i) id[i] = static_cast<int32_t>(all[i]);
      return true;
    }
    void append(std::vector<int32_t>& out) const {
      if (ids == 1)
        out.push_back(id[0]);
      else
        out.insert(out.end(), id, id + ids);
    }
  };
  static_assert(sizeof(Entry) == 64);

  // For short texts a small table: clearing a large one would cost more than it saves.
  void size_for(size_t text_bytes) {
    size_t wanted = 64;
    while (wanted < kEntries && wanted * 16 < text_bytes) wanted *= 4;
    if (wanted > entries_.size()) entries_.assign(wanted, Entry());
  }
  Entry& at(const Key& k) {
    if (entries_.empty()) size_for(0);
    return entries_[k.hash() >> 32 & (entries_.size() - 1)];
  }

 private:
  std::vector<Entry> entries_;
};

}  // namespace tenon::text
