#include "text/piece_models.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "text/unicode.h"

namespace tenon::text {
namespace {

constexpr float kUnknownPenalty = 10.0f;
constexpr uint32_t kNone = ~0u;

}  // namespace

PieceUnigram::PieceUnigram(PieceTable table, std::shared_ptr<const Vocabulary> vocabulary)
    : table_(std::move(table)), vocabulary_(std::move(vocabulary)), unknown_(table_, *vocabulary_) {
  std::vector<std::pair<std::string_view, int32_t>> keys;
  float least = std::numeric_limits<float>::max(), most = std::numeric_limits<float>::lowest();
  for (int32_t id = 0; id < vocabulary_->size(); ++id) {
    PieceType type = table_.type(id);
    // Unused pieces are never taken, so they need not be found.
    if (type == PieceType::normal || type == PieceType::user_defined) keys.push_back({vocabulary_->bytes(id), id});
    if (type != PieceType::normal) continue;
    least = std::min(least, table_.score(id));
    most = std::max(most, table_.score(id));
  }
  trie_.build(std::move(keys));
  unk_score_ = least - kUnknownPenalty;
  best_score_ = most;
}

// Sums in single precision: ties fall as in the reference.
void PieceUnigram::encode(std::string_view piece, std::vector<int32_t>& out, ModelScratch&) const {
  struct Best {
    float score = 0;
    uint32_t begin = kNone;
    int32_t id = -1;
  };
  if (piece.size() >= kNone)
    fail(ErrorCode::invalid_argument, "a text of {} bytes is too long for one piece", piece.size());
  std::vector<Best> best(piece.size() + 1);
  auto offer = [&](size_t begin, size_t length, float score, int32_t id) {
    Best& b = best[begin + length];
    float total = score + best[begin].score;
    if (b.begin == kNone || total > b.score) b = {total, static_cast<uint32_t>(begin), id};
  };
  for (size_t at = 0; at < piece.size();) {
    size_t character = decode_utf8(piece.data() + at).bytes;
    bool single = false;
    trie_.prefixes(piece.substr(at), [&](size_t length, int32_t id) {
      // A user-defined piece always wins.
      float score = table_.type(id) == PieceType::user_defined
                        ? static_cast<float>(static_cast<double>(static_cast<float>(length) * best_score_) - 0.1)
                        : table_.score(id);
      offer(at, length, score, id);
      single = single || length == character;
    });
    if (!single) offer(at, character, unk_score_, -1);
    at += character;
  }
  std::vector<std::pair<uint32_t, uint32_t>> path;
  for (auto end = static_cast<uint32_t>(piece.size()); end > 0; end = best[end].begin)
    path.push_back({best[end].begin, end});
  bool after_unknown = false;
  for (auto it = path.rbegin(); it != path.rend(); ++it) {
    int32_t id = best[it->second].id;
    if (id >= 0)
      out.push_back(id);
    else
      unknown_.append(piece.substr(it->first, it->second - it->first), out, after_unknown);
    after_unknown = id < 0 && !unknown_.as_bytes();
  }
}

PieceLookup::PieceLookup(PieceTable table, std::shared_ptr<const Vocabulary> vocabulary, bool words)
    : table_(std::move(table)), vocabulary_(std::move(vocabulary)), unknown_(table_, *vocabulary_), words_(words) {
  if (!words_) user_defined_ = table_.user_defined(*vocabulary_);
}

void PieceLookup::encode(std::string_view text, std::vector<int32_t>& out, ModelScratch&) const {
  constexpr std::string_view kMark = "\xE2\x96\x81";
  bool after_unknown = false;
  for (size_t at = 0; at < text.size();) {
    size_t n = decode_utf8(text.data() + at).bytes;
    StringFinder::Match m;
    if (words_)
      n = std::min(text.find(kMark, at + n), text.size()) - at;
    else if (user_defined_.longest_at(text.substr(at), m))
      n = m.end;
    std::string_view piece = text.substr(at, n);
    int32_t id = vocabulary_->find(piece);
    if (id >= 0 && table_.usable(id))
      out.push_back(id);
    else
      id = -1, unknown_.append(piece, out, after_unknown);
    after_unknown = id < 0 && !unknown_.as_bytes();
    at += n;
  }
}

}  // namespace tenon::text
