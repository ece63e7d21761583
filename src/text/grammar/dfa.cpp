#include "text/grammar/dfa.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace tenon::text::grammar {
namespace {

struct PairClasses {
  std::array<uint8_t, 256> of_byte{};
  std::vector<std::pair<uint8_t, uint8_t>> pairs;
};

PairClasses pair_classes(const Dfa& a, const Dfa& b) {
  PairClasses out;
  std::map<std::pair<uint8_t, uint8_t>, uint8_t> seen;
  for (int byte = 0; byte < 256; ++byte) {
    auto i = static_cast<size_t>(byte);
    std::pair<uint8_t, uint8_t> p{a.byte_class[i], b.byte_class[i]};
    auto [it, fresh] = seen.try_emplace(p, static_cast<uint8_t>(out.pairs.size()));
    if (fresh) out.pairs.push_back(p);
    out.of_byte[i] = it->second;
  }
  return out;
}

bool joined(Combine how, bool a, bool b) {
  if (how == Combine::both) return a && b;
  if (how == Combine::either) return a || b;
  return a && !b;
}

// Marks the states from which an accepting one can be reached.
std::vector<uint8_t> productive(const Dfa& d) {
  const uint32_t n = d.states();
  std::vector<std::vector<uint32_t>> sources(n);
  for (uint32_t s = 0; s < n; ++s)
    for (uint32_t c = 0; c < d.classes; ++c)
      if (uint32_t t = d.next[s * d.classes + c]; t != Dfa::kDead) sources[t & Dfa::kTarget].push_back(s);
  std::vector<uint8_t> good(n, 0);
  std::vector<uint32_t> todo;
  for (uint32_t s = 0; s < n; ++s)
    if (d.accepting[s]) good[s] = 1, todo.push_back(s);
  while (!todo.empty()) {
    uint32_t s = todo.back();
    todo.pop_back();
    for (uint32_t from : sources[s])
      if (!good[from]) good[from] = 1, todo.push_back(from);
  }
  return good;
}

// Moore's refinement; returns the block of each state. Dead counts as a block of its own.
std::vector<uint32_t> equivalence(const Dfa& d, const std::vector<uint8_t>& good, Meter& meter) {
  const uint32_t n = d.states();
  std::vector<uint32_t> block(n);
  for (uint32_t s = 0; s < n; ++s) block[s] = !good[s] ? 0 : d.accepting[s] ? 2 : 1;
  size_t blocks = 0;
  std::string signature;
  while (true) {
    meter.spend(uint64_t{n} * d.classes);
    std::unordered_map<std::string, uint32_t> ids;
    std::vector<uint32_t> finer(n);
    for (uint32_t s = 0; s < n; ++s) {
      if (!good[s]) {
        finer[s] = 0;
        continue;
      }
      signature.clear();
      auto put = [&](uint32_t v) { signature.append(reinterpret_cast<const char*>(&v), sizeof v); };
      put(block[s]);
      for (uint32_t c = 0; c < d.classes; ++c) {
        uint32_t t = d.next[s * d.classes + c];
        put(t == Dfa::kDead ? 0 : block[t & Dfa::kTarget] | (t & ~Dfa::kTarget));
      }
      finer[s] = ids.try_emplace(signature, static_cast<uint32_t>(ids.size() + 1)).first->second;
    }
    block.swap(finer);
    if (ids.size() == blocks) return block;
    blocks = ids.size();
  }
}

// Joins bytes that no state tells apart.
void compress_classes(Dfa& d) {
  std::map<std::vector<uint32_t>, uint8_t> columns;
  std::vector<uint8_t> renamed(d.classes);
  std::vector<const std::vector<uint32_t>*> order;
  for (uint32_t c = 0; c < d.classes; ++c) {
    std::vector<uint32_t> column(d.states());
    for (uint32_t s = 0; s < d.states(); ++s) column[s] = d.next[s * d.classes + c];
    auto [it, fresh] = columns.try_emplace(std::move(column), static_cast<uint8_t>(order.size()));
    if (fresh) order.push_back(&it->first);
    renamed[c] = it->second;
  }
  std::vector<uint32_t> next(d.states() * order.size());
  for (uint32_t s = 0; s < d.states(); ++s)
    for (size_t c = 0; c < order.size(); ++c) next[s * order.size() + c] = (*order[c])[s];
  // Classes numbered by their first byte, so that equal automata have equal keys.
  std::vector<int> number(order.size(), -1);
  int used = 0;
  for (auto& c : d.byte_class) {
    int& m = number[renamed[c]];
    if (m < 0) m = used++;
    c = static_cast<uint8_t>(m);
  }
  d.classes = static_cast<uint32_t>(used);
  d.next.assign(d.states() * d.classes, Dfa::kDead);
  for (uint32_t s = 0; s < d.states(); ++s)
    for (size_t c = 0; c < order.size(); ++c)
      if (number[c] >= 0) d.next[s * d.classes + static_cast<uint32_t>(number[c])] = next[s * order.size() + c];
}

// Keeps what is reachable, numbered breadth first, states merged by `block`.
Dfa rebuild(const Dfa& d, const std::vector<uint8_t>& good, const std::vector<uint32_t>& block) {
  Dfa out;
  out.byte_class = d.byte_class;
  out.classes = d.classes;
  out.min_count = d.min_count;
  out.max_count = d.max_count;
  if (d.empty() || !good[0]) return out;
  std::unordered_map<uint32_t, uint32_t> ids{{block[0], 0}};
  std::vector<uint32_t> order{0};
  for (size_t i = 0; i < order.size(); ++i) {
    uint32_t s = order[i];
    out.accepting.push_back(d.accepting[s]);
    for (uint32_t c = 0; c < d.classes; ++c) {
      uint32_t t = d.next[s * d.classes + c];
      if (t == Dfa::kDead || !good[t & Dfa::kTarget]) {
        out.next.push_back(Dfa::kDead);
        continue;
      }
      auto [it, fresh] = ids.try_emplace(block[t & Dfa::kTarget], static_cast<uint32_t>(order.size()));
      if (fresh) order.push_back(t & Dfa::kTarget);
      out.next.push_back(it->second | (t & ~Dfa::kTarget));
    }
  }
  compress_classes(out);
  return out;
}

}  // namespace

