#include "text/grammar/tables.h"

#include <algorithm>
#include <set>
#include <unordered_set>

namespace tenon::text::grammar {

using Op = Program::Node::Op;

namespace {

constexpr uint32_t kRoot = 0;  // the frame behind everything

uint64_t add(uint64_t a, uint64_t b) { return a > ~b ? ~uint64_t{0} : a + b; }

}  // namespace

Tables::Tables(const Program& program, const TokenTrie& trie) : program_(program), trie_(trie) {
  frames_.push_back({Program::kAccept, 0, kRoot, 0, 0});
}

uint32_t Tables::start() {
  Positions out;
  expand(program_.start(), 0, kRoot, out);
  return intern(std::move(out));
}

uint32_t Tables::frame(uint32_t node, uint32_t count, uint32_t parent) {
  auto [it, fresh] =
      frame_ids_.try_emplace({uint64_t{node} << 32 | count, parent}, static_cast<uint32_t>(frames_.size()));
  if (fresh) {
    uint64_t length = add(program_.length(node, count), frames_[parent].length);
    frames_.push_back({node, count, parent, frames_[parent].depth + 1, length});
    bytes_ += sizeof(Frame) + 64;
  }
  return it->second;
}

// Behind a node that is the last of its rule comes what is behind the rule: repetition by recursion stays flat.
uint32_t Tables::continuation(uint32_t node, uint32_t parent) {
  return node == Program::kEnd || node == Program::kAccept ? parent : frame(node, 0, parent);
}

uint32_t Tables::closure(uint32_t f) {
  if (frames_[f].closure != kDead) return frames_[f].closure;
  Positions out;
  const Frame at = frames_[f];
  expand(at.node, at.count, at.parent, out);
  frames_[f].visits = out.visits;
  uint32_t set = intern(std::move(out));
  frames_[f].closure = set;
  return set;
}

// All terminals that may come next, depth first with the nearest to completion first, so that bounds cut off others.
void Tables::expand(uint32_t node, uint32_t count, uint32_t parent, Positions& out) {
  constexpr size_t kMostVisits = 1 << 13;
  struct Visit {
    uint32_t node, count, parent;
    bool operator==(const Visit&) const = default;
  };
  struct VisitHash {
    size_t operator()(const Visit& v) const { return Hash{}({uint64_t{v.node} << 32 | v.count, v.parent}); }
  };
  std::vector<Visit> todo{{node, count, parent}};
  std::unordered_set<Visit, VisitHash> seen;
  std::set<uint32_t> opened;  // loops entered since the last byte: coming back to one is no progress
  while (!todo.empty() && seen.size() < kMostVisits && out.configs.size() < kMostConfigs) {
    Visit v = todo.back();
    todo.pop_back();
    work_ += 16;
    ++out.visits;
    if (program_.length(v.node, v.count) == Program::kNever) continue;
    if (frames_[v.parent].depth + program_.height(v.node, v.count) > program_.deepest()) continue;
    if (!seen.insert(v).second) continue;
    const Program::Node& n = program_.node(v.node);
    switch (n.op) {
      case Op::accept:
        out.can_end = true;
        break;
      case Op::end: {
        const Frame& f = frames_[v.parent];
        if (!opened.count(v.parent)) todo.push_back({f.node, f.count, f.parent});
        break;
      }
      case Op::terminal: {
        const Terminal& t = program_.terminal(n.target);
        if (t.dfa().accepts(0, 0)) todo.push_back({n.next, 0, v.parent});
        if (t.moves(0)) out.configs.push_back({n.target, 0, 0, continuation(n.next, v.parent)});
        break;
      }
      case Op::call:
        todo.push_back({n.target, 0, continuation(n.next, v.parent)});
        // A way around what may be empty is found without going through all of it.
        if (program_.length(n.target, 0) == 0) todo.push_back({n.next, 0, v.parent});
        break;
      case Op::choice:
        for (uint32_t i = n.count; i-- > 0;) todo.push_back({program_.choice(n.target + i), 0, v.parent});
        break;
      case Op::loop: {
        const bool enough = v.count >= n.min;
        if (v.count < n.max) {
          // Without an upper bound the rounds beyond the lower one are all the same.
          uint32_t next = n.max == Program::kNoLimit ? std::min(v.count + 1, std::max(n.min, 1u)) : v.count + 1;
          uint32_t f = frame(v.node, next, v.parent);
          opened.insert(f);
          todo.push_back({n.target, 0, f});
        }
        if (enough) todo.push_back({n.next, 0, v.parent});
        break;
      }
    }
  }
}

uint64_t Tables::distance(const Config& c) const {
  return add(program_.terminal(c.terminal).distance(c.state, c.count), frames_[c.frame].length);
}

// Sorted, without doubles; of too many those that are nearest to completion.
void Tables::tidy(std::vector<Config>& configs) const {
  std::sort(configs.begin(), configs.end());
  configs.erase(std::unique(configs.begin(), configs.end()), configs.end());
  if (configs.size() <= kMostConfigs) return;
  auto nearer = [&](const Config& a, const Config& b) { return std::pair(distance(a), a) < std::pair(distance(b), b); };
  std::nth_element(configs.begin(), configs.begin() + kMostConfigs, configs.end(), nearer);
  configs.resize(kMostConfigs);
  std::sort(configs.begin(), configs.end());
}

uint32_t Tables::intern(Positions p) {
  tidy(p.configs);
  if (p.configs.empty() && !p.can_end) return kDead;
  uint64_t h = p.can_end ? 1469598103934665603u : 1099511628211u;
  for (const Config& c : p.configs)
    for (uint32_t x : {c.terminal, c.state, c.count, c.frame}) h = (h ^ x) * 0x9E3779B97F4A7C15u, h ^= h >> 31;
  auto [first, last] = set_ids_.equal_range(h);
  for (; first != last; ++first) {
    const Set& s = sets_[first->second];
    if (s.can_end == p.can_end && s.configs == p.configs) return first->second;
  }
  auto id = static_cast<uint32_t>(sets_.size());
  Set s;
  s.can_end = p.can_end;
  s.live = p.can_end;
  for (const Config& c : p.configs) s.live = s.live || distance(c) != Program::kNever;
  s.configs = std::move(p.configs);
  s.configs.shrink_to_fit();
  bytes_ += sizeof(Set) + s.configs.size() * sizeof(Config) + 64;
  sets_.push_back(std::move(s));
  set_ids_.emplace(h, id);
  return id;
}

uint32_t Tables::step(uint32_t set, uint8_t byte) {
  auto [it, fresh] = moves_.try_emplace({set, byte}, kDead);
  if (!fresh) return it->second;
  bytes_ += 48;
  Positions out;
  std::vector<std::pair<uint64_t, uint32_t>> ended;  // frames behind terminals that are complete, by what remains
  for (Config c : sets_[set].configs) {
    ++work_;
    const Terminal& t = program_.terminal(c.terminal);
    if (!t.dfa().step(c.state, c.count, byte)) continue;
    if (t.moves(c.state)) out.configs.push_back(c);
    if (t.dfa().accepts(c.state, c.count)) ended.emplace_back(frames_[c.frame].length, c.frame);
  }
  std::sort(ended.begin(), ended.end());
  ended.erase(std::unique(ended.begin(), ended.end()), ended.end());
  uint64_t visits = 0;
  for (auto [length, f] : ended) {
    if (visits > kMostStepVisits) break;
    uint32_t behind = closure(f);
    visits += frames_[f].visits;
    if (behind == kDead) continue;
    const Set& s = sets_[behind];
    work_ += s.configs.size();
    out.configs.insert(out.configs.end(), s.configs.begin(), s.configs.end());
    out.can_end = out.can_end || s.can_end;
    if (out.configs.size() > 4 * kMostConfigs) tidy(out.configs);
  }
  uint32_t to = intern(std::move(out));
  moves_[{set, byte}] = to;
  return to;
}

uint32_t Tables::step(uint32_t set, std::string_view bytes) {
  for (size_t i = 0; i < bytes.size() && set != kDead; ++i) set = step(set, static_cast<uint8_t>(bytes[i]));
  return set;
}

void Tables::walk(const LocalMask& local, uint32_t from, std::vector<uint32_t>& bits) {
  const Remainders& rest = local.walk->beyond;
  const std::array<uint64_t, 4> first = first_bytes(from);
  std::array<uint32_t, TokenTrie::kLongest + 1> path;
  path[0] = from;
  for (uint32_t i = 0; i < rest.nodes.size() && !exhausted();) {
    const Remainders::Node& n = rest.nodes[i];
    uint32_t to = kDead;
    if (n.depth > 0 || (first[n.byte >> 6] >> (n.byte & 63) & 1)) to = step(path[n.depth], n.byte);
    if (to == kDead) {
      i = n.skip;
      continue;
    }
    path[n.depth + 1u] = to;
    if (n.first_token != n.last_token && sets_[to].live)
      for (uint32_t t = n.first_token; t < n.last_token; ++t) {
        const auto [token, characters] = rest.tokens[t];
        const auto id = static_cast<uint32_t>(token);
        if (local.may_end(characters)) bits[id >> 5] |= 1u << (id & 31);
      }
    ++i;
  }
}

const std::array<uint64_t, 4>& Tables::first_bytes(uint32_t set) {
  if (!sets_[set].first) {
    auto first = std::make_unique<std::array<uint64_t, 4>>();
    first->fill(0);
    for (const Config& c : sets_[set].configs) {
      const Dfa& dfa = program_.terminal(c.terminal).dfa();
      for (uint32_t b = 0; b < 256; ++b) {
        uint32_t state = c.state, count = c.count;
        if (dfa.step(state, count, static_cast<uint8_t>(b))) (*first)[b >> 6] |= uint64_t{1} << (b & 63);
      }
    }
    bytes_ += 64;
    sets_[set].first = std::move(first);
  }
  return *sets_[set].first;
}

// What lies below a node of the vocabulary's trie.
void Tables::walk_branch(uint32_t node, uint32_t from, std::vector<uint32_t>& bits) {
  const auto& nodes = trie_.nodes();
  const uint32_t end = nodes[node].skip, depth = nodes[node].depth + 1u;
  const std::array<uint64_t, 4> first = first_bytes(from);
  std::array<uint32_t, TokenTrie::kLongest + 1> path;
  path[0] = from;
  for (uint32_t i = node + 1; i < end && !exhausted();) {
    const TokenTrie::Node& n = nodes[i];
    const uint32_t at = n.depth - depth;
    uint32_t to = kDead;
    if (at > 0 || (first[n.byte >> 6] >> (n.byte & 63) & 1)) to = step(path[at], n.byte);
    if (to == kDead) {
      i = n.skip;
      continue;
    }
    path[at + 1] = to;
    if (n.token >= 0 && sets_[to].live)
      for (int32_t t = n.token; t >= 0; t = trie_.next_same(t)) bits[static_cast<uint32_t>(t) >> 5] |= 1u << (t & 31);
    ++i;
  }
}

const TokenSet& Tables::mask(uint32_t set) {
  if (sets_[set].mask) return *sets_[set].mask;
  most_work_ = work_ + kMostWork;
  most_bytes_ = bytes_ + kMostBytes;
  std::vector<uint32_t> bits(trie_.mask_words(), 0);
  std::set<std::pair<const LocalMask*, uint32_t>> walked;
  std::set<const LocalMask*> added;
  std::vector<std::shared_ptr<const LocalMask>> kept;
  for (size_t i = 0; i < sets_[set].configs.size(); ++i) {
    const Config c = sets_[set].configs[i];
    std::shared_ptr<const LocalMask> local = program_.terminal(c.terminal).local_mask(trie_, c.state, c.count);
    if (added.insert(local.get()).second) local->inside.add_to(bits);
    if (local->crosses() && !exhausted()) {
      uint32_t behind = closure(c.frame);
      if (behind != kDead && !sets_[behind].configs.empty() && walked.emplace(local.get(), behind).second) {
        walk(*local, behind, bits);
        for (const Walk::Branch& b : local->walk->branches)
          if (local->may_end(b.characters)) walk_branch(b.node, behind, bits);
      }
    }
    kept.push_back(std::move(local));
  }
  auto mask = std::make_unique<TokenSet>(std::move(bits));
  bytes_ += mask->bytes();
  sets_[set].mask = std::move(mask);
  return *sets_[set].mask;
}

uint64_t Tables::closing_bytes(uint32_t set) const {
  if (sets_[set].can_end) return 0;
  uint64_t least = Program::kNever;
  for (const Config& c : sets_[set].configs) least = std::min(least, distance(c));
  return least;
}

uint8_t Tables::closing_byte(uint32_t set) const {
  const Config* best = nullptr;
  uint64_t least = Program::kNever;
  for (const Config& c : sets_[set].configs) {
    // Where the terminal is complete, what follows is in the set as well.
    if (program_.terminal(c.terminal).distance(c.state, c.count) == 0) continue;
    if (uint64_t d = distance(c); d < least) least = d, best = &c;
  }
  TENON_CHECK(best != nullptr);
  return program_.terminal(best->terminal).nearest_byte(best->state, best->count);
}

int Tables::only_byte(uint32_t set) const {
  if (sets_[set].can_end) return -1;
  int only = -1;
  for (const Config& c : sets_[set].configs)
    for (int b = 0; b < 256; ++b) {
      uint32_t state = c.state, count = c.count;
      if (b == only || !program_.terminal(c.terminal).dfa().step(state, count, static_cast<uint8_t>(b))) continue;
      if (only >= 0) return -1;
      only = b;
    }
  return only;
}

uint32_t Tables::adopt(const Tables& other, uint32_t set) {
  Positions p;
  p.can_end = other.sets_[set].can_end;
  std::unordered_map<uint32_t, uint32_t> known{{kRoot, kRoot}};
  std::vector<uint32_t> path;
  for (Config c : other.sets_[set].configs) {
    path.clear();
    for (uint32_t f = c.frame; !known.count(f); f = other.frames_[f].parent) path.push_back(f);
    for (; !path.empty(); path.pop_back()) {
      const Frame& f = other.frames_[path.back()];
      uint32_t parent = known.at(f.parent);
      known[path.back()] = frame(f.node, f.count, parent);
    }
    c.frame = known.at(c.frame);
    p.configs.push_back(c);
  }
  return intern(std::move(p));
}

}  // namespace tenon::text::grammar
