#include "text/wordpiece.h"

#include <algorithm>

#include "base/error.h"
#include "text/unicode.h"

namespace tenon::text {

WordPiece::WordPiece(WordPieceOptions options, std::shared_ptr<const Vocabulary> vocabulary)
    : options_(std::move(options)),
      vocabulary_(std::move(vocabulary)),
      unk_id_(vocabulary_->find_spelled(options_.unk_token)) {
  for (int32_t id = 0; id < vocabulary_->size(); ++id) longest_ = std::max(longest_, vocabulary_->bytes(id).size());
}

void WordPiece::encode(std::string_view word, std::vector<int32_t>& out, ModelScratch&) const {
  size_t before = out.size();
  auto unknown = [&] {
    if (unk_id_ < 0)
      fail(ErrorCode::invalid_argument, "the unknown token {} is not in the vocabulary, and {} has no tokens",
           printable(options_.unk_token), printable(word));
    out.resize(before);
    out.push_back(unk_id_);
  };
  if (count_characters(word) > options_.max_characters) return unknown();
  std::string piece;
  for (size_t begin = 0; begin < word.size();) {
    piece = begin ? options_.prefix : "";
    size_t prefix = piece.size();
    piece += word.substr(begin, longest_);
    while (piece.size() > prefix && begin + piece.size() - prefix < word.size() &&
           (static_cast<uint8_t>(word[begin + piece.size() - prefix]) & 0xC0) == 0x80)
      piece.pop_back();  // not inside of a character
    int32_t id = -1;
    while (piece.size() > prefix && (id = vocabulary_->find(piece)) < 0)
      piece.resize(piece.size() - decode_utf8_before(piece.data() + piece.size()).bytes);
    if (id < 0) return unknown();
    out.push_back(id);
    begin += piece.size() - prefix;
  }
}

}  // namespace tenon::text
