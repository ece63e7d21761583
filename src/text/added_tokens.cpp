#include "text/added_tokens.h"

#include <algorithm>

#include "text/unicode.h"

namespace tenon::text {

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  for (uint32_t i = 0; i < tokens_.size(); ++i) by_id_.push_back({tokens_[i].id, i});
  std::stable_sort(by_id_.begin(), by_id_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
}

void AddedTokens::build(const std::vector<std::string>& normalized_contents) {
  std::vector<std::pair<std::string, uint32_t>> raw, normalized;
  for (uint32_t i = 0; i < tokens_.size(); ++i) {
    const std::string& content = tokens_[i].normalized ? normalized_contents[i] : tokens_[i].content;
    if (tokens_[i].shown.empty()) tokens_[i].shown = content;
    if (!content.empty()) (tokens_[i].normalized ? normalized : raw).push_back({content, i});
  }
  raw_.build(std::move(raw));
  normalized_.build(std::move(normalized));
}

const AddedToken* AddedTokens::by_id(int32_t id) const {
  auto it = std::lower_bound(by_id_.begin(), by_id_.end(), std::pair<int32_t, uint32_t>(id, 0));
  return it != by_id_.end() && it->first == id ? &tokens_[it->second] : nullptr;
}

const AddedToken* AddedTokens::by_content(std::string_view content) const {
  for (const AddedToken& t : tokens_)
    if (t.content == content) return &t;
  return nullptr;
}

size_t AddedTokens::memory_bytes() const {
  size_t n = tokens_.capacity() * sizeof(AddedToken) + by_id_.capacity() * sizeof(by_id_[0]) + raw_.memory_bytes() +
             normalized_.memory_bytes();
  for (const AddedToken& t : tokens_)
    for (const std::string* s : {&t.content, &t.shown})
      if (s->capacity() > 15) n += s->capacity() + 1;
  return n;
}

namespace {

bool word_before(std::string_view text, size_t at) {
  return at > 0 && has_flag(decode_utf8_before(text.data() + at).value, kWordAndJoiner);
}
bool word_after(std::string_view text, size_t at) {
  return at < text.size() && has_flag(decode_utf8(text.data() + at).value, kWordAndJoiner);
}

size_t skip_space_before(std::string_view text, size_t at, size_t limit) {
  while (at > limit) {
    CodePoint c = decode_utf8_before(text.data() + at);
    if (!(scan_class(c.value) & kSpace)) break;
    at -= c.bytes;
  }
  return at;
}

size_t skip_space_after(std::string_view text, size_t at) {
  while (at < text.size()) {
    CodePoint c = decode_utf8(text.data() + at);
    if (!(scan_class(c.value) & kSpace)) break;
    at += c.bytes;
  }
  return at;
}

bool touches(std::span<const ContentSpan> content, size_t begin, size_t end) {
  auto it =
      std::upper_bound(content.begin(), content.end(), begin, [](size_t b, const ContentSpan& s) { return b < s.end; });
  return it != content.end() && it->begin < end;
}

}  // namespace

void AddedTokens::cut(std::string_view text, bool normalized, bool parse_special, std::span<const ContentSpan> content,
                      std::vector<Segment>& out) const {
  const StringFinder& finder = normalized ? normalized_ : raw_;
  size_t done = 0, from = 0;
  StringFinder::Match m;
  while (finder.next(text, from, m)) {
    const AddedToken& t = tokens_[m.value];
    from = m.end;
    if (t.special && !parse_special) continue;
    if (t.special && touches(content, m.begin, m.end)) {
      from = m.begin + 1;
      continue;
    }
    if (t.single_word && (word_before(text, m.begin) || word_after(text, m.end))) continue;
    size_t begin = t.lstrip ? std::max(skip_space_before(text, m.begin, 0), done) : m.begin;
    size_t end = t.rstrip ? skip_space_after(text, m.end) : m.end;
    if (done < begin) out.push_back({done, begin, -1});
    out.push_back({begin, end, static_cast<int32_t>(m.value)});
    done = end;
  }
  if (done < text.size()) out.push_back({done, text.size(), -1});
}

}  // namespace tenon::text
