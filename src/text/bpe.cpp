#include "text/bpe.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "text/byte_alphabet.h"
#include "text/character_seeds.h"
#include "text/unicode.h"

namespace tenon::text {
namespace {

// Up to here scanning for the least key beats a heap.
constexpr size_t kShortPiece = 100;

std::string byte_token(int byte) { return fmt::format("<0x{:02X}>", byte); }

}  // namespace

void MergeTable::reserve(size_t merges) {
  if (merges > kMost)
    fail(ErrorCode::invalid_file, "{} merges are more than the {} a vocabulary may have", merges, kMost);
  slots_.assign(merges + merges / 3 + 2, Slot());
  size_t words = 1;
  while (words * 64 < merges * 6) words *= 2;
  filter_.assign(words, 0);
  filter_mask_ = words * 64 - 1;
}

void MergeTable::add(uint32_t left, uint32_t right, uint32_t rank, uint32_t merged) {
  const uint64_t h = hash(left, right);
  size_t i = slot_of(h, slots_.size());
  while (!slots_[i].empty() && !(slots_[i].left() == left && slots_[i].right() == right))
    i = i + 1 == slots_.size() ? 0 : i + 1;
  slots_[i] = {{left | rank << 24, right | rank >> 8 << 24, merged | rank >> 16 << 24}};
  filter_[(h & filter_mask_) / 64] |= uint64_t{1} << (h % 64);
}

bool MergeReader::try_add(MergeTable& table, std::string_view left, std::string_view right, uint32_t rank) {
  std::string_view tail = right;
  if (!prefix_.empty()) tail.remove_prefix(std::min(prefix_.size(), tail.size()));  // the reference cuts without a look
  int32_t a, b, ab;
  merged_.clear();
  size_t cut = 0;
  const bool bytes = vocabulary_.spelling() == Spelling::byte_level && prefix_.empty();
  if (bytes && append_bytes_of_spelling(merged_, left) &&
      (cut = merged_.size(), append_bytes_of_spelling(merged_, right))) {
    std::string_view all = merged_;
    a = vocabulary_.find(all.substr(0, cut)), b = vocabulary_.find(all.substr(cut)), ab = vocabulary_.find(all);
  } else {
    merged_.assign(left);
    merged_ += tail;
    a = vocabulary_.find_spelled(left), b = vocabulary_.find_spelled(right), ab = vocabulary_.find_spelled(merged_);
  }
  if (a < 0 || b < 0 || ab < 0) return false;
  table.add(static_cast<uint32_t>(a), static_cast<uint32_t>(b), rank, static_cast<uint32_t>(ab));
  return true;
}

void MergeReader::add(MergeTable& table, std::string_view left, std::string_view right, uint32_t rank) {
  if (!try_add(table, left, right, rank))
    fail(ErrorCode::invalid_file, "{}: merge {} ({} {}) uses or makes a token that is not in the vocabulary", source_,
         rank, printable(left), printable(right));
}

void MergeReader::add_line(MergeTable& table, std::string_view line, uint32_t rank) {
  size_t space = line.find(' ');
  if (space == line.npos || line.find(' ', space + 1) != line.npos)
    fail(ErrorCode::invalid_file, "{}: merge {} is not two tokens with a space between: {}", source_, rank,
         printable(line));
  add(table, line.substr(0, space), line.substr(space + 1), rank);
}

Bpe::Bpe(BpeOptions options, std::shared_ptr<const Vocabulary> vocabulary, MergeTable merges)
    : options_(std::move(options)), vocabulary_(std::move(vocabulary)), merges_(std::move(merges)) {
  const bool byte_level = vocabulary_->spelling() == Spelling::byte_level;
  if (options_.has_unk) unk_id_ = vocabulary_->find_spelled(options_.unk_token);
  if (byte_level) {
    for (std::string* s : {&options_.continuing_prefix, &options_.end_suffix})
      if (auto bytes = bytes_of_spelling(*s)) *s = *bytes;
  }
  plain_bytes_ = byte_level && options_.continuing_prefix.empty() && options_.end_suffix.empty() && !options_.has_unk &&
                 !options_.byte_fallback;
  byte_ids_.fill(-1);
  for (int b = 0; b < 256; ++b) {
    char c = static_cast<char>(b);
    byte_ids_[static_cast<size_t>(b)] =
        plain_bytes_ ? vocabulary_->find({&c, 1}) : vocabulary_->find_spelled(byte_token(b));
  }
  if (plain_bytes_) seeds_ = CharacterSeeds::make(*vocabulary_, merges_, byte_ids_);
  for (int32_t id = 0; id < vocabulary_->size(); ++id) longest_ = std::max(longest_, vocabulary_->bytes(id).size());
  most_cached_ = std::clamp<size_t>(static_cast<size_t>(vocabulary_->size()) * 3 / 10, 64, 40000);
  whole_ = std::make_unique<std::atomic<uint8_t>[]>(static_cast<uint32_t>(vocabulary_->size()));
}

Bpe::~Bpe() = default;

size_t Bpe::memory_bytes() const {
  return PieceCache::bytes(most_cached_) + merges_.memory_bytes() + (seeds_ ? seeds_->memory_bytes() : 0) +
         static_cast<size_t>(vocabulary_->size()) + sizeof(*this);
}

// Pieces that are met again take the short way: the cache is asked for many of them before the first is needed, and
// their ids go to a buffer by copies of a fixed size.
class Bpe::Writer {
 public:
  Writer(const Bpe& model, const char* text, size_t size, std::vector<int32_t>& out, ModelScratch& scratch)
      : model_(model), out_(out), scratch_(scratch), from_(text), to_(text), end_(text + size) {
    scratch.cache.grow(model.most_cached_);
  }