bool Dfa::matches(std::string_view text) const {
  if (empty()) return false;
  uint32_t state = 0, count = 0;
  for (char c : text)
    if (!step(state, count, static_cast<uint8_t>(c))) return false;
  return accepts(state, count);
}

bool Dfa::wide(uint32_t state) const {
  int live = 0;
  for (char c = 'a'; c <= 'z'; ++c)
    for (int b : {c + 0, c - 'a' + 'A'}) live += next[state * classes + byte_class[static_cast<size_t>(b)]] != kDead;
  return live >= 20;
}

uint32_t Dfa::wide_states() const {
  uint32_t n = 0;
  for (uint32_t s = 0; s < states(); ++s) n += wide(s);
  return n;
}

std::string Dfa::key() const {
  std::string out(reinterpret_cast<const char*>(byte_class.data()), byte_class.size());
  out.append(reinterpret_cast<const char*>(next.data()), next.size() * 4);
  out.append(reinterpret_cast<const char*>(accepting.data()), accepting.size());
  out.append(reinterpret_cast<const char*>(&min_count), 4);
  out.append(reinterpret_cast<const char*>(&max_count), 4);
  return out;
}

Dfa minimize(const Dfa& d, Meter& meter) {
  if (d.empty()) return d;
  // Refinement takes a round per state of the longest chain; long chains have little to merge.
  constexpr uint32_t kLargest = 2000;
  std::vector<uint8_t> good = productive(d);
  std::vector<uint32_t> block(d.states());
  if (d.states() <= kLargest)
    block = equivalence(d, good, meter);
  else
    for (uint32_t s = 0; s < d.states(); ++s) block[s] = s + 1;
  return rebuild(d, good, block);
}

Dfa combine(const Dfa& a, const Dfa& b, Combine how, uint32_t max_states, Meter& meter) {
  TENON_CHECK(!a.counted() && !b.counted());
  PairClasses classes = pair_classes(a, b);
  Dfa out;
  out.byte_class = classes.of_byte;
  out.classes = static_cast<uint32_t>(classes.pairs.size());
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> ids;
  std::vector<std::pair<uint32_t, uint32_t>> order;
  auto id_of = [&](uint32_t p, uint32_t q) {
    if (how == Combine::both && (p == Dfa::kDead || q == Dfa::kDead)) return Dfa::kDead;
    if (how == Combine::either && p == Dfa::kDead && q == Dfa::kDead) return Dfa::kDead;
    if (how == Combine::first_only && p == Dfa::kDead) return Dfa::kDead;
    auto [it, fresh] = ids.try_emplace({p, q}, static_cast<uint32_t>(order.size()));
    if (fresh) order.emplace_back(p, q);
    return it->second;
  };
  if (id_of(a.empty() ? Dfa::kDead : 0, b.empty() ? Dfa::kDead : 0) == Dfa::kDead) return out;
  for (size_t i = 0; i < order.size(); ++i) {
    if (order.size() > max_states)
      fail(ErrorCode::invalid_argument, "the grammar is too complex: more than {} states", max_states);
    auto [p, q] = order[i];
    meter.spend(out.classes);
    out.accepting.push_back(joined(how, p != Dfa::kDead && a.accepting[p], q != Dfa::kDead && b.accepting[q]));
    for (auto [ca, cb] : classes.pairs)
      out.next.push_back(
          id_of(p == Dfa::kDead ? p : a.next[p * a.classes + ca], q == Dfa::kDead ? q : b.next[q * b.classes + cb]));
  }
  return minimize(out, meter);
}

