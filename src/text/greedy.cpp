#include "text/greedy.h"

namespace tenon::text {

Greedy::Greedy(std::shared_ptr<const Vocabulary> vocabulary, int32_t unk_id)
    : vocabulary_(std::move(vocabulary)), unk_id_(unk_id) {
  std::vector<std::pair<std::string_view, int32_t>> keys;
  for (int32_t id = 0; id < vocabulary_->size(); ++id)
    if (!vocabulary_->verbatim(id) && id != unk_id) keys.push_back({vocabulary_->bytes(id), id});
  trie_.build(std::move(keys));
}

void Greedy::encode(std::string_view piece, std::vector<int32_t>& out, ModelScratch&) const {
  for (size_t at = 0; at < piece.size();) {
    size_t longest = 0;
    int32_t id = unk_id_;
    trie_.prefixes(piece.substr(at), [&](size_t length, int32_t found) { longest = length, id = found; });
    if (id >= 0) out.push_back(id);
    at += longest ? longest : 1;
  }
}

}  // namespace tenon::text
