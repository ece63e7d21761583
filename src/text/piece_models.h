// SentencePiece's other models: Unigram in single precision, characters, words.
#pragma once
#include "text/prefix_trie.h"
#include "text/score_bpe.h"

namespace tenon::text {

class PieceUnigram final : public TokenModel {
 public:
  PieceUnigram(PieceTable table, std::shared_ptr<const Vocabulary> vocabulary);
  void encode(std::string_view piece, std::vector<int32_t>& out, ModelScratch& scratch) const override;
  std::string name() const override { return "Unigram"; }
  size_t memory_bytes() const override { return sizeof(*this) + table_.memory_bytes() + trie_.memory_bytes(); }

 private:
  PieceTable table_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  UnknownWriter unknown_;
  PrefixTrie trie_;
  float unk_score_ = 0, best_score_ = 0;
};

// Every character, or every word that starts at U+2581, is a piece or unknown.
class PieceLookup final : public TokenModel {
 public:
  PieceLookup(PieceTable table, std::shared_ptr<const Vocabulary> vocabulary, bool words);
  void encode(std::string_view piece, std::vector<int32_t>& out, ModelScratch& scratch) const override;
  std::string name() const override { return words_ ? "Word" : "Char"; }
  size_t memory_bytes() const override { return sizeof(*this) + table_.memory_bytes(); }

 private:
  PieceTable table_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  UnknownWriter unknown_;
  StringFinder user_defined_;
  bool words_;
};

}  // namespace tenon::text
