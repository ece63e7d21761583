// Unigram language model: the cut of the text with the best sum of scores (Viterbi).
#pragma once
#include "text/model.h"
#include "text/prefix_trie.h"
#include "text/vocabulary.h"

namespace tenon::text {

struct UnigramOptions {
  int32_t unk_id = -1;  // -1: none
  bool byte_fallback = false;
};

// As Hugging Face tokenizers: scores in double precision, unknown characters fused.
class Unigram final : public TokenModel {
 public:
  Unigram(UnigramOptions options, std::shared_ptr<const Vocabulary> vocabulary, std::vector<double> scores);
  void encode(std::string_view piece, std::vector<int32_t>& out, ModelScratch& scratch) const override;
  std::string name() const override { return "Unigram"; }
  size_t memory_bytes() const override {
    return sizeof(*this) + trie_.memory_bytes() + scores_.capacity() * sizeof(double);
  }

 private:
  void append_unknown(std::string_view text, std::vector<int32_t>& out) const;

  UnigramOptions options_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::vector<double> scores_;  // by id
  PrefixTrie trie_;
  double unk_score_ = 0;
  std::vector<int32_t> byte_ids_;  // of <0x00> ... <0xFF>; empty: the fallback is off or tokens are missing
};

}  // namespace tenon::text
