// The stage that turns a piece of prepared text into ids.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/piece_cache.h"

namespace tenon::text {

// Buffers reused from piece to piece within one encode call.
struct ModelScratch {
  PieceCache cache;
  std::vector<uint32_t> ids;
  std::vector<uint64_t> keys;
  struct Link {
    int32_t previous, next;
    uint32_t id;
  };
  std::vector<Link> links;
  struct Candidate {
    uint64_t key;  // least first
    int32_t at;
  };
  std::vector<Candidate> heap;
};

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Appends the ids of `piece`: valid UTF-8, or the bytes themselves for byte-level vocabularies. Throws
  // Error{invalid_argument} where the reference refuses the text (no unknown token).
  virtual void encode(std::string_view piece, std::vector<int32_t>& out, ModelScratch& scratch) const = 0;
  // The pieces that `lengths` cut off the start of `text`, one after the other: the same as encode() of each, with less
  // between them.
  static constexpr size_t kMostPieces = 256;
  virtual void encode_pieces(std::string_view text, std::span<const uint32_t> lengths, std::vector<int32_t>& out,
                             ModelScratch& scratch) const {
    for (uint32_t n : lengths) {
      encode(text.substr(0, n), out, scratch);
      text.remove_prefix(n);
    }
  }
  virtual std::string name() const = 0;
  virtual size_t memory_bytes() const = 0;  // without the vocabulary
};

}  // namespace tenon::text
