// The longest token at every place, over bytes (RWKV's "world" vocabularies).
#pragma once
#include "text/model.h"
#include "text/prefix_trie.h"
#include "text/vocabulary.h"

namespace tenon::text {

class Greedy final : public TokenModel {
 public:
  // `unk_id`: for a byte that no token starts with; -1: such a byte vanishes.
  Greedy(std::shared_ptr<const Vocabulary> vocabulary, int32_t unk_id);
  void encode(std::string_view piece, std::vector<int32_t>& out, ModelScratch& scratch) const override;
  std::string name() const override { return "Greedy"; }
  size_t memory_bytes() const override { return sizeof(*this) + trie_.memory_bytes(); }

 private:
  std::shared_ptr<const Vocabulary> vocabulary_;
  PrefixTrie trie_;
  int32_t unk_id_;
};

}  // namespace tenon::text
