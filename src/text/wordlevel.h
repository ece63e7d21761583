// Whole pieces looked up in the vocabulary.
#pragma once
#include "text/model.h"
#include "text/vocabulary.h"

namespace tenon::text {

class WordLevel final : public TokenModel {
 public:
  WordLevel(std::shared_ptr<const Vocabulary> vocabulary, std::string_view unk_token)
      : vocabulary_(std::move(vocabulary)), unk_id_(vocabulary_->find_spelled(unk_token)) {}
  void encode(std::string_view piece, std::vector<int32_t>& out, ModelScratch& scratch) const override;
  std::string name() const override { return "WordLevel"; }
  size_t memory_bytes() const override { return sizeof(*this); }

 private:
  std::shared_ptr<const Vocabulary> vocabulary_;
  int32_t unk_id_;
};

}  // namespace tenon::text
