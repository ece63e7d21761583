#include "text/grammar/regular.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace tenon::text::grammar {
namespace {

using Id = Grammar::Id;
using Kind = Grammar::Kind;
constexpr uint32_t kNone = 0xFFFFFFFF;
constexpr int kDeepest = 400;

struct Node {
  enum class Op : uint8_t { split, bytes, begin, end, match } op;
  uint8_t low = 0, high = 0;
  uint32_t out = kNone, other = kNone;
};

// Thompson's construction, built back to front so that every node knows what follows.
class NfaBuilder {
 public:
  NfaBuilder(const Grammar& g, Spelling spelling, const RegularLimits& limits, Meter& meter)
      : g_(g), spelling_(spelling), limits_(limits), meter_(meter) {}

  std::vector<Node> nodes;

  uint32_t add(Node n) {
    meter_.spend(1);
    if (nodes.size() >= limits_.nfa_nodes)
      fail(ErrorCode::invalid_argument, "the grammar is too complex: more than {} states in a regular part",
           limits_.nfa_nodes);
    nodes.push_back(n);
    return static_cast<uint32_t>(nodes.size() - 1);
  }

  uint32_t build(Id id, uint32_t next) {
    if (++depth_ > kDeepest) fail(ErrorCode::invalid_argument, "the grammar is nested too deeply");
    meter_.spend(1);
    uint32_t start = build_kind(g_.at(id), next);
    --depth_;
    return start;
  }

  uint32_t chars(const CharRanges& set, uint32_t next) {
    switch (spelling_) {
      case Spelling::plain:
        return utf8(set, next);
      case Spelling::json:
        return json(set, next, false);
      case Spelling::json_free:
        return json(set, next, true);
    }
    return kNone;
  }

  uint32_t star(const CharRanges& set, uint32_t next) {
    uint32_t loop = add({.op = Node::Op::split, .other = next});
    uint32_t body = chars(set, loop);
    nodes[loop].out = body;
    return loop;
  }

 private:
  uint32_t byte(uint8_t low, uint8_t high, uint32_t next) {
    return add({.op = Node::Op::bytes, .low = low, .high = high, .out = next});
  }
  uint32_t literal(std::string_view text, uint32_t next) {
    for (size_t i = text.size(); i-- > 0;)
      next = byte(static_cast<uint8_t>(text[i]), static_cast<uint8_t>(text[i]), next);
    return next;
  }
  uint32_t either(const std::vector<uint32_t>& starts) {
    if (starts.empty()) return add({.op = Node::Op::split});
    uint32_t at = starts.back();
    for (size_t i = starts.size() - 1; i-- > 0;) at = add({.op = Node::Op::split, .out = starts[i], .other = at});
    return at;
  }

  uint32_t build_kind(const Grammar::Expr& e, uint32_t next) {
    switch (e.kind) {
      case Kind::text:
        return literal(e.text, next);
      case Kind::chars:
        return chars(e.chars, next);
      case Kind::sequence:
        for (size_t i = e.parts.size(); i-- > 0;) next = build(e.parts[i], next);
        return next;
      case Kind::choice: {
        std::vector<uint32_t> starts;
        for (Id p : e.parts) starts.push_back(build(p, next));
        return either(starts);
      }
      case Kind::repeat:
        return repeat(e, next);
      case Kind::call:
        if (g_.body(e.rule) == Grammar::kUndefined) fail(ErrorCode::internal, "grammar: an undefined rule");
        return build(g_.body(e.rule), next);
      case Kind::terminal:
        return automaton(*e.dfa, next);
      case Kind::begin:
        return add({.op = Node::Op::begin, .out = next});
      case Kind::end:
        return add({.op = Node::Op::end, .out = next});
    }
    return kNone;
  }

  uint32_t repeat(const Grammar::Expr& e, uint32_t next) {
    Id part = e.parts[0];
    uint64_t optional = 0;
    if (e.max == kUnbounded) {
      uint32_t loop = add({.op = Node::Op::split, .other = next});
      uint32_t body = build(part, loop);
      nodes[loop].out = body;
      next = loop;
    } else {
      optional = e.max - std::min(e.min, e.max);
    }
    const uint32_t after = next;
    for (uint64_t i = 0; i < optional; ++i) {
      uint32_t body = build(part, next);
      next = add({.op = Node::Op::split, .out = body, .other = after});
    }
    for (uint64_t i = 0; i < std::min(e.min, e.max); ++i) {
      meter_.spend(1);
      next = build(part, next);
    }
    return next;
  }

