// Ids of pieces met lately: bounded, two places of two entries for a key; keys are compared in full, so it never
// changes a result.
#pragma once
#include <algorithm>
#include <array>
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

    Key() {}  // not set
    // `readable`: bytes that may be read from the piece's start on. A piece of more than kMostBytes has no key; what
    // comes out then is of no use.
    Key(std::string_view piece, size_t readable) {
      const size_t n = std::min(piece.size(), sizeof(words));
      char tail[sizeof(words)];
      const char* from = piece.data();
      if (readable < sizeof(words)) {
        std::memset(tail, 0, sizeof(tail));
        std::memcpy(tail, from, n);
        from = tail;
      }
      // Word by word: a wide load of what narrow stores just wrote would wait for them.
      for (size_t w = 0; w < kWords; ++w) {
        uint64_t word, kept;
        std::memcpy(&word, from + 8 * w, 8);
        std::memcpy(&kept, kKept + sizeof(words) - n + 8 * w, 8);
        words[w] = (word & kept) | (w + 1 == kWords ? static_cast<uint64_t>(n) << 56 : 0);
      }
    }
    bool operator==(const Key&) const = default;
    uint64_t hash() const {
      uint64_t h = mix(words[0] ^ 0x9E3779B97F4A7C15, words[1] ^ 0xD6E8FEB86659FD93);
      for (size_t w = 2; w < kWords; w += 2) h = mix(words[w] ^ h, words[w + 1] ^ 0xA0761D6478BD642F);
      return h;
    }

   private:
    // As many ones as a piece has bytes, then zeros, begin sizeof(words) less the piece's size from here.
    static constexpr auto kKeptBytes = [] {
      std::array<uint8_t, 16 * kWords> a{};
      for (size_t i = 0; i < 8 * kWords; ++i) a[i] = 0xFF;
      return a;
    }();
    static constexpr const uint8_t* kKept = kKeptBytes.data();
  };

  struct Entry {
    uint64_t words[kWords] = {};  // all zero: empty
    int32_t id[kMostIds] = {};
    uint32_t ids = 0;
    bool empty() const { return words[kWords - 1] == 0; }
  };

  // The hash of a key, whose first place is asked for ahead of find(): the table is larger than the near caches.
  uint64_t expect(const Key& k) const {
    const uint64_t h = k.hash();
    __builtin_prefetch(&sets_[first(h)]);
    return h;
  }
  // nullptr: not here.
  const Entry* find(const Key& k, uint64_t hash) const {
    for (size_t at : {first(hash), second(hash)})
      for (const Entry& e : sets_[at].ways)
        if (std::memcmp(e.words, k.words, sizeof(k.words)) == 0) return &e;
    return nullptr;
  }
  // Too many ids are not kept. Of four full places a random one is taken: of a text that goes round and is a little too
  // large for the table, most stays.
  void store(const Key& k, uint64_t hash, const std::vector<uint32_t>& ids) {
    if (ids.size() > kMostIds) return;
    Set *a = &sets_[first(hash)], *b = &sets_[second(hash)];
    random_ = random_ * 0x5851F42D4C957F2D + 1;
    Entry* e = &(random_ >> 63 ? a : b)->ways[random_ >> 62 & 1];
    for (Entry* free : {&b->ways[1], &b->ways[0], &a->ways[1], &a->ways[0]})
      if (free->empty()) e = free;
    std::memcpy(e->words, k.words, sizeof(k.words));
    e->ids = static_cast<uint32_t>(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) e->id[i] = static_cast<int32_t>(ids[i]);
  }
  // What is here is forgotten.
  void resize(size_t sets) { sets_.assign(sets, Set()); }
  size_t sets() const { return sets_.size(); }
  static constexpr size_t bytes(size_t sets) { return sets * sizeof(Set); }

 private:
  struct alignas(64) Set {
    Entry ways[2];
  };
  size_t first(uint64_t hash) const { return slot_of(hash, sets_.size()); }
  size_t second(uint64_t hash) const { return slot_of(hash << 32, sets_.size()); }
  std::vector<Set> sets_ = std::vector<Set>(1);
  uint64_t random_ = 1;
};

// Grows with the text that was seen: clearing large tables for a short one would cost more than they save.
class PieceCache {
 public:
  using Brief = RecentPieces<2, 3>;    // 32 bytes an entry
  using Longer = RecentPieces<8, 14>;  // 128
  Brief brief;
  Longer longer;

  void expect_text(size_t bytes) { seen_ += bytes; }
  // Before the first piece of a text; to `most` sets of brief ones at the most.
  void grow(size_t most) {
    if (brief.sets() >= most || brief.sets() * kTextOfSet >= seen_) return;
    size_t sets = 64;
    while (sets < most && sets * kTextOfSet < seen_) sets *= 8;
    brief.resize(std::min(sets, most));
    longer.resize(std::min(sets, most) / kBriefOfLonger);
  }
  static size_t bytes(size_t sets) { return Brief::bytes(sets) + Longer::bytes(sets / kBriefOfLonger); }

 private:
  static constexpr size_t kTextOfSet = 32, kBriefOfLonger = 10;
  size_t seen_ = 0;
};

}  // namespace tenon::text