  // The next `n` bytes of the text are a piece.
  void add(uint32_t n) {
    if (pieces_ == kMostPieces) flush();
    keys_[pieces_] = PieceCache::Brief::Key({to_, n}, static_cast<size_t>(end_ - to_));
    expected_[pieces_] = {scratch_.cache.brief.expect(keys_[pieces_]), n, -1};
    to_ += n;
    ++pieces_;
  }
  // The same, where it is known to become `id`.
  void add_known(uint32_t n, int32_t id) {
    if (pieces_ == kMostPieces) flush();
    expected_[pieces_++] = {0, n, id};
    to_ += n;
  }
  // Words of three-byte characters are seldom met again, but their segments are.
  void add_segments(uint32_t n) {
    CharacterSeeds::Segment segments[CharacterSeeds::kMostSegments];
    for (std::string_view piece(to_, n); !piece.empty();) {
      const size_t count = model_.seeds_->segments(piece, segments);
      for (size_t i = 0; i < count; ++i)
        segments[i].id < 0 ? add(segments[i].bytes) : add_known(segments[i].bytes, segments[i].id);
    }
  }
  void flush() {
    int32_t* to = ids_;
    auto write = [&] {
      out_.insert(out_.end(), ids_, to);
      to = ids_;
    };
    for (size_t i = 0; i < pieces_; from_ += expected_[i++].bytes) {
      const auto& [hash, n, id] = expected_[i];
      if (id >= 0) {
        *to++ = id;
      } else if (n > PieceCache::Brief::kMostBytes) {
        write();
        encode_long({from_, n}, static_cast<size_t>(end_ - from_));
      } else if (const auto* e = scratch_.cache.brief.find(keys_[i], hash)) {
        std::memcpy(to, e->id, sizeof(e->id));
        to += e->ids;
      } else {
        write();
        encode_new({from_, n}, keys_[i], hash);
      }
    }
    write();
    pieces_ = 0;
  }

 private:
  [[gnu::noinline]] void encode_new(std::string_view piece, const PieceCache::Brief::Key& key, uint64_t hash) {
    model_.encode_piece(piece, scratch_);
    scratch_.cache.brief.store(key, hash, scratch_.ids);
    out_.insert(out_.end(), scratch_.ids.begin(), scratch_.ids.end());
  }
  [[gnu::noinline]] void encode_long(std::string_view piece, size_t readable);

