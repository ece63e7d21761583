// Ids of pieces met lately in one text: bounded, two ways a set; keys are compared in full, so it never changes a
// result.
#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "text/hash.h"

namespace tenon::text {

// For pieces of up to 8 * kWords - 1 bytes that become up to kMostIds ids.
template <size_t kWords, size_t kMostIds>
class RecentPieces {
 public:
  static constexpr size_t kMostBytes = 8 * kWords - 1, kIds = kMostIds;

  // A piece as words, with zeros behind it and its length in the last byte.
  struct Key {
    uint64_t words[kWords];

    // `readable`: bytes that may be read from the piece's start on.
    Key(std::string_view piece, size_t readable) {
      const size_t n = piece.size();
      if (readable >= sizeof(words)) {
        std::memcpy(words, piece.data(), sizeof(words));
        for (size_t w = 0; w < kWords; ++w) words[w] &= kept(n, w);
      } else {
        std::memset(words, 0, sizeof(words));
        std::memcpy(words, piece.data(), n);
      }
      words[kWords - 1] |= static_cast<uint64_t>(n) << 56;
    }
    bool operator==(const Key&) const = default;
    uint64_t hash() const {
      uint64_t h = mix(words[0] ^ 0x9E3779B97F4A7C15, words[1] ^ 0xD6E8FEB86659FD93);
      for (size_t w = 2; w < kWords; w += 2) h = mix(words[w] ^ h, words[w + 1] ^ 0xA0761D6478BD642F);
      return h;
    }

   private:
    // The bits of word `w` that belong to a piece of `n` bytes.
    static uint64_t kept(size_t n, size_t w) {
      if (n >= 8 * w + 8) return ~uint64_t{0};
      return n <= 8 * w ? 0 : (uint64_t{1} << (8 * (n - 8 * w))) - 1;
    }
  };

  struct Entry {
    uint64_t words[kWords] = {};  // all zero: empty
    int32_t id[kMostIds] = {};
    uint32_t ids = 0;
  };

  // nullptr: not here.
  const Entry* find(const Key& k) const {
    const Set& s = sets_[k.hash() & mask_];
    for (const Entry& e : s.ways)
      if (std::memcmp(e.words, k.words, sizeof(k.words)) == 0) return &e;
    return nullptr;
  }
  // Too many ids are not kept.
  void store(const Key& k, const std::vector<uint32_t>& ids) {
    if (ids.size() > kMostIds) return;
    Set& s = sets_[k.hash() & mask_];
    s.ways[1] = s.ways[0];
    Entry& e = s.ways[0];
    std::memcpy(e.words, k.words, sizeof(k.words));
    e.ids = static_cast<uint32_t>(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) e.id[i] = static_cast<int32_t>(ids[i]);
  }
  // At least `sets`, a power of two; what is here is forgotten when it grows.
  void resize(size_t sets) {
    if (sets <= sets_.size()) return;
    sets_.assign(sets, Set());
    mask_ = sets - 1;
  }

 private:
  struct alignas(64) Set {
    Entry ways[2];
  };
  std::vector<Set> sets_ = std::vector<Set>(1);
  size_t mask_ = 0;
};

struct PieceCache {
  using Brief = RecentPieces<2, 3>;
  Brief brief;  // 32 bytes an entry
  using Longer = RecentPieces<4, 7>;
  Longer longer;  // 64

  // For short texts small tables: clearing large ones would cost more than they save.
  void size_for(size_t text_bytes) {
    size_t sets = 16;
    while (sets < 32768 && sets * 32 < text_bytes) sets *= 4;
    brief.resize(sets);
    longer.resize(sets / 4);
  }
};

}  // namespace tenon::text