  uint32_t automaton(const Dfa& d, uint32_t next) {
    TENON_CHECK(!d.counted());
    const auto first = static_cast<uint32_t>(nodes.size());
    for (uint32_t s = 0; s < d.states(); ++s) add({.op = Node::Op::split});
    for (uint32_t s = 0; s < d.states(); ++s) {
      std::vector<uint32_t> starts;
      if (d.accepting[s]) starts.push_back(next);
      for (int low = 0; low < 256;) {
        auto target = [&](int b) { return d.next[s * d.classes + d.byte_class[static_cast<size_t>(b)]]; };
        int high = low;
        while (high + 1 < 256 && target(high + 1) == target(low)) ++high;
        if (target(low) != Dfa::kDead)
          starts.push_back(byte(static_cast<uint8_t>(low), static_cast<uint8_t>(high), first + target(low)));
        low = high + 1;
      }
      nodes[first + s].out = either(starts);
    }
    return d.empty() ? add({.op = Node::Op::split}) : first;
  }

  // The ranges of a set as sequences of byte ranges; tails that are the same are built once.
  using Tails = std::map<std::tuple<uint8_t, uint8_t, uint32_t>, uint32_t>;
  uint32_t shared_byte(uint8_t low, uint8_t high, uint32_t next, Tails& tails) {
    auto [it, fresh] = tails.try_emplace({low, high, next}, 0);
    if (fresh) it->second = byte(low, high, next);
    return it->second;
  }

  uint32_t utf8(const CharRanges& set, uint32_t next) {
    std::vector<uint32_t> starts;
    Tails tails;
    for (auto r : set.ranges()) {
      static constexpr char32_t kLast[] = {0x7F, 0x7FF, 0xFFFF, 0x10FFFF};
      char32_t first = r.first;
      for (int extra = 0; extra < 4; ++extra) {
        char32_t last = std::min(r.last, kLast[extra]);
        if (first <= last) {
          utf8_block(first, last, extra, next, starts, tails);
          first = last + 1;
        }
      }
    }
    std::sort(starts.begin(), starts.end());
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
    return either(starts);
  }

  // Characters of 1 + `extra` bytes, split until each byte varies on its own.
  void utf8_block(char32_t first, char32_t last, int extra, uint32_t next, std::vector<uint32_t>& starts,
                  Tails& tails) {
    for (int i = 1; i <= extra; ++i) {
      const char32_t low_bits = (char32_t{1} << (6 * i)) - 1;
      if ((first & ~low_bits) == (last & ~low_bits)) continue;
      if (first & low_bits) {
        utf8_block(first, first | low_bits, extra, next, starts, tails);
        utf8_block((first | low_bits) + 1, last, extra, next, starts, tails);
        return;
      }
      if ((last & low_bits) != low_bits) {
        utf8_block(first, (last & ~low_bits) - 1, extra, next, starts, tails);
        utf8_block(last & ~low_bits, last, extra, next, starts, tails);
        return;
      }
    }
    static constexpr uint8_t kLead[] = {0x00, 0xC0, 0xE0, 0xF0};
    uint32_t at = next;
    for (int i = 0; i < extra; ++i) {
      auto continuation = [&](char32_t c) { return static_cast<uint8_t>(0x80 | ((c >> (6 * i)) & 0x3F)); };
      at = shared_byte(continuation(first), continuation(last), at, tails);
    }
    auto lead = [&](char32_t c) { return static_cast<uint8_t>(kLead[extra] | (c >> (6 * extra))); };
    starts.push_back(shared_byte(lead(first), lead(last), at, tails));
  }