  const Bpe& model_;
  std::vector<int32_t>& out_;
  ModelScratch& scratch_;
  const char *from_, *to_, *end_;  // pieces that wait are between the first two
  struct Expected {
    uint64_t hash;
    uint32_t bytes;
    int32_t id;
  };
  size_t pieces_ = 0;
  PieceCache::Brief::Key keys_[kMostPieces];
  Expected expected_[kMostPieces];
  int32_t ids_[PieceCache::Brief::kIds * kMostPieces];
};

void Bpe::Writer::encode_long(std::string_view piece, size_t readable) {
  auto& longer = scratch_.cache.longer;
  if (piece.size() > longer.kMostBytes) {
    model_.encode_piece(piece, scratch_);
  } else {
    const PieceCache::Longer::Key key(piece, readable);
    const uint64_t hash = key.hash();
    if (const auto* e = longer.find(key, hash)) {
      out_.insert(out_.end(), e->id, e->id + e->ids);
      return;
    }
    model_.encode_piece(piece, scratch_);
    longer.store(key, hash, scratch_.ids);
  }
  out_.insert(out_.end(), scratch_.ids.begin(), scratch_.ids.end());
}

void Bpe::encode(std::string_view piece, std::vector<int32_t>& out, ModelScratch& scratch) const {
  const auto length = static_cast<uint32_t>(piece.size());
  if (!piece.empty()) encode_pieces(piece, {&length, 1}, out, scratch);
}

void Bpe::encode_pieces(std::string_view text, std::span<const uint32_t> lengths, std::vector<int32_t>& out,
                        ModelScratch& scratch) const {
  Writer writer(*this, text.data(), text.size(), out, scratch);
  for (uint32_t n : lengths) {
    const bool wide = seeds_ && n > 9 && static_cast<uint8_t>(text[0]) >= 0xE0;
    if (wide && !(options_.ignore_merges && vocabulary_->find(text.substr(0, n)) >= 0))
      writer.add_segments(n);
    else
      writer.add(n);
    text.remove_prefix(n);
  }
  writer.flush();
}

// Leaves the ids in scratch.ids.
void Bpe::encode_piece(std::string_view piece, ModelScratch& scratch) const {
  // Long words of three-byte characters are hardly ever tokens.
  const bool worth_a_look = options_.ignore_merges || piece.size() <= 12 || static_cast<uint8_t>(piece[0]) < 0xE0;
  int32_t id = worth_a_look && piece.size() <= longest_ ? vocabulary_->find(piece) : -1;
  std::atomic<uint8_t>* whole = id >= 0 ? &whole_[static_cast<size_t>(id)] : nullptr;
  bool lines = options_.whole_lines && piece.find_first_not_of('\n') == piece.npos;
  if (whole && (options_.ignore_merges || lines || whole->load(std::memory_order_relaxed) == yes)) {
    scratch.ids.assign(1, static_cast<uint32_t>(id));
    return;
  }
  if (!seeds_ || !seeds_->split(piece, scratch.ids)) split(piece, scratch.ids);
  merge(scratch.ids, scratch);
  if (whole)
    whole->store(scratch.ids.size() == 1 && scratch.ids[0] == static_cast<uint32_t>(id) ? yes : no,
                 std::memory_order_relaxed);
}

void Bpe::split(std::string_view piece, std::vector<uint32_t>& ids) const {
  ids.clear();
  if (plain_bytes_)
    split_bytes(piece, ids);
  else
    split_characters(piece, ids);
}

// A byte without a token vanishes.
void Bpe::split_bytes(std::string_view piece, std::vector<uint32_t>& ids) const {
  for (char c : piece)
    if (int32_t id = byte_ids_[static_cast<uint8_t>(c)]; id >= 0) ids.push_back(static_cast<uint32_t>(id));
}

bool Bpe::append_byte_tokens(std::string_view character, std::vector<uint32_t>& ids) const {
  for (char c : character)
    if (byte_ids_[static_cast<uint8_t>(c)] < 0) return false;
  for (char c : character) ids.push_back(static_cast<uint32_t>(byte_ids_[static_cast<uint8_t>(c)]));
  return true;
}

// Byte-level vocabularies: a unit is a byte; the others: a character. The pending unknown token is written late, after
// byte tokens that follow it, as the reference does.
void Bpe::split_characters(std::string_view piece, std::vector<uint32_t>& ids) const {
  const bool bytes = vocabulary_->spelling() == Spelling::byte_level;
  bool pending = false;
  std::string unit;
  for (size_t at = 0; at < piece.size();) {
    size_t n = bytes ? 1 : decode_utf8(piece.data() + at).bytes;
    unit.clear();
    if (at > 0) unit += options_.continuing_prefix;
    unit.append(piece, at, n);
    if (at + n == piece.size()) unit += options_.end_suffix;
    at += n;
    int32_t id = vocabulary_->find(unit);
    if (id >= 0) {
      if (pending) ids.push_back(static_cast<uint32_t>(unk_id_));
      pending = false;
      ids.push_back(static_cast<uint32_t>(id));
      continue;
    }
    if (options_.byte_fallback && append_byte_tokens(unit, ids)) continue;
    if (!options_.has_unk) continue;
    if (unk_id_ < 0)
      fail(ErrorCode::invalid_argument,
           "the unknown token {} is not in the vocabulary, and the text has a character without a token",
           printable(options_.unk_token));
    if (pending && !options_.fuse_unk) ids.push_back(static_cast<uint32_t>(unk_id_));
    pending = true;
  }
  if (pending) ids.push_back(static_cast<uint32_t>(unk_id_));
}

void Bpe::merge(std::vector<uint32_t>& ids, ModelScratch& scratch) const {
  if (ids.size() < 2) return;
  if (ids.size() <= kShortPiece)
    merge_short(ids, scratch);
  else
    merge_long(ids, scratch);
}

void Bpe::merge_short(std::vector<uint32_t>& ids, ModelScratch& scratch) const {
  std::vector<uint64_t>& keys = scratch.keys;  // of (i, i + 1)
  size_t n = ids.size();
  keys.resize(n);
  for (size_t i = 0; i + 1 < n; ++i) merges_.prefetch(ids[i], ids[i + 1]);
  for (size_t i = 0; i + 1 < n; ++i) keys[i] = merges_.find(ids[i], ids[i + 1]);
  while (n > 1) {
    size_t best = 0;
    uint64_t least = keys[0];
    for (size_t i = 1; i + 1 < n; ++i)
      if (keys[i] < least) least = keys[i], best = i;
    if (least == MergeTable::kNoMerge) break;
    ids[best] = static_cast<uint32_t>(least);
    if (best > 0) merges_.prefetch(ids[best - 1], ids[best]);
    if (best + 2 < n) merges_.prefetch(ids[best], ids[best + 2]);
    --n;
    for (size_t i = best + 1; i < n; ++i) ids[i] = ids[i + 1], keys[i] = keys[i + 1];
    if (best + 1 < n) keys[best] = merges_.find(ids[best], ids[best + 1]);
    if (best > 0) keys[best - 1] = merges_.find(ids[best - 1], ids[best]);
  }
  ids.resize(n);
}

// The pieces are a linked list, candidate merges a heap by (rank, position); stale candidates are recognised by their
// key.
void Bpe::merge_long(std::vector<uint32_t>& ids, ModelScratch& scratch) const {
  auto& links = scratch.links;
  auto& heap = scratch.heap;
  auto n = static_cast<int32_t>(ids.size());
  auto after = [](const ModelScratch::Candidate& a, const ModelScratch::Candidate& b) {
    return a.key >> 32 != b.key >> 32 ? a.key > b.key : a.at > b.at;
  };
  links.resize(ids.size());
  heap.clear();
  for (int32_t i = 0; i < n; ++i)
    links[static_cast<size_t>(i)] = {i - 1, i + 1 < n ? i + 1 : -1, ids[static_cast<size_t>(i)]};
  auto link = [&](int32_t i) -> ModelScratch::Link& { return links[static_cast<size_t>(i)]; };
  auto key_at = [&](int32_t i) {
    return link(i).next < 0 ? MergeTable::kNoMerge : merges_.find(link(i).id, link(link(i).next).id);
  };
  for (int32_t i = 0; i + 1 < n; ++i)
    if (uint64_t key = key_at(i); key != MergeTable::kNoMerge) heap.push_back({key, i});
  std::make_heap(heap.begin(), heap.end(), after);
  auto push = [&](int32_t i) {
    if (uint64_t key = key_at(i); key != MergeTable::kNoMerge) {
      heap.push_back({key, i});
      std::push_heap(heap.begin(), heap.end(), after);
    }
  };
  constexpr uint32_t kGone = ~0u;
  while (!heap.empty()) {
    auto [key, at] = heap.front();
    std::pop_heap(heap.begin(), heap.end(), after);
    heap.pop_back();
    if (link(at).id == kGone || key_at(at) != key) continue;
    int32_t gone = link(at).next, next = link(gone).next;
    link(at).id = static_cast<uint32_t>(key);
    link(at).next = next;
    link(gone).id = kGone;
    if (next >= 0) link(next).previous = at;
    if (link(at).previous >= 0) push(link(at).previous);
    push(at);
  }
  ids.clear();
  for (int32_t i = 0; i >= 0; i = link(i).next) ids.push_back(link(i).id);
}

}  // namespace tenon::text
