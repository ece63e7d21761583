#include "text/score_bpe.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "text/unicode.h"

namespace tenon::text {

StringFinder PieceTable::user_defined(const Vocabulary& vocabulary) const {
  std::vector<std::pair<std::string, uint32_t>> strings;
  for (int32_t id = 0; id < vocabulary.size(); ++id)
    if (type(id) == PieceType::user_defined && !vocabulary.bytes(id).empty())
      strings.emplace_back(vocabulary.bytes(id), static_cast<uint32_t>(id));
  StringFinder finder;
  finder.build(std::move(strings));
  return finder;
}

UnknownWriter::UnknownWriter(const PieceTable& table, const Vocabulary& vocabulary)
    : unk_id_(table.unk_id), bytes_(table.byte_fallback) {
  if (!bytes_) return;
  for (int b = 0; b < 256; ++b) {
    byte_ids_.push_back(vocabulary.find_spelled(fmt::format("<0x{:02X}>", b)));
    bytes_ = bytes_ && byte_ids_.back() >= 0;
  }
}

void UnknownWriter::append(std::string_view text, std::vector<int32_t>& out, bool after_unknown) const {
  if (bytes_) {
    for (char c : text) out.push_back(byte_ids_[static_cast<uint8_t>(c)]);
  } else if (!after_unknown) {
    if (unk_id_ < 0)
      fail(ErrorCode::invalid_argument,
           "the vocabulary has no unknown token, and the text has a character without a token");
    out.push_back(unk_id_);
  }
}

ScoreBpe::ScoreBpe(PieceTable table, std::shared_ptr<const Vocabulary> vocabulary)
    : table_(std::move(table)), vocabulary_(std::move(vocabulary)), unknown_(table_, *vocabulary_) {
  user_defined_ = table_.user_defined(*vocabulary_);
  has_unused_ = std::find(table_.types.begin(), table_.types.end(), PieceType::unused) != table_.types.end();
}

// One text under way: symbols are a linked list of spans, candidate joins a heap.
struct ScoreBpe::Run {
  const ScoreBpe& model;
  std::string_view text;

  struct Symbol {
    uint32_t begin, bytes;  // bytes 0: joined to the one before
    int32_t previous, next;
    bool frozen;  // a user-defined piece
  };
  struct Candidate {
    float score;
    int32_t at;
    uint32_t bytes;  // of the joined piece; another length now means that a side has changed
  };
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
  std::unordered_map<std::string_view, std::pair<std::string_view, std::string_view>> parts;  // of unused pieces

  static bool later(const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score < b.score : a.at > b.at;
  }
  Symbol& symbol(int32_t i) { return symbols[static_cast<size_t>(i)]; }

  void offer(int32_t left) {
    if (left < 0 || symbol(left).next < 0) return;
    const Symbol &a = symbol(left), &b = symbol(a.next);
    if (a.frozen || b.frozen) return;
    std::string_view joined = text.substr(a.begin, a.bytes + b.bytes);
    int32_t id = model.vocabulary_->find(joined);
    if (id < 0 || !model.table_.usable(id)) return;
    heap.push_back({model.table_.score(id), left, a.bytes + b.bytes});
    std::push_heap(heap.begin(), heap.end(), later);
    if (model.has_unused_ && model.table_.type(id) == PieceType::unused)
      parts[joined] = {text.substr(a.begin, a.bytes), text.substr(b.begin, b.bytes)};
  }

  void split() {
    for (size_t at = 0; at < text.size();) {
      uint32_t n = decode_utf8(text.data() + at).bytes;
      StringFinder::Match m;
      const bool frozen = model.user_defined_.longest_at(text.substr(at), m);
      if (frozen) n = static_cast<uint32_t>(m.end);
      auto i = static_cast<int32_t>(symbols.size());
      symbols.push_back({static_cast<uint32_t>(at), n, i - 1, i + 1, frozen});
      at += n;
    }
    symbols.back().next = -1;
  }

  void join() {
    for (int32_t i = 0; i < static_cast<int32_t>(symbols.size()); ++i) offer(i);
    while (!heap.empty()) {
      Candidate c = heap.front();
      std::pop_heap(heap.begin(), heap.end(), later);
      heap.pop_back();
      Symbol& a = symbol(c.at);
      if (a.bytes == 0 || a.next < 0 || a.bytes + symbol(a.next).bytes != c.bytes) continue;
      Symbol& b = symbol(a.next);
      a.bytes += b.bytes;
      b.bytes = 0;
      a.next = b.next;
      if (a.next >= 0) symbol(a.next).previous = c.at;
      offer(a.previous);
      offer(c.at);
    }
  }

  // An unused piece is taken apart again the way it was joined.
  void write(std::string_view piece, std::vector<int32_t>& out, bool& after_unknown) const {
    int32_t id = model.vocabulary_->find(piece);
    if (id >= 0 && !model.table_.usable(id)) id = -1;
    if (id >= 0 && model.table_.type(id) == PieceType::unused) {
      if (auto it = parts.find(piece); it != parts.end()) {
        write(it->second.first, out, after_unknown);
        write(it->second.second, out, after_unknown);
        return;
      }
    }
    if (id < 0)
      model.unknown_.append(piece, out, after_unknown);
    else
      out.push_back(id);
    after_unknown = id < 0 && !model.unknown_.as_bytes();
  }
};

void ScoreBpe::encode(std::string_view piece, std::vector<int32_t>& out, ModelScratch&) const {
  if (piece.empty()) return;
  if (piece.size() > 0x7FFFFFFF)
    fail(ErrorCode::invalid_argument, "a text of {} bytes is too long for one piece", piece.size());
  Run run{*this, piece, {}, {}, {}};
  run.split();
  run.join();
  bool after_unknown = false;
  for (int32_t i = 0; i >= 0; i = run.symbol(i).next) {
    const Run::Symbol& s = run.symbol(i);
    run.write(piece.substr(s.begin, s.bytes), out, after_unknown);
  }
}

}  // namespace tenon::text
