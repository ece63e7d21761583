// The stage that turns a piece of prepared text into ids.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/piece_cache.h"

namespace tenon::text {

// Buffers reused from piece to piece and from call to call.
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

  // What one long piece needed is not kept.
  void trim() {
    constexpr size_t kKept = 4096;
    if (ids.capacity() > kKept) ids = {};
    if (keys.capacity() > kKept) keys = {};
    if (links.capacity() > kKept) links = {};
    if (heap.capacity() > kKept) heap = {};
  }
};

// One call's buffers, kept for the next with the pieces that it met. Of calls at the same time one gets them, the
// others start with new ones.
class KeptScratch {
 public:
  ~KeptScratch() { delete kept_.load(); }

  class Lease {
   public:
    explicit Lease(KeptScratch& from) : from_(from), scratch_(from.kept_.exchange(nullptr)) {
      if (!scratch_) scratch_ = std::make_unique<ModelScratch>();
    }
    Lease(const Lease&) = delete;
    ~Lease() {
      scratch_->trim();
      delete from_.kept_.exchange(scratch_.release());
    }
    ModelScratch& operator*() { return *scratch_; }

   private:
    KeptScratch& from_;
    std::unique_ptr<ModelScratch> scratch_;
  };

 private:
  std::atomic<ModelScratch*> kept_{nullptr};
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
  virtual size_t memory_bytes() const = 0;  // without the vocabulary; with the piece cache at its largest
};

}  // namespace tenon::text