Dfa match_text(std::string_view text) {
  Dfa d;
  std::array<int, 256> number;
  number.fill(-1);
  int used = 1;  // class 0: bytes that do not occur
  for (char c : text)
    if (int& n = number[static_cast<uint8_t>(c)]; n < 0) n = used < 256 ? used++ : 0;
  for (size_t b = 0; b < 256; ++b) d.byte_class[b] = static_cast<uint8_t>(std::max(number[b], 0));
  d.classes = static_cast<uint32_t>(used);
  d.next.assign((text.size() + 1) * d.classes, Dfa::kDead);
  d.accepting.assign(text.size() + 1, 0);
  d.accepting.back() = 1;
  for (size_t i = 0; i < text.size(); ++i)
    d.next[i * d.classes + d.byte_class[static_cast<uint8_t>(text[i])]] = static_cast<uint32_t>(i + 1);
  compress_classes(d);
  return d;
}

// An automaton with the bounds of `d` and no transitions yet; its last state accepts. One class per byte, to be
// compressed afterwards.
static Dfa unlinked(const Dfa& d, uint32_t states) {
  Dfa out;
  out.min_count = d.min_count;
  out.max_count = d.max_count;
  for (size_t b = 0; b < 256; ++b) out.byte_class[b] = static_cast<uint8_t>(b);
  out.classes = 256;
  out.next.assign(size_t{states} * 256, Dfa::kDead);
  out.accepting.assign(states, 0);
  out.accepting.back() = 1;
  return out;
}

Dfa enclose(const Dfa& d, char prefix, char suffix) {
  if (d.empty()) return d;
  const uint32_t n = d.states();
  Dfa out = unlinked(d, n + 2);
  out.next[static_cast<uint8_t>(prefix)] = 1;
  for (uint32_t s = 0; s < n; ++s) {
    for (size_t b = 0; b < 256; ++b)
      if (uint32_t t = d.next[s * d.classes + d.byte_class[b]]; t != Dfa::kDead) out.next[(s + 1) * 256 + b] = t + 1;
    if (d.accepting[s])
      out.next[(s + 1) * 256 + static_cast<uint8_t>(suffix)] = (n + 1) | (d.counted() ? Dfa::kNeedsMin : 0);
  }
  compress_classes(out);
  return out;
}

Dfa followed(const Dfa& d, std::string_view ends) {
  if (d.empty()) return d;
  const uint32_t n = d.states();
  Dfa out = unlinked(d, n + 1);
  for (uint32_t s = 0; s < n; ++s) {
    for (size_t b = 0; b < 256; ++b) out.next[s * 256 + b] = d.next[s * d.classes + d.byte_class[b]];
    if (d.accepting[s])
      for (char c : ends) out.next[s * 256 + static_cast<uint8_t>(c)] = n | Dfa::kNeedsMin;
  }
  compress_classes(out);
  return out;
}

Dfa repeat_counted(const Dfa& one, uint32_t min, uint32_t max) {
  Dfa out = one;
  out.min_count = min;
  out.max_count = max;
  if (out.empty()) return out;
  for (uint32_t s = 0; s < one.states(); ++s)
    for (uint32_t c = 0; c < one.classes; ++c) {
      uint32_t& t = out.next[s * one.classes + c];
      if (t == Dfa::kDead) continue;
      if (one.accepting[t]) t = 0;
      if (s == 0) t |= Dfa::kCounts;
    }
  std::fill(out.accepting.begin(), out.accepting.end(), 0);
  out.accepting[0] = 1;
  std::vector<uint8_t> good(out.states(), 1);
  std::vector<uint32_t> block(out.states());
  for (uint32_t s = 0; s < out.states(); ++s) block[s] = s;
  return rebuild(out, good, block);
}

}  // namespace tenon::text::grammar
