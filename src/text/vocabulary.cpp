#include "text/vocabulary.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "text/byte_alphabet.h"

namespace tenon::text {

std::string Vocabulary::spelled(int32_t id) const {
  std::string_view b = bytes(id);
  if (b.empty() || spelling_ == Spelling::plain || verbatim(id)) return std::string(b);
  std::string out;
  append_spelling(out, b);
  return out;
}

// Most tokens are short: a fixed-size copy beats a call.
void Vocabulary::append_bytes(std::span<const int32_t> ids, std::string& out) const {
  size_t total = out.size(), from = out.size();
  for (int32_t id : ids) total += bytes_unchecked(static_cast<uint32_t>(id)).size();
  out.resize(total + kSlack);
  char* to = out.data() + from;
  for (int32_t id : ids) {
    std::string_view token = bytes_unchecked(static_cast<uint32_t>(id));
    std::memcpy(to, token.data(), kSlack);
    if (token.size() > kSlack) std::memcpy(to, token.data(), token.size());
    to += token.size();
  }
  out.resize(total);
}

int32_t Vocabulary::find_spelled(std::string_view token) const {
  if (spelling_ == Spelling::plain) return find(token, false);
  if (auto bytes = bytes_of_spelling(token)) return find(*bytes, false);
  return find(token, true);
}

void VocabularyBuilder::reserve(size_t tokens, size_t bytes) {
  entries_.reserve(tokens);
  v_.blob_.reserve(bytes);
}

void VocabularyBuilder::note(uint32_t id, size_t begin, bool verbatim) {
  if (id >= Vocabulary::kMaxTokens)
    fail(ErrorCode::invalid_file, "{}: token id {} is larger than {}", source_, id, Vocabulary::kMaxTokens - 1);
  if (v_.blob_.size() > 0xFFFFFFF0u) fail(ErrorCode::invalid_file, "{}: the vocabulary is larger than 4 GiB", source_);
  ascending_ = ascending_ && (entries_.empty() ? id == 0 : id == entries_.back().id + 1);
  entries_.push_back({id, static_cast<uint32_t>(begin), static_cast<uint32_t>(v_.blob_.size())});
  if (verbatim) verbatim_ids_.push_back(id);
}

void VocabularyBuilder::add(uint32_t id, std::string_view token) {
  size_t begin = v_.blob_.size();
  bool verbatim = v_.spelling_ == Spelling::byte_level && !append_bytes_of_spelling(v_.blob_, token);
  if (v_.spelling_ == Spelling::plain || verbatim) v_.blob_.append(token);
  note(id, begin, verbatim);
}

void VocabularyBuilder::add_bytes(uint32_t id, std::string_view bytes) {
  size_t begin = v_.blob_.size();
  v_.blob_.append(bytes);
  note(id, begin, false);
}

Vocabulary VocabularyBuilder::finish() {
  uint32_t n = 0;
  for (const Entry& e : entries_) n = std::max(n, e.id + 1);
  // A few tokens with huge ids would be tables of nothing.
  if (n > 64 * entries_.size() + (1u << 16))
    fail(ErrorCode::invalid_file, "{}: token id {} is far beyond the {} tokens there are", source_, n - 1,
         entries_.size());
  v_.begin_.assign(n + 1, 0);
  if (ascending_) {
    for (const Entry& e : entries_) v_.begin_[e.id + 1] = e.end;
  } else {
    std::vector<uint32_t> of(n, kNone);
    for (uint32_t i = 0; i < entries_.size(); ++i) of[entries_[i].id] = i;
    std::string sorted;
    sorted.reserve(v_.blob_.size());
    for (uint32_t id = 0; id < n; ++id) {
      if (of[id] != kNone)
        sorted.append(v_.blob_, entries_[of[id]].begin, entries_[of[id]].end - entries_[of[id]].begin);
      v_.begin_[id + 1] = static_cast<uint32_t>(sorted.size());
    }
    v_.blob_ = std::move(sorted);
  }
  v_.blob_.append(Vocabulary::kSlack, '\0');
  v_.blob_.shrink_to_fit();
  if (!verbatim_ids_.empty()) {
    v_.verbatim_.assign(n / 8 + 1, 0);
    for (uint32_t id : verbatim_ids_) v_.verbatim_[id / 8] |= static_cast<uint8_t>(1u << (id % 8));
  }
  entries_ = {};
  fill_slots(n);
  return std::move(v_);
}

void VocabularyBuilder::fill_slots(uint32_t n) {
  v_.slots_.assign(n + n / 3 + 2, Vocabulary::kEmpty);
  for (uint32_t id = 0; id < n; ++id) {
    std::string_view b = v_.bytes_unchecked(id);
    if (b.empty()) continue;
    uint64_t h = hash_bytes(b.data(), b.size());
    size_t i = slot_of(h, v_.slots_.size());
    while (v_.slots_[i] != Vocabulary::kEmpty) i = i + 1 == v_.slots_.size() ? 0 : i + 1;
    v_.slots_[i] = static_cast<uint32_t>(h & 0x7F) << 24 | id;
  }
}

}  // namespace tenon::text
