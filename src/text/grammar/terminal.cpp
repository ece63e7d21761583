#include "text/grammar/terminal.h"

#include <algorithm>
#include <array>
#include <deque>
#include <tuple>

#include "text/grammar/token_trie.h"

namespace tenon::text::grammar {
namespace {

// Of one terminal, before they are dropped.
constexpr size_t kMaskBytes = size_t{12} << 20, kWalkBytes = size_t{8} << 20;

struct Beyond {
  std::string_view rest;  // behind the byte that ended the terminal
  Remainders::Token token;
};

// Sorted remainders as a trie.
Remainders make_remainders(const std::vector<Beyond>& sorted) {
  Remainders out;
  std::vector<uint32_t> path;  // the open nodes
  std::string_view previous;
  for (const auto& [text, token] : sorted) {
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

TokenSet::TokenSet(std::vector<uint32_t> bits) {
  size_t count = 0;
  for (uint32_t w : bits) count += static_cast<size_t>(__builtin_popcount(w));
  if (count >= bits.size()) {
    dense_ = std::move(bits);
    return;
  }
  ids_.reserve(count);
  for (size_t i = 0; i < bits.size(); ++i)
    for (uint32_t w = bits[i]; w != 0; w &= w - 1)
      ids_.push_back(static_cast<int32_t>(i * 32 + static_cast<size_t>(__builtin_ctz(w))));
}

size_t Walk::bytes() const {
  return sizeof(*this) + inside.capacity() * 4 + inside_up_to.capacity() * 4 +
         beyond.nodes.capacity() * sizeof(Remainders::Node) + beyond.tokens.capacity() * sizeof(Remainders::Token) +
         branches.capacity() * sizeof(Branch) + closed.capacity() * sizeof(closed[0]);
}

Walks::Walks(const Dfa& dfa, const TokenTrie& trie) {
  const uint32_t n = dfa.states();
  distance_.assign(n, kNever);
  std::vector<uint8_t> usable(dfa.classes, 0);
  for (size_t b = 0; b < 256; ++b)
    if (trie.has_byte(static_cast<uint8_t>(b))) usable[dfa.byte_class[b]] = 1;
  std::vector<std::vector<uint32_t>> sources(n);
  for (uint32_t s = 0; s < n; ++s)
    for (uint32_t c = 0; c < dfa.classes; ++c) {
      uint32_t t = dfa.next[s * dfa.classes + c];
      if (t == Dfa::kDead || !usable[c]) continue;
      sources[t & Dfa::kTarget].push_back(s);
      // In all automata that count, some character is one byte: it leads back to where it began.
      if (t == (s | Dfa::kCounts)) per_character_ = 1;
    }
  std::deque<uint32_t> todo;
  for (uint32_t s = 0; s < n; ++s)
    if (dfa.accepting[s]) distance_[s] = 0, todo.push_back(s);
  while (!todo.empty()) {  // breadth first from the accepting states
    uint32_t s = todo.front();
    todo.pop_front();
    for (uint32_t from : sources[s])
      if (distance_[from] == kNever) distance_[from] = distance_[s] + 1, todo.push_back(from);
  }
}

std::shared_ptr<const Walk> Walks::from(const TokenTrie& trie, const Dfa& dfa, uint32_t state) const {
  {
    std::lock_guard lock(mutex_);
    if (auto it = walks_.find(state); it != walks_.end()) return it->second;
  }
  auto walk = std::make_shared<const Walk>(compute(trie, dfa, state));
  std::lock_guard lock(mutex_);
  if (walk_bytes_ > kWalkBytes) walks_.clear(), walk_bytes_ = 0;
  if (walks_.emplace(state, walk).second) walk_bytes_ += walk->bytes() + 64;
  return walk;
}

Walk Walks::compute(const TokenTrie& trie, const Dfa& dfa, uint32_t state) const {
  struct At {
    uint32_t state;
    int16_t open;  // depth of the nearest byte that ended the terminal; -1: none
    uint16_t characters;
    bool closed;  // a byte came that needs the count to be complete
  };
  std::array<At, TokenTrie::kLongest + 2> path;
  std::array<int16_t, TokenTrie::kLongest + 1> earlier;  // the ending byte before, chained
  path[0] = {state, -1, 0, false};
  const auto& nodes = trie.nodes();
  const bool counted = dfa.counted();
  std::vector<std::pair<uint16_t, int32_t>> inside;
  std::vector<Beyond> beyond;
  Walk out;
  // Below a byte where the terminal may end, tokens live on although the automaton is dead from this depth on.
  constexpr int kAlive = 1 << 20;
  constexpr uint32_t kBranch = 64;
  int dead_from = kAlive;
  for (uint32_t i = 0; i < nodes.size();) {
    const TokenTrie::Node node = nodes[i];
    const int d = node.depth;
    if (d <= dead_from) dead_from = kAlive;
    const At from = path[static_cast<size_t>(d)];
    At to = from;
    bool alive = dead_from == kAlive;
    if (alive) {
      uint32_t t = dfa.next[from.state * dfa.classes + dfa.byte_class[node.byte]];
      alive = t != Dfa::kDead;
      to.state = t & Dfa::kTarget;
      to.characters = static_cast<uint16_t>(from.characters + (t >> 31));
      to.closed = from.closed || (alive && (t & Dfa::kNeedsMin));
    }
    if (!alive) {
      if (from.open < 0) {
        i = node.skip;
        continue;
      }
      dead_from = std::min(dead_from, d);
    } else if (dfa.accepting[to.state]) {
      if (node.skip - i > kBranch)
        out.branches.push_back({i, to.characters});
      else
        to.open = static_cast<int16_t>(d);
    }
    earlier[static_cast<size_t>(d)] = from.open;
    path[static_cast<size_t>(d) + 1] = to;
    ++i;
    for (int32_t t = node.token; t >= 0; t = trie.next_same(t)) {
      const bool ends_inside = alive && distance_[to.state] != kNever;
      if (ends_inside && to.closed)
        out.closed.emplace_back(t, to.characters);
      else if (ends_inside)
        inside.emplace_back(to.characters, t);
      if (ends_inside && !counted) continue;
      std::string_view text = trie.spelling(t);
      for (int e = from.open; e >= 0; e = earlier[static_cast<size_t>(e)])
        beyond.push_back({text.substr(static_cast<size_t>(e) + 1), {t, path[static_cast<size_t>(e) + 1].characters}});
    }
  }
  uint16_t most = 0;
  for (auto& [c, t] : inside) most = std::max(most, c);
  out.inside_up_to.assign(most + 1u, 0);
  for (auto& [c, t] : inside) ++out.inside_up_to[c];
  for (size_t c = 1; c < out.inside_up_to.size(); ++c) out.inside_up_to[c] += out.inside_up_to[c - 1];
  std::vector<uint32_t> place(out.inside_up_to.size(), 0);
  std::copy(out.inside_up_to.begin(), out.inside_up_to.end() - 1, place.begin() + 1);
  out.inside.resize(inside.size());
  for (auto& [c, t] : inside) out.inside[place[c]++] = t;
  std::sort(beyond.begin(), beyond.end(), [](const Beyond& a, const Beyond& b) {
    return std::tie(a.rest, a.token.id) < std::tie(b.rest, b.token.id);
  });
  out.beyond = make_remainders(beyond);
  return out;
}

size_t Walks::memory_bytes() const {
  std::lock_guard lock(mutex_);
  return sizeof(*this) + distance_.capacity() * 8 + walk_bytes_;
}

Terminal::Terminal(Dfa dfa, std::shared_ptr<const Walks> walks) : dfa_(std::move(dfa)), walks_(std::move(walks)) {
  moves_.assign(dfa_.states(), 0);
  for (uint32_t s = 0; s < dfa_.states(); ++s)
    for (uint32_t c = 0; c < dfa_.classes; ++c) moves_[s] |= dfa_.next[s * dfa_.classes + c] != Dfa::kDead;
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

std::shared_ptr<const LocalMask> Terminal::local_mask(const TokenTrie& trie, uint32_t state, uint32_t count) const {
  // Counts that no token of this vocabulary can tell apart get the same mask.
  const uint32_t far = trie.longest();
  const uint32_t due = count < dfa_.min_count ? std::min(dfa_.min_count - count, far) : 0;
  const uint32_t left = dfa_.max_count == Dfa::kNoLimit ? far : std::min(dfa_.max_count - count, far);
  const uint64_t key = uint64_t{state} << 32 | due << 16 | left;
  {
    std::lock_guard lock(mutex_);
    if (auto it = masks_.find(key); it != masks_.end()) return it->second;
  }
  auto mask = std::make_shared<const LocalMask>(compute(trie, state, due, left));
  std::lock_guard lock(mutex_);
  if (mask_bytes_ > kMaskBytes) masks_.clear(), masked_states_.clear(), mask_bytes_ = 0;
  if (masks_.emplace(key, mask).second) mask_bytes_ += mask->bytes() + 64;
  if (masked_states_.insert(state).second) mask_bytes_ += mask->walk->bytes();
  return mask;
}

LocalMask Terminal::compute(const TokenTrie& trie, uint32_t state, uint32_t due, uint32_t left) const {
  std::shared_ptr<const Walk> walk = walks_->from(trie, dfa_, state);
  const auto& up_to = walk->inside_up_to;
  const size_t n = up_to.empty() ? 0 : up_to[std::min<size_t>(left, up_to.size() - 1)];
  std::vector<uint32_t> bits(trie.mask_words(), 0);
  auto set = [&](int32_t id) { bits[static_cast<uint32_t>(id) >> 5] |= 1u << (id & 31); };
  for (size_t i = 0; i < n; ++i) set(walk->inside[i]);
  for (auto [token, characters] : walk->closed)
    if (characters >= due && characters <= left) set(token);
  return {TokenSet(std::move(bits)), std::move(walk), due, left};
}

void Terminal::warm(const TokenTrie& trie) const {
  constexpr uint32_t kMost = 48;
  uint32_t warmed = 0;
  for (uint32_t s = 0; s < dfa_.states() && warmed < kMost; ++s) {
    if (!dfa_.wide(s)) continue;
    local_mask(trie, s, dfa_.min_count);
    ++warmed;
  }
}

size_t Terminal::memory_bytes() const {
  std::lock_guard lock(mutex_);
  return sizeof(*this) + dfa_.bytes() + moves_.capacity() + mask_bytes_;
}

}  // namespace tenon::text::grammar
