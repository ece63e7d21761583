// A faster start for byte-level BPE: whole characters instead of single bytes, where that cannot change the result.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe.h"

namespace tenon::text {

// Where every merge ranks behind the merges that make its parts, BPE applies merges in the order of their ranks. Then a
// character that alone becomes one token becomes that token in any text, unless a merge joins a part of it with what
// lies beside it. Such merges ("crossings") are few; a piece that could meet one starts from its bytes.
class CharacterSeeds {
 public:
  // nullptr: ranks are not in that order, or some byte has no token.
  static std::unique_ptr<CharacterSeeds> make(const Vocabulary& vocabulary, const MergeTable& merges,
                                              const std::array<int32_t, 256>& byte_ids);
  // One id for every character of `piece`; false: start from the bytes.
  bool split(std::string_view piece, std::vector<uint32_t>& ids) const;
  // Stretches of characters that no merge joins with what lies beside them: they can be encoded alone.
  struct Segment {
    uint32_t bytes;
    int32_t id;  // of a segment of one character, if it is a token; else -1
  };
  static constexpr size_t kMostSegments = 64;
  // Writes the first segments of `piece` (not empty) and takes them off; how many.
  size_t segments(std::string_view& piece, Segment (&out)[kMostSegments]) const;
  size_t memory_bytes() const;

 private:
  // Text that ends with `left` and goes on with `right` may meet the merge.
  struct Crossing {
    std::string left, right;
  };
  // A seed: id, flags, and a bit for every group of crossings that the character may be the left, the right side of.
  static constexpr uint64_t kId = (1u << 24) - 1, kKnown = 1u << 24, kOneToken = 1u << 25;
  static constexpr int kLeftShift = 26, kRightShift = 45, kGroups = 19;
  static uint64_t group_of(std::string_view left);  // a bit

  CharacterSeeds(const MergeTable& merges, const std::array<int32_t, 256>& byte_ids);
  void find_crossings(const Vocabulary& vocabulary);
  void find_joins(const Vocabulary& vocabulary);
  struct Character {
    const char* at;
    uint32_t bytes, code;
    uint64_t seed;
  };
  // The first character; false: it is broken, or has no place in the table.
  bool next(std::string_view text, Character& c) const;
  static size_t join_bit(uint32_t left, uint32_t right) {
    return (left * 0x9E3779B1u ^ right * 0x85EBCA77u) >> (32 - kJoinBits);
  }
  static constexpr int kJoinBits = 20;
  uint64_t learn(std::string_view character) const;
  bool may_cross(const Character& left, const Character& right) const;
  bool crossed(std::string_view left, std::string_view right) const;

  const MergeTable& merges_;
  std::array<int32_t, 256> byte_ids_;
  std::vector<Crossing> crossings_;
  std::vector<uint64_t> joins_;  // a bit for every (last, first) characters of the two sides of a merge
  // By code point below 2^16; learnt on the way (any thread, any order: the value is a fact).
  std::unique_ptr<std::atomic<uint64_t>[]> seeds_;
};

}  // namespace tenon::text
