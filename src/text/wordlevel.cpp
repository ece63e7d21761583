#include "text/wordlevel.h"

#include "base/error.h"

namespace tenon::text {

void WordLevel::encode(std::string_view piece, std::vector<int32_t>& out, ModelScratch&) const {
  int32_t id = vocabulary_->find(piece);
  if (id < 0) id = unk_id_;
  if (id < 0)
    fail(ErrorCode::invalid_argument, "{} is not in the vocabulary, which has no unknown token", printable(piece));
  out.push_back(id);
}

}  // namespace tenon::text