  uint32_t hex_digit(int value, uint32_t next) {
    if (value < 10) return byte(static_cast<uint8_t>('0' + value), static_cast<uint8_t>('0' + value), next);
    return either({byte(static_cast<uint8_t>('a' + value - 10), static_cast<uint8_t>('a' + value - 10), next),
                   byte(static_cast<uint8_t>('A' + value - 10), static_cast<uint8_t>('A' + value - 10), next)});
  }
  uint32_t hex_range(int low, int high, uint32_t next) {
    std::vector<uint32_t> starts;
    for (int v = low; v <= high; ++v) starts.push_back(hex_digit(v, next));
    return either(starts);
  }

  uint32_t json(const CharRanges& set, uint32_t next, bool free) {
    CharRanges escaped = CharRanges::range(0, 0x1F);
    escaped.add('"', '"');
    escaped.add('\\', '\\');
    std::vector<uint32_t> starts;
    CharRanges direct = set.minus(escaped);
    if (!direct.empty()) starts.push_back(utf8(direct, next));
    static constexpr std::pair<char32_t, char> kShort[] = {{'"', '"'},  {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'},
                                                           {'\n', 'n'}, {'\r', 'r'},  {'\t', 't'}};
    std::vector<uint32_t> after_backslash;
    CharRanges long_only = CharRanges::range(0, 0x1F);
    for (auto [c, letter] : kShort) {
      if (set.contains(c))
        after_backslash.push_back(byte(static_cast<uint8_t>(letter), static_cast<uint8_t>(letter), next));
      long_only = long_only.minus(CharRanges::one(c));
    }
    if (free && set.contains('/')) after_backslash.push_back(byte('/', '/', next));
    if (free) {
      TENON_CHECK(set == CharRanges::all());
      after_backslash.push_back(byte('u', 'u', any_escape(next)));
    } else {
      for (char32_t c = 0; c < 0x20; ++c)
        if (set.contains(c) && long_only.contains(c))
          after_backslash.push_back(literal(fmt::format("u00{:02x}", static_cast<uint32_t>(c)), next));
    }
    if (!after_backslash.empty()) starts.push_back(byte('\\', '\\', either(after_backslash)));
    return either(starts);
  }

  // Behind `\u`: a character of the basic plane or a whole pair of surrogates.
  uint32_t any_escape(uint32_t next) {
    uint32_t low2 = hex_range(0, 15, hex_range(0, 15, next));
    uint32_t plain = either({hex_range(0, 12, hex_range(0, 15, low2)), hex_range(14, 15, hex_range(0, 15, low2)),
                             hex_digit(13, hex_range(0, 7, low2))});
    uint32_t second = literal("\\u", hex_digit(13, hex_range(12, 15, low2)));
    return either({plain, hex_digit(13, hex_range(8, 11, hex_range(0, 15, hex_range(0, 15, second))))});
  }

  const Grammar& g_;
  Spelling spelling_;
  const RegularLimits& limits_;
  Meter& meter_;
  int depth_ = 0;
};

// The subset construction.
class Determinizer {
 public:
  Determinizer(const std::vector<Node>& nodes, const RegularLimits& limits, Meter& meter)
      : nodes_(nodes), limits_(limits), meter_(meter), mark_(nodes.size(), 0) {}

  Dfa run(uint32_t start) {
    find_classes();
    Dfa d;
    d.byte_class = class_of_;
    d.classes = static_cast<uint32_t>(first_byte_.size());
    state_of({start}, true, d);
    std::vector<std::vector<uint32_t>> outs(d.classes);
    for (size_t i = 0; i < sets_.size(); ++i) {
      for (auto& o : outs) o.clear();
      for (uint32_t n : sets_[i]) {
        const Node& node = nodes_[n];
        if (node.op != Node::Op::bytes) continue;
        const uint32_t last = class_of_[node.high];
        for (uint32_t c = class_of_[node.low]; c <= last; ++c) outs[c].push_back(node.out);
        meter_.spend(last - class_of_[node.low] + 1);
      }
      for (uint32_t c = 0; c < d.classes; ++c) {
        uint32_t target = outs[c].empty() ? Dfa::kDead : state_of(outs[c], false, d);
        d.next[i * d.classes + c] = target;
      }
    }
    return minimize(d, meter_);
  }

