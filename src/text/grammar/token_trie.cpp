#include "text/grammar/token_trie.h"

#include <algorithm>

#include "text/grammar/grammar.h"

namespace tenon::text::grammar {

namespace {

// The byte of kSpecialMark as a token, or in one, that is not special.
bool forged(std::string_view s) {
  const bool special = s.size() > 2 && s.front() == kSpecialMark && s.back() == kSpecialMark;
  return !special && s.find(kSpecialMark) != std::string_view::npos;
}

}  // namespace

TokenTrie::TokenTrie(std::vector<std::string> spellings, std::vector<int32_t> end_ids)
    : vocab_size_(static_cast<int32_t>(spellings.size())), end_ids_(std::move(end_ids)) {
  std::sort(end_ids_.begin(), end_ids_.end());
  byte_token_.fill(-1);
  size_t total = 0;
  for (const std::string& s : spellings) total += s.size();
  blob_.reserve(total);
  begin_.reserve(spellings.size() + 1);
  for (const std::string& s : spellings) {
    begin_.push_back(static_cast<uint32_t>(blob_.size()));
    if (!forged(s)) blob_ += s;
  }
  begin_.push_back(static_cast<uint32_t>(blob_.size()));
  std::vector<std::pair<std::string_view, int32_t>> sorted;
  for (int32_t id = 0; id < vocab_size_; ++id) {
    std::string_view s = spelling(id);
    if (s.empty() || s.size() > kLongest || is_end(id)) continue;
    specials_ |= s[0] == kSpecialMark;
    sorted.emplace_back(s, id);
    longest_ = std::max(longest_, static_cast<uint32_t>(s.size()));
    if (s.size() == 1 && byte_token_[static_cast<uint8_t>(s[0])] < 0) byte_token_[static_cast<uint8_t>(s[0])] = id;
  }
  std::sort(sorted.begin(), sorted.end());
  build_nodes(sorted);
}

void TokenTrie::build_nodes(const std::vector<std::pair<std::string_view, int32_t>>& sorted) {
  std::vector<uint32_t> path;
  std::string_view previous;
  for (size_t k = 0; k < sorted.size(); ++k) {
    auto [text, token] = sorted[k];
    if (k > 0 && text == previous) {
      if (same_.empty()) same_.assign(static_cast<size_t>(vocab_size_), -1);
      same_[static_cast<size_t>(sorted[k - 1].second)] = token;
      continue;
    }
    size_t shared = 0;
    while (shared < text.size() && shared < previous.size() && text[shared] == previous[shared]) ++shared;
    for (; path.size() > shared; path.pop_back()) nodes_[path.back()].skip = static_cast<uint32_t>(nodes_.size());
    for (size_t i = shared; i < text.size(); ++i) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({0, -1, static_cast<uint8_t>(text[i]), static_cast<uint8_t>(i)});
    }
    nodes_[path.back()].token = token;
    previous = text;
  }
  for (uint32_t n : path) nodes_[n].skip = static_cast<uint32_t>(nodes_.size());
  nodes_.shrink_to_fit();
}

bool TokenTrie::is_end(int32_t id) const { return std::binary_search(end_ids_.begin(), end_ids_.end(), id); }

std::string_view TokenTrie::spelling(int32_t id) const {
  auto i = static_cast<size_t>(id);
  return std::string_view(blob_).substr(begin_[i], begin_[i + 1] - begin_[i]);
}

int32_t TokenTrie::longest_prefix(std::string_view text) const {
  int32_t best = -1;
  for (uint32_t i = 0; i < nodes_.size();) {
    const size_t at = nodes_[i].depth;
    if (at >= text.size()) break;
    if (nodes_[i].byte != static_cast<uint8_t>(text[at])) {
      // Siblings are sorted: behind the last one the walk would climb, and what is there does not match.
      if (nodes_[i].byte > static_cast<uint8_t>(text[at])) break;
      const uint32_t next = nodes_[i].skip;
      if (next >= nodes_.size() || nodes_[next].depth != at) break;
      i = next;
      continue;
    }
    if (nodes_[i].token >= 0) best = nodes_[i].token;
    ++i;
    if (i >= nodes_.size() || nodes_[i].depth != at + 1) break;
  }
  return best;
}

bool TokenTrie::has_special(std::string_view name) const {
  const std::string marked = special_spelling(name);
  const int32_t token = longest_prefix(marked);
  return token >= 0 && spelling(token).size() == marked.size();
}

std::shared_ptr<const TokenTrie> TokenTrie::build(const Tokenizer& tokenizer) {
  std::vector<std::string> spellings(static_cast<size_t>(tokenizer.vocab_size()));
  tokenizer.spell_tokens([&](int32_t id, std::string_view bytes) {
    spellings[static_cast<size_t>(id)] =
        tokenizer.is_special(id) ? special_spelling(tokenizer.token(id)) : std::string(bytes);
  });
  return std::make_shared<const TokenTrie>(std::move(spellings), tokenizer.eos_ids());
}

std::shared_ptr<const Terminal> TokenTrie::terminal(Dfa dfa) const {
  constexpr size_t kMost = 4096, kMostWalkBytes = size_t{32} << 20, kLook = 64;
  std::string key = dfa.key();
  const std::string shared_key = key.substr(0, key.size() - 8) + (dfa.counted() ? '#' : ' ');  // without the bounds
  std::lock_guard lock(mutex_);
  if (auto it = terminals_.find(key); it != terminals_.end()) return it->second;
  if (++made_ % kLook == 0) {
    size_t bytes = 0;
    for (const auto& [k, w] : walks_) bytes += w->memory_bytes();
    if (terminals_.size() >= kMost || bytes > kMostWalkBytes) {
      std::erase_if(terminals_, [](const auto& t) { return t.second.use_count() == 1; });
      std::erase_if(walks_, [](const auto& w) { return w.second.use_count() == 1; });
    }
  }
  auto& walks = walks_[shared_key];
  if (!walks) walks = std::make_shared<const Walks>(dfa, *this);
  auto t = std::make_shared<const Terminal>(std::move(dfa), walks);
  terminals_.emplace(std::move(key), t);
  return t;
}

size_t TokenTrie::memory_bytes() const {
  size_t n = blob_.capacity() + begin_.capacity() * 4 + nodes_.capacity() * sizeof(Node) + same_.capacity() * 4;
  std::lock_guard lock(mutex_);
  for (const auto& [key, t] : terminals_) n += key.capacity() + t->memory_bytes();
  for (const auto& [key, w] : walks_) n += key.capacity() + w->memory_bytes();
  return n;
}

}  // namespace tenon::text::grammar
