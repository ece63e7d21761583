// Token strings and ids: one blob of bytes, offsets, and an open-addressing table of ids. No allocation per token.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/hash.h"

namespace tenon::text {

// How tokens are held: as the file spells them, or, for byte-level vocabularies, as the bytes they stand for. Tokens
// that cannot be spelled in the byte alphabet stay as they are ("verbatim").
enum class Spelling { plain, byte_level };

class Vocabulary {
 public:
  static constexpr uint32_t kMaxTokens = 1u << 24;

  int32_t size() const {
    return static_cast<int32_t>(begin_.empty() ? 0 : begin_.size() - 1);
  }  // one past the largest id
  Spelling spelling() const { return spelling_; }
  // The held bytes; "" for a hole or an id out of range.
  std::string_view bytes(int32_t id) const {
    if (static_cast<uint32_t>(id) + 1 >= begin_.size()) return {};
    uint32_t a = begin_[static_cast<uint32_t>(id)], b = begin_[static_cast<uint32_t>(id) + 1];
    return {blob_.data() + a, b - a};
  }
  // The same for an id that is known to be in range.
  std::string_view bytes_unchecked(uint32_t id) const {
    return {blob_.data() + begin_[id], begin_[id + 1] - begin_[id]};
  }
  bool verbatim(int32_t id) const {
    auto i = static_cast<uint32_t>(id);
    return !verbatim_.empty() && (verbatim_[i / 8] >> (i % 8) & 1);
  }
  std::string spelled(int32_t id) const;
  // Appends the held bytes of ids, which are all in range, to `out`.
  void append_bytes(std::span<const int32_t> ids, std::string& out) const;

  // By held bytes, verbatim tokens left out; -1: none.
  int32_t find(std::string_view bytes) const { return find(bytes, false); }
  // By the file's spelling; -1: none.
  int32_t find_spelled(std::string_view token) const;

  size_t memory_bytes() const {
    return blob_.capacity() + begin_.capacity() * sizeof(uint32_t) + slots_.capacity() * sizeof(uint32_t) +
           verbatim_.capacity();
  }

 private:
  friend class VocabularyBuilder;
  int32_t find(std::string_view bytes, bool verbatim_token) const {
    if (slots_.empty()) return -1;
    uint64_t h = hash_bytes(bytes.data(), bytes.size());
    const auto tag = static_cast<uint32_t>(h & 0x7F) << 24;
    for (size_t i = slot_of(h, slots_.size());;) {
      uint32_t slot = slots_[i];
      if (slot == kEmpty) return -1;
      if ((slot & 0x7F000000u) == tag) {
        uint32_t id = slot & 0x00FFFFFFu;
        std::string_view held = bytes_unchecked(id);
        if (held.size() == bytes.size() && same_bytes(held.data(), bytes.data(), bytes.size()) &&
            verbatim(static_cast<int32_t>(id)) == verbatim_token)
          return static_cast<int32_t>(id);
      }
      if (++i == slots_.size()) i = 0;
    }
  }

  static constexpr size_t kSlack = 16;  // bytes behind the last token, so that tokens can be copied 16 bytes at a time
  static constexpr uint32_t kEmpty = 0xFFFFFFFFu;
  Spelling spelling_ = Spelling::plain;
  std::string blob_;
  std::vector<uint32_t> begin_;    // size() + 1
  std::vector<uint32_t> slots_;    // tag << 24 | id
  std::vector<uint8_t> verbatim_;  // a bit per id; empty: none
};

// Collects tokens in any order of ids; holes stay empty.
class VocabularyBuilder {
 public:
  VocabularyBuilder(Spelling spelling, std::string_view source) : source_(source) { v_.spelling_ = spelling; }
  void reserve(size_t tokens, size_t bytes);
  // `token` as the file spells it (valid UTF-8), or raw bytes with add_bytes. Throws Error{invalid_file} for an id or a
  // total that is too large. A second token with the same id replaces the first.
  void add(uint32_t id, std::string_view token);
  void add_bytes(uint32_t id, std::string_view bytes);
  Vocabulary finish();

 private:
  struct Entry {
    uint32_t id, begin, end;
  };
  void note(uint32_t id, size_t begin, bool verbatim);
  void fill_slots(uint32_t n);
  static constexpr uint32_t kNone = 0xFFFFFFFFu;
  std::string_view source_;
  Vocabulary v_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> verbatim_ids_;
  bool ascending_ = true;
};

}  // namespace tenon::text