 private:
  void find_classes() {
    std::array<bool, 257> cut{};
    cut[0] = true;
    for (const Node& n : nodes_)
      if (n.op == Node::Op::bytes) cut[n.low] = cut[static_cast<size_t>(n.high) + 1] = true;
    for (size_t b = 0; b < 256; ++b) {
      if (cut[b]) first_byte_.push_back(static_cast<uint8_t>(b));
      class_of_[b] = static_cast<uint8_t>(first_byte_.size() - 1);
    }
  }

  // Everything reached without a byte; assertions hold or not by where we are.
  void close(std::vector<uint32_t>& set, bool at_begin, bool at_end) {
    ++now_;
    std::vector<uint32_t> todo;
    todo.swap(set);
    while (!todo.empty()) {
      uint32_t n = todo.back();
      todo.pop_back();
      if (n == kNone || mark_[n] == now_) continue;
      mark_[n] = now_;
      meter_.spend(1);
      const Node& node = nodes_[n];
      if (node.op == Node::Op::split)
        todo.push_back(node.out), todo.push_back(node.other);
      else if (node.op == Node::Op::begin && at_begin)
        todo.push_back(node.out);
      else if (node.op == Node::Op::end && at_end)
        todo.push_back(node.out);
      if (node.op == Node::Op::bytes || node.op == Node::Op::match || node.op == Node::Op::end) set.push_back(n);
    }
    std::sort(set.begin(), set.end());
  }

  bool matches_here(std::vector<uint32_t> set, bool at_begin) {
    close(set, at_begin, true);
    return std::any_of(set.begin(), set.end(), [&](uint32_t n) { return nodes_[n].op == Node::Op::match; });
  }

  uint32_t state_of(std::vector<uint32_t> set, bool at_begin, Dfa& d) {
    std::vector<uint32_t> roots = at_begin ? set : std::vector<uint32_t>();
    close(set, at_begin, false);
    auto [it, fresh] = ids_.try_emplace(set, static_cast<uint32_t>(sets_.size()));
    if (!fresh) return it->second;
    if (sets_.size() >= limits_.dfa_states)
      fail(ErrorCode::invalid_argument, "the grammar is too complex: more than {} states", limits_.dfa_states);
    sets_.push_back(set);
    d.accepting.push_back(matches_here(at_begin ? roots : set, at_begin));
    d.next.resize(d.next.size() + d.classes, Dfa::kDead);
    return it->second;
  }

  struct Hash {
    size_t operator()(const std::vector<uint32_t>& v) const {
      uint64_t h = 1469598103934665603u;
      for (uint32_t x : v) h = (h ^ x) * 1099511628211u;
      return static_cast<size_t>(h ^ (h >> 29));
    }
  };

  const std::vector<Node>& nodes_;
  const RegularLimits& limits_;
  Meter& meter_;
  std::vector<uint32_t> mark_;
  uint32_t now_ = 0;
  std::array<uint8_t, 256> class_of_{};
  std::vector<uint8_t> first_byte_;
  std::vector<std::vector<uint32_t>> sets_;
  std::unordered_map<std::vector<uint32_t>, uint32_t, Hash> ids_;
};

}  // namespace

Dfa regular(const Grammar& grammar, Id expr, Spelling spelling, const RegularLimits& limits, Meter& meter) {
  NfaBuilder b(grammar, spelling, limits, meter);
  uint32_t match = b.add({.op = Node::Op::match});
  uint32_t start = b.build(expr, match);
  return Determinizer(b.nodes, limits, meter).run(start);
}

Dfa regular_search(const Grammar& grammar, Id expr, Spelling spelling, const RegularLimits& limits, Meter& meter) {
  NfaBuilder b(grammar, spelling, limits, meter);
  uint32_t match = b.star(CharRanges::all(), b.add({.op = Node::Op::match}));
  // `^` holds before the first character only, so what is skipped in front of a match is a way of its own.
  uint32_t here = b.build(expr, match);
  uint32_t skipped = b.chars(CharRanges::all(), b.star(CharRanges::all(), here));
  uint32_t start = b.add({.op = Node::Op::split, .out = here, .other = skipped});
  return Determinizer(b.nodes, limits, meter).run(start);
}

}  // namespace tenon::text::grammar
