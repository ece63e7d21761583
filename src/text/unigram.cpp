#include "text/unigram.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "text/unicode.h"

namespace tenon::text {
namespace {

constexpr double kUnknownPenalty = 10.0;
constexpr uint32_t kNone = ~0u;

}  // namespace

Unigram::Unigram(UnigramOptions options, std::shared_ptr<const Vocabulary> vocabulary, std::vector<double> scores)
    : options_(options), vocabulary_(std::move(vocabulary)), scores_(std::move(scores)) {
  std::vector<std::pair<std::string_view, int32_t>> keys;
  keys.reserve(scores_.size());
  for (int32_t id = 0; id < vocabulary_->size(); ++id) keys.push_back({vocabulary_->bytes(id), id});
  trie_.build(std::move(keys));
  double least = std::numeric_limits<double>::infinity();
  for (double s : scores_) least = std::min(least, s);
  unk_score_ = least - kUnknownPenalty;
  if (!options_.byte_fallback) return;
  for (int b = 0; b < 256; ++b) {
    int32_t id = vocabulary_->find(fmt::format("<0x{:02X}>", b));
    byte_ids_.push_back(id);
  }
}

void Unigram::append_unknown(std::string_view text, std::vector<int32_t>& out) const {
  bool bytes = !byte_ids_.empty() &&
               std::all_of(text.begin(), text.end(), [&](char c) { return byte_ids_[static_cast<uint8_t>(c)] >= 0; });
  if (!bytes) {
    out.push_back(options_.unk_id);
    return;
  }
  for (char c : text) out.push_back(byte_ids_[static_cast<uint8_t>(c)]);
}

void Unigram::encode(std::string_view piece, std::vector<int32_t>& out, ModelScratch&) const {
  struct Best {
    double score = 0;
    uint32_t begin = kNone;
    int32_t id = -1;
  };
  if (piece.size() >= kNone)
    fail(ErrorCode::invalid_argument, "a text of {} bytes is too long for one piece", piece.size());
  std::vector<Best> best(piece.size() + 1);
  auto offer = [&](size_t begin, size_t length, double score, int32_t id) {
    Best& b = best[begin + length];
    double total = best[begin].score + score;
    if (b.begin == kNone || total > b.score) b = {total, static_cast<uint32_t>(begin), id};
  };
  for (size_t at = 0; at < piece.size();) {
    size_t character = decode_utf8(piece.data() + at).bytes;
    bool single = false;
    trie_.prefixes(piece.substr(at), [&](size_t length, int32_t id) {
      offer(at, length, scores_[static_cast<size_t>(id)], id);
      single = single || length == character;
    });
    if (!single) {
      if (options_.unk_id < 0)
        fail(ErrorCode::invalid_argument, "the vocabulary has no unknown token, and the text has an unknown character");
      offer(at, character, unk_score_, options_.unk_id);
    }
    at += character;
  }
  std::vector<std::pair<uint32_t, uint32_t>> path;
  for (auto end = static_cast<uint32_t>(piece.size()); end > 0; end = best[end].begin)
    path.push_back({best[end].begin, end});
  std::reverse(path.begin(), path.end());
  for (size_t i = 0; i < path.size(); ++i) {
    auto [begin, end] = path[i];
    int32_t id = best[end].id;
    if (id == options_.unk_id) {
      while (i + 1 < path.size() && best[path[i + 1].second].id == options_.unk_id) end = path[++i].second;
      // A run of unknown characters is looked up as one string.
      id = vocabulary_->find(piece.substr(begin, end - begin));
      if (id < 0) {
        append_unknown(piece.substr(begin, end - begin), out);
        continue;
      }
    }
    out.push_back(id);
  }
}

}  // namespace tenon::text
