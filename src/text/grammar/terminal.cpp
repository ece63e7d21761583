#include "text/grammar/terminal.h"

#include <algorithm>
#include <deque>

#include "text/grammar/token_trie.h"

namespace tenon::text::grammar {
namespace {

constexpr size_t kMaskBytes = 8u << 20;  // of one terminal, before they are dropped

// Sorts the remainders of tokens into a trie.
Remainders make_remainders(std::vector<std::pair<std::string_view, int32_t>> rest) {
  std::sort(rest.begin(), rest.end());
  rest.erase(std::unique(rest.begin(), rest.end()), rest.end());
  Remainders out;
  std::vector<uint32_t> path;  // the open nodes
  std::string_view previous;
  for (auto& [text, token] : rest) {
    size_t shared = 0;
    while (shared < text.size() && shared < previous.size() && text[shared] == previous[shared]) ++shared;
    while (path.size() > shared) {
      out.nodes[path.back()].skip = static_cast<uint32_t>(out.nodes.size());
      path.pop_back();
    }
    for (size_t i = shared; i < text.size(); ++i) {
      path.push_back(static_cast<uint32_t>(out.nodes.size()));
      auto t = static_cast<uint32_t>(out.tokens.size());
      out.nodes.push_back({0, t, t, static_cast<uint8_t>(text[i]), static_cast<uint8_t>(i)});
    }
    out.tokens.push_back(token);
    out.nodes[path.back()].last_token = static_cast<uint32_t>(out.tokens.size());
    previous = text;
  }
  for (uint32_t n : path) out.nodes[n].skip = static_cast<uint32_t>(out.nodes.size());
  return out;
}

}  // namespace

TokenSet::TokenSet(std::vector<int32_t> ids, size_t words) {
  if (ids.size() < words) {
    ids_ = std::move(ids);
    ids_.shrink_to_fit();
    return;
  }
  dense_.assign(words, 0);
  for (int32_t id : ids) dense_[static_cast<uint32_t>(id) >> 5] |= 1u << (id & 31);
}

TokenSet::TokenSet(std::vector<uint32_t> bits) {
  size_t count = 0;
  for (uint32_t w : bits) count += static_cast<size_t>(__builtin_popcount(w));
  if (count >= bits.size()) {
    dense_ = std::move(bits);
    return;
  }
  ids_.reserve(count);
  for (size_t i = 0; i < bits.size(); ++i)
    for (uint32_t w = bits[i]; w != 0; w &= w - 1) ids_.push_back(static_cast<int32_t>(i * 32 + static_cast<size_t>(__builtin_ctz(w))));
}

size_t LocalMask::bytes() const {
  return sizeof(*this) + inside.bytes() + beyond.nodes.capacity() * sizeof(Remainders::Node) + beyond.tokens.capacity() * 4;
}

Terminal::Terminal(Dfa dfa, const TokenTrie& trie) : dfa_(std::move(dfa)) { find_distances(trie); }

// Breadth first from the accepting states, over bytes that are tokens of their own.
void Terminal::find_distances(const TokenTrie& trie) {
  const uint32_t n = dfa_.states();
  distance_.assign(n, kNever);
  moves_.assign(n, 0);
  for (uint32_t s = 0; s < n; ++s)
    for (uint32_t c = 0; c < dfa_.classes; ++c) moves_[s] |= dfa_.next[s * dfa_.classes + c] != Dfa::kDead;
  std::vector<uint8_t> usable(dfa_.classes, 0);
  for (size_t b = 0; b < 256; ++b)
    if (trie.has_byte(static_cast<uint8_t>(b))) usable[dfa_.byte_class[b]] = 1;
  std::vector<std::vector<uint32_t>> sources(n);
  for (uint32_t s = 0; s < n; ++s)
    for (uint32_t c = 0; c < dfa_.classes; ++c)
      if (uint32_t t = dfa_.next[s * dfa_.classes + c]; t != Dfa::kDead && usable[c]) sources[t & Dfa::kTarget].push_back(s);
  std::deque<uint32_t> todo;
  for (uint32_t s = 0; s < n; ++s)
    if (dfa_.accepting[s]) distance_[s] = 0, todo.push_back(s);
  while (!todo.empty()) {
    uint32_t s = todo.front();
    todo.pop_front();
    for (uint32_t from : sources[s])
      if (distance_[from] == kNever) distance_[from] = distance_[s] + 1, todo.push_back(from);
  }
  if (dfa_.min_count == 0) return;
  // Characters that are still due: one byte each where a character can be one byte, as in all automata that count.
  for (uint32_t s = 0; s < n; ++s)
    for (uint32_t c = 0; c < dfa_.classes; ++c)
      if (uint32_t t = dfa_.next[s * dfa_.classes + c]; usable[c] && t == (s | Dfa::kCounts)) per_character_ = 1;
  if (per_character_ == 0) std::fill(distance_.begin(), distance_.end(), kNever);
}

uint8_t Terminal::nearest_byte(uint32_t state, uint32_t count) const {
  uint8_t best = 0;
  uint64_t least = kNever;
  for (int b = 0; b < 256; ++b) {
    uint32_t s = state, c = count;
    if (!dfa_.step(s, c, static_cast<uint8_t>(b))) continue;
    if (uint64_t d = distance(s, c); d < least) least = d, best = static_cast<uint8_t>(b);
  }
  return best;
}

// Counts that no token of this vocabulary can tell apart get the same mask; `count` becomes their representative.
uint64_t Terminal::key(const TokenTrie& trie, uint32_t state, uint32_t& count) const {
  if (!dfa_.counted()) return state;
  const uint32_t far = trie.longest();
  const uint32_t due = count < dfa_.min_count ? std::min(dfa_.min_count - count, far) : 0;
  const uint32_t left = dfa_.max_count == Dfa::kNoLimit ? far : std::min(dfa_.max_count - count, far);
  return uint64_t{state} << 32 | due << 16 | left;
}

std::shared_ptr<const LocalMask> Terminal::local_mask(const TokenTrie& trie, uint32_t state, uint32_t count) const {
  const uint64_t k = key(trie, state, count);
  {
    std::lock_guard lock(mutex_);
    if (auto it = masks_.find(k); it != masks_.end()) return it->second;
  }
  auto mask = std::make_shared<const LocalMask>(compute(trie, state, count));
  std::lock_guard lock(mutex_);
  if (mask_bytes_ > kMaskBytes) masks_.clear(), mask_bytes_ = 0;
  if (masks_.emplace(k, mask).second) mask_bytes_ += mask->bytes() + 64;
  return mask;
}

LocalMask Terminal::compute(const TokenTrie& trie, uint32_t state, uint32_t count) const {
  struct At {
    uint32_t state, count;
    int open;  // depth of the nearest byte that ended the terminal; -1: none
  };
  std::vector<At> path(TokenTrie::kLongest + 1);
  path[0] = {state, count, -1};
  const auto& nodes = trie.nodes();
  std::vector<int32_t> inside;
  std::vector<std::pair<std::string_view, int32_t>> rest;
  std::vector<int> ends(TokenTrie::kLongest + 1);
  // Below a byte where the terminal may end, tokens live on although the automaton is dead: `dead_above` is the depth
  // from which on it is.
  constexpr int kAlive = 1 << 20;
  int dead_above = kAlive;
  for (uint32_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const int d = node.depth;
    if (dead_above < kAlive && d <= dead_above) dead_above = kAlive;
    const At& from = path[static_cast<size_t>(d)];
    At to = from;
    bool alive = dead_above == kAlive && dfa_.step(to.state, to.count, node.byte);
    if (!alive) {
      if (from.open < 0) {
        i = node.skip;
        continue;
      }
      if (dead_above == kAlive) dead_above = d;
    }
    to.open = from.open;
    if (alive && dfa_.accepts(to.state, to.count)) to.open = d;
    // Where several bytes may end it, all remainders count; they chain through `ends`.
    ends[static_cast<size_t>(d)] = from.open;
    path[static_cast<size_t>(d) + 1] = to;
    for (int32_t t = node.token; t >= 0; t = trie.next_same(t)) {
      if (alive && distance(to.state, to.count) != kNever) {
        inside.push_back(t);
        continue;
      }
      std::string_view text = trie.spelling(t);
      for (int e = from.open; e >= 0; e = ends[static_cast<size_t>(e)])
        rest.emplace_back(text.substr(static_cast<size_t>(e) + 1), t);
    }
    ++i;
  }
  return {TokenSet(std::move(inside), trie.mask_words()), make_remainders(std::move(rest))};
}

void Terminal::warm(const TokenTrie& trie) const {
  constexpr uint32_t kWide = 48, kMost = 32;
  uint32_t warmed = 0;
  for (uint32_t s = 0; s < dfa_.states() && warmed < kMost; ++s) {
    uint32_t live = 0;
    for (size_t b = 0; b < 256; ++b) live += dfa_.next[s * dfa_.classes + dfa_.byte_class[b]] != Dfa::kDead;
    if (live < kWide) continue;
    local_mask(trie, s, 0);
    ++warmed;
    if (dfa_.min_count > 0) local_mask(trie, s, dfa_.min_count), ++warmed;
  }
}

size_t Terminal::memory_bytes() const {
  std::lock_guard lock(mutex_);
  return sizeof(*this) + dfa_.bytes() + distance_.capacity() * 8 + mask_bytes_;
}

}  // namespace tenon::text::grammar
