// Byte-pair encoding with a list of merges, as Hugging Face tokenizers' BPE model does it.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/model.h"
#include "text/vocabulary.h"

namespace tenon::text {

// (left id, right id) -> rank and merged id. 24 bits each: a slot is three words, and a filter in front answers for
// most of the pairs that do not merge.
class MergeTable {
 public:
  static constexpr uint64_t kNoMerge = ~uint64_t{0};
  static constexpr uint32_t kMost = (1u << 24) - 1;  // merges; ids and ranks are below

  void reserve(size_t merges);  // before the first add; throws Error{invalid_file} beyond kMost
  // A pair that is there already gets the new rank, as in the reference.
  void add(uint32_t left, uint32_t right, uint32_t rank, uint32_t merged);
  // rank << 32 | merged id, so that the least is the next merge; kNoMerge.
  uint64_t find(uint32_t left, uint32_t right) const {
    const uint64_t h = hash(left, right);
    if (!(filter_[(h & filter_mask_) / 64] >> (h % 64) & 1)) return kNoMerge;
    for (size_t i = slot_of(h, slots_.size());;) {
      const Slot& s = slots_[i];
      if (s.left() == left && s.right() == right) return s.key();
      if (s.empty()) return kNoMerge;
      if (++i == slots_.size()) i = 0;
    }
  }
  // Said ahead of a find(): both tables are larger than the near caches.
  void prefetch(uint32_t left, uint32_t right) const {
    const uint64_t h = hash(left, right);
    __builtin_prefetch(&filter_[(h & filter_mask_) / 64]);
    __builtin_prefetch(slots_.data() + slot_of(h, slots_.size()));
  }
  // Calls f(left, right, rank, merged) for every merge, in no order.
  template <class F>
  void each(F&& f) const {
    for (const Slot& s : slots_)
      if (!s.empty()) f(s.left(), s.right(), s.rank(), s.merged());
  }
  size_t memory_bytes() const { return slots_.capacity() * sizeof(Slot) + filter_.capacity() * sizeof(filter_[0]); }

 private:
  struct Slot {
    uint32_t words[3] = {kMost, ~0u, ~0u};  // low bits: left, right, merged; high bits: the rank, low byte first

    uint32_t left() const { return words[0] & kMost; }
    uint32_t right() const { return words[1] & kMost; }
    uint32_t merged() const { return words[2] & kMost; }
    uint32_t rank() const { return words[0] >> 24 | words[1] >> 24 << 8 | words[2] >> 24 << 16; }
    uint64_t key() const { return static_cast<uint64_t>(rank()) << 32 | merged(); }
    bool empty() const { return words[2] == ~0u; }
  };
  static uint64_t hash(uint32_t left, uint32_t right) {
    return mix(static_cast<uint64_t>(left) << 32 | right, 0x9E3779B97F4A7C15);
  }
  std::vector<Slot> slots_;
  std::vector<uint64_t> filter_ = std::vector<uint64_t>(1);  // a bit for every pair's hash
  uint64_t filter_mask_ = 63;
};

class CharacterSeeds;

// Fills a MergeTable from token strings as a file spells them.
class MergeReader {
 public:
  MergeReader(const Vocabulary& vocabulary, std::string continuing_prefix, std::string_view source)
      : vocabulary_(vocabulary), prefix_(std::move(continuing_prefix)), source_(source) {}
  // Throws Error{invalid_file} when one of the tokens or what they merge to is not in the vocabulary.
  void add(MergeTable& table, std::string_view left, std::string_view right, uint32_t rank);
  // The same, but such a merge is passed over: false.
  bool try_add(MergeTable& table, std::string_view left, std::string_view right, uint32_t rank);
  void add_line(MergeTable& table, std::string_view line, uint32_t rank);  // "left right"

 private:
  const Vocabulary& vocabulary_;
  std::string prefix_;
  std::string_view source_;
  int32_t find(std::string_view token) const { return vocabulary_.find(token); }
  std::string merged_;
};

struct BpeOptions {
  std::string unk_token;  // "": none
  bool has_unk = false;
  std::string continuing_prefix, end_suffix;
  bool fuse_unk = false, byte_fallback = false, ignore_merges = false;
  bool whole_lines = false;  // a piece of line breaks that is a token is taken whole
};

class Bpe final : public TokenModel {
 public:
  Bpe(BpeOptions options, std::shared_ptr<const Vocabulary> vocabulary, MergeTable merges);
  ~Bpe() override;

  void encode(std::string_view piece, std::vector<int32_t>& out, ModelScratch& scratch) const override;
  void encode_pieces(std::string_view text, std::span<const uint32_t> lengths, std::vector<int32_t>& out,
                     ModelScratch& scratch) const override;
  std::string name() const override { return "BPE"; }
  size_t memory_bytes() const override;

 private:
  class Writer;
  enum Whole : uint8_t { unknown, yes, no };
  void split(std::string_view piece, std::vector<uint32_t>& ids) const;
  void split_bytes(std::string_view piece, std::vector<uint32_t>& ids) const;
  void split_characters(std::string_view piece, std::vector<uint32_t>& ids) const;
  // `ids`: one for every unit of `piece`; replaced by what they merge to.
  void merge(std::vector<uint32_t>& ids, ModelScratch& scratch) const;
  void merge_short(std::vector<uint32_t>& ids, ModelScratch& scratch) const;
  void merge_long(std::vector<uint32_t>& ids, ModelScratch& scratch) const;
  void encode_piece(std::string_view piece, ModelScratch& scratch) const;
  bool append_byte_tokens(std::string_view character, std::vector<uint32_t>& ids) const;

  BpeOptions options_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  MergeTable merges_;
  std::unique_ptr<CharacterSeeds> seeds_;  // byte-level vocabularies whose merges allow it
  int32_t unk_id_ = -1;
  size_t most_cached_ = 0;             // sets of the piece cache
  size_t longest_ = 0;                 // bytes of the longest token
  bool plain_bytes_ = false;           // byte-level, no prefix, suffix or unknown token: a byte is its id
  std::array<int32_t, 256> byte_ids_;  // of single bytes (byte-level) or of <0x..> tokens (fallback); -1
  // Whether a token's own bytes encode to that token alone; learnt on the way (any thread, any order: the value is a
  // fact).
  std::unique_ptr<std::atomic<uint8_t>[]> whole_;
};

}  // namespace tenon::text
