// WordPiece: the longest known prefix of a word, then of the rest with a prefix, and so on; all or nothing.
#pragma once
#include "text/model.h"
#include "text/vocabulary.h"

namespace tenon::text {

struct WordPieceOptions {
  std::string unk_token = "[UNK]", prefix = "##";
  size_t max_characters = 100;  // a longer word is unknown
};

class WordPiece final : public TokenModel {
 public:
  WordPiece(WordPieceOptions options, std::shared_ptr<const Vocabulary> vocabulary);
  void encode(std::string_view word, std::vector<int32_t>& out, ModelScratch& scratch) const override;
  std::string name() const override { return "WordPiece"; }
  size_t memory_bytes() const override { return sizeof(*this); }

 private:
  WordPieceOptions options_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  int32_t unk_id_;
  size_t longest_ = 0;  // token, in bytes
};

}  // namespace tenon::text
