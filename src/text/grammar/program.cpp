#include "text/grammar/program.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <unordered_map>

#include "text/grammar/constraint.h"
#include "text/grammar/regular.h"

namespace tenon::text::grammar {

namespace {

using Id = Grammar::Id;
using Kind = Grammar::Kind;
using Op = Program::Node::Op;

// A regular part of a grammar becomes one terminal while it stays this small; larger ones stay rules.
constexpr uint64_t kTerminalNodes = 20'000;
constexpr uint32_t kTerminalStates = 2'000;
constexpr uint64_t kChoiceNodes = kTerminalStates;  // of alternatives that are made one terminal
constexpr uint64_t kSmallestRun = 256;              // of a sequence's parts, before they become terminals of their own
constexpr uint32_t kWideStates = 16;
// Longer repetitions of a character are counted instead of unrolled where they are terminals of their own.
constexpr uint64_t kUnrolled = 8;
constexpr int kDeepest = 1'000;

uint64_t add(uint64_t a, uint64_t b) { return a > ~b ? ~uint64_t{0} : a + b; }
uint64_t times(uint64_t a, uint64_t b) { return a && b > ~uint64_t{0} / a ? ~uint64_t{0} : a * b; }

}  // namespace

uint64_t Program::length(uint32_t n, uint32_t count) const {
  const Node& node = nodes_[n];
  if (node.op != Op::loop || count == 0) return node.length;
  uint64_t due = count < node.min ? node.min - count : 0;
  uint64_t body = due ? times(due, nodes_[node.target].length) : 0;
  return add(body, nodes_[node.next].length);
}

uint32_t Program::height(uint32_t n, uint32_t count) const {
  const Node& node = nodes_[n];
  if (node.op != Op::loop || count == 0) return node.height;
  return std::max(count < node.min ? 1 + nodes_[node.target].height : 0, nodes_[node.next].height);
}

size_t Program::memory_bytes() const {
  return sizeof(*this) + nodes_.capacity() * sizeof(Node) + choices_.capacity() * 4 +
         terminals_.capacity() * sizeof(terminals_[0]);
}

class ProgramBuilder {
 public:
  ProgramBuilder(const Grammar& grammar, const TokenTrie& trie, const CompileLimits& limits)
      : g_(grammar), trie_(trie), limits_(limits), meter_(limits.steps), program_(std::make_unique<Program>()) {}

  std::unique_ptr<const Program> run() {
    find_nullable();
    refuse_left_recursion();
    add_node({.op = Op::accept, .length = 0});
    add_node({.op = Op::end, .length = 0});
    rule_start_.assign(g_.rules(), kUnset);
    program_->start_ = build(g_.root(), Program::kAccept);
    while (!wanted_.empty()) {
      Grammar::Rule r = wanted_.back();
      wanted_.pop_back();
      uint32_t start = build(g_.body(r), Program::kEnd);
      program_->nodes_[rule_start_[r]].target = start;
    }
    find_lengths();
    order_choices();
    const Program::Node& start = program_->nodes_[program_->start_];
    if (start.length == Program::kNever)
      fail(ErrorCode::invalid_argument, "the grammar matches nothing that this vocabulary can spell");
    // Room for as much nesting again where the shortest sentence itself is deep.
    program_->deepest_ = std::max(limits_.depth, 2 * start.height);
    program_->cache_bytes_ = limits_.cache_bytes;
    for (const auto& t : program_->terminals_) t->warm(trie_);
    return std::move(program_);
  }

 private:
  static constexpr uint32_t kUnset = 0xFFFFFFFF;

  struct Shape {
    bool known = false, regular = false;
    uint64_t size = 0;
  };

  // --- facts about expressions ---

  bool compute_nullable(const Grammar::Expr& e) const {
    switch (e.kind) {
      case Kind::text:
        return e.text.empty();
      case Kind::chars:
        return false;
      case Kind::sequence:
        return std::all_of(e.parts.begin(), e.parts.end(), [&](Id p) { return nullable_[p]; });
      case Kind::choice:
        return std::any_of(e.parts.begin(), e.parts.end(), [&](Id p) { return nullable_[p]; });
      case Kind::repeat:
        return e.min == 0 || nullable_[e.parts[0]];
      case Kind::call:
        return nullable_[g_.body(e.rule)];
      case Kind::terminal:
        return !e.dfa->empty() && e.dfa->accepts(0, 0);
      case Kind::begin:
      case Kind::end:
        return true;
    }
    return false;
  }

  void find_nullable() {
    if (g_.root() == Grammar::kUndefined) fail(ErrorCode::invalid_argument, "the grammar has no root rule");
    for (Grammar::Rule r = 0; r < g_.rules(); ++r)
      if (g_.body(r) == Grammar::kUndefined)
        fail(ErrorCode::invalid_argument, "the grammar's rule \"{}\" is not defined", printable(g_.name(r)));
    nullable_.assign(g_.size(), 0);
    for (bool changed = true; changed;) {
      changed = false;
      meter_.spend(g_.size());
      for (Id i = 0; i < g_.size(); ++i)
        if (!nullable_[i] && compute_nullable(g_.at(i))) nullable_[i] = 1, changed = true;
    }
  }

  // Rules that are called before anything is matched.
  void left_calls(Id id, std::vector<Grammar::Rule>& out, int depth = 0) {
    meter_.spend(1);
    if (depth > kDeepest) fail(ErrorCode::invalid_argument, "the grammar is nested too deeply");
    const Grammar::Expr& e = g_.at(id);
    if (e.kind == Kind::call) out.push_back(e.rule);
    if (e.kind == Kind::choice || e.kind == Kind::repeat)
      for (Id p : e.parts) left_calls(p, out, depth + 1);
    if (e.kind == Kind::sequence)
      for (Id p : e.parts) {
        left_calls(p, out, depth + 1);
        if (!nullable_[p]) break;
      }
  }

  void refuse_left_recursion() {
    enum : uint8_t { fresh, open, done };
    std::vector<uint8_t> color(g_.rules(), fresh);
    std::vector<std::vector<Grammar::Rule>> calls(g_.rules());
    for (Grammar::Rule r = 0; r < g_.rules(); ++r) {
      left_calls(g_.body(r), calls[r]);
      std::sort(calls[r].begin(), calls[r].end());
      calls[r].erase(std::unique(calls[r].begin(), calls[r].end()), calls[r].end());
    }
    std::vector<std::pair<Grammar::Rule, size_t>> path;
    for (Grammar::Rule root = 0; root < g_.rules(); ++root) {
      if (color[root] != fresh) continue;
      path.assign(1, {root, 0});
      color[root] = open;
      while (!path.empty()) {
        auto& [r, i] = path.back();
        if (i == calls[r].size()) {
          color[r] = done;
          path.pop_back();
          continue;
        }
        Grammar::Rule to = calls[r][i++];
        if (color[to] == open)
          fail(ErrorCode::invalid_argument,
               "the grammar's rule \"{}\" calls itself before it matches anything; write it without left recursion",
               printable(g_.name(to)));
        if (color[to] == fresh) {
          color[to] = open;
          path.emplace_back(to, 0);
        }
      }
    }
  }

  // Whether an expression is regular, and how many nodes it would unroll to.
  Shape shape(Id id, int depth = 0) {
    if (shapes_.size() < g_.size()) shapes_.resize(g_.size());
    if (shapes_[id].known) return shapes_[id];
    meter_.spend(1);
    shapes_[id] = {.known = true};  // what calls itself is not regular
    if (depth > kDeepest) return {};
    const Grammar::Expr& e = g_.at(id);
    Shape s{.known = true, .regular = true, .size = 1};
    auto take = [&](Id p) {
      Shape part = shape(p, depth + 1);
      s.regular &= part.regular;
      return part.size;
    };
    switch (e.kind) {
      case Kind::text:
        s.size = e.text.size();
        break;
      case Kind::chars:
        s.size = 4 + 4 * e.chars.ranges().size();
        break;
      case Kind::sequence:
      case Kind::choice:
        for (Id p : e.parts) s.size = add(s.size, add(take(p), 1));
        break;
      case Kind::repeat: {
        uint64_t n = e.max == kUnbounded ? add(e.min, 1) : e.max;
        s.size = times(add(take(e.parts[0]), 1), std::max<uint64_t>(n, 1));
        break;
      }
      case Kind::call:
        s.size = take(g_.body(e.rule));
        break;
      case Kind::terminal:
      case Kind::begin:
      case Kind::end:
        s.regular = false;
        break;
    }
    if (s.size > kTerminalNodes) s.regular = false;
    shapes_[id] = s;
    return s;
  }

  // --- nodes ---

  uint32_t add_node(Program::Node n) {
    meter_.spend(1);
    if (program_->nodes_.size() >= limits_.nodes)
      fail(ErrorCode::invalid_argument, "the grammar is too complex: more than {} nodes", limits_.nodes);
    program_->nodes_.push_back(n);
    return static_cast<uint32_t>(program_->nodes_.size() - 1);
  }

  uint32_t add_choice(const std::vector<uint32_t>& starts) {
    if (starts.size() == 1) return starts[0];
    auto first = static_cast<uint32_t>(program_->choices_.size());
    program_->choices_.insert(program_->choices_.end(), starts.begin(), starts.end());
    return add_node({.op = Op::choice, .target = first, .count = static_cast<uint32_t>(starts.size())});
  }

  uint32_t add_terminal(const Dfa& dfa, uint32_t next) {
    if (dfa.empty()) return add_choice({});
    auto t = trie_.terminal(dfa);
    auto [it, fresh] = terminal_index_.try_emplace(t.get(), static_cast<uint32_t>(program_->terminals_.size()));
    if (fresh) program_->terminals_.push_back(std::move(t));
    return add_node({.op = Op::terminal, .target = it->second, .next = next});
  }

  // The expression as one automaton, or nothing where that is too large.
  const Dfa* small_dfa(Id id) {
    auto [it, fresh] = dfas_.try_emplace(id);
    if (fresh && shape(id).regular) {
      const Grammar::Expr& e = g_.at(id);
      Meter own(2'000'000);
      try {
        it->second = e.kind == Kind::text && !e.text.empty()
                         ? match_text(e.text)
                         : regular(g_, id, Spelling::plain,
                                   {.nfa_nodes = 4 * kTerminalNodes, .dfa_states = kTerminalStates}, own);
        // A count unrolled into states that many tokens run through costs a walk of the vocabulary for each.
        if (e.kind != Kind::text && e.kind != Kind::chars && it->second->wide_states() > kWideStates)
          it->second.reset();
      } catch (const Error&) {
        meter_.spend(1'000'000);
      }
      meter_.spend(shape(id).size);
    }
    return it->second ? &*it->second : nullptr;
  }

  uint32_t build(Id id, uint32_t next) {
    if (++depth_ > kDeepest) fail(ErrorCode::invalid_argument, "the grammar is nested too deeply");
    uint32_t start = build_kind(id, next);
    --depth_;
    return start;
  }

  uint32_t build_kind(Id id, uint32_t next) {
    if (const Dfa* dfa = small_dfa(id)) return add_terminal(*dfa, next);
    const Grammar::Expr e = g_.at(id);
    switch (e.kind) {
      case Kind::text:
        return e.text.empty() ? next : add_terminal(match_text(e.text), next);
      case Kind::chars:
        return add_terminal(regular(g_, id, Spelling::plain, {.dfa_states = limits_.dfa_states}, meter_), next);
      case Kind::sequence:
        return build_sequence(e, next);
      case Kind::choice:
        return build_choice(e, next);
      case Kind::repeat:
        return build_repeat(e, next);
      case Kind::call:
        return add_node({.op = Op::call, .target = start_of(e.rule), .next = next});
      case Kind::terminal:
        return add_terminal(*e.dfa, next);
      case Kind::begin:
      case Kind::end:
        fail(ErrorCode::internal, "grammar: an assertion outside of a regular expression");
    }
    return next;
  }

  // Neighbours that are regular together make one terminal.
  uint32_t build_sequence(const Grammar::Expr& e, uint32_t next) {
    uint64_t most = kTerminalNodes;
    for (size_t end = e.parts.size(); end > 0;) {
      size_t begin = end - 1;
      uint64_t size = shape(e.parts[begin]).size;
      while (begin > 0 && shape(e.parts[begin]).regular && shape(e.parts[begin - 1]).regular &&
             add(size, shape(e.parts[begin - 1]).size) <= most)
        size = add(size, shape(e.parts[--begin]).size);
      if (end - begin > 1) {
        Id run = g_.sequence(
            {e.parts.begin() + static_cast<std::ptrdiff_t>(begin), e.parts.begin() + static_cast<std::ptrdiff_t>(end)});
        note_new(run);
        if (const Dfa* dfa = small_dfa(run)) {
          next = add_terminal(*dfa, next);
          end = begin;
          continue;
        }
      }
      if (end > 1)
        if (auto closed = build_closed(g_.at(e.parts[end - 2]), g_.at(e.parts[end - 1]), next)) {
          next = *closed;
          end -= 2;
          continue;
        }
      if (end - begin > 2 && most > kSmallestRun) {
        most = std::max(std::min(most, size) / 2, kSmallestRun);
        continue;
      }
      next = build(e.parts[--end], next);
    }
    return next;
  }

  bool is_counted(const Grammar::Expr& e) const {
    return e.kind == Kind::repeat && g_.at(e.parts[0]).kind == Kind::chars &&
           (e.min > kUnrolled || (e.max != kUnbounded && e.max > kUnrolled));
  }

  // A counted repetition together with the character that must end it: tokens then run through one terminal, instead
  // of leaving it behind every character.
  std::optional<uint32_t> build_closed(const Grammar::Expr& repeat, const Grammar::Expr& behind, uint32_t next) {
    if (!is_counted(repeat) || repeat.max == 0 || repeat.max < repeat.min) return std::nullopt;
    const Id part = repeat.parts[0];
    const uint64_t min = repeat.min, max = repeat.max;
    std::string ends, rest;
    if (behind.kind == Kind::text && !behind.text.empty()) {
      ends = behind.text.substr(0, 1);
      rest = behind.text.substr(1);
    } else if (behind.kind == Kind::chars && !behind.chars.empty() && behind.chars.ranges().back().last < 0x80) {
      for (auto r : behind.chars.ranges())
        for (char32_t c = r.first; c <= r.last; ++c) ends.push_back(static_cast<char>(c));
    } else {
      return std::nullopt;
    }
    for (char c : ends)
      if (static_cast<uint8_t>(c) >= 0x80 || g_.at(part).chars.contains(static_cast<char32_t>(c))) return std::nullopt;
    if (!rest.empty()) next = add_terminal(match_text(rest), next);
    return add_terminal(followed(counted(part, min, max), ends), next);
  }

  uint32_t build_choice(const Grammar::Expr& e, uint32_t next) {
    // Neighbouring regular parts make one terminal; as positions of their own many would not fit into a set.
    std::vector<uint32_t> starts;
    for (size_t begin = 0; begin < e.parts.size();) {
      size_t end = begin;
      uint64_t size = 0;
      while (end < e.parts.size() && shape(e.parts[end]).regular &&
             (end == begin || add(size, shape(e.parts[end]).size) <= kChoiceNodes))
        size = add(size, shape(e.parts[end++]).size);
      if (end - begin > 1 && end - begin < e.parts.size()) {
        Id run = g_.choice(
            {e.parts.begin() + static_cast<std::ptrdiff_t>(begin), e.parts.begin() + static_cast<std::ptrdiff_t>(end)});
        note_new(run);
        if (const Dfa* dfa = small_dfa(run)) {
          starts.push_back(add_terminal(*dfa, next));
          begin = end;
          continue;
        }
      }
      starts.push_back(build(e.parts[begin++], next));
    }
    return add_choice(starts);
  }

  uint32_t build_repeat(const Grammar::Expr& e, uint32_t next) {
    const Id part = e.parts[0];
    uint64_t min = nullable_[part] ? 0 : e.min;
    if (e.max < e.min) return add_choice({});
    if (e.max == 0) return next;
    if (is_counted(e)) return add_terminal(counted(part, e.min, e.max), next);
    if (min > Program::kNoLimit - 1)
      fail(ErrorCode::invalid_argument, "the grammar repeats something at least {} times", min);
    if (min == 0 && e.max == 1) return add_choice({build(part, next), next});
    if (min <= 1 && e.max == kUnbounded) {
      uint32_t again = add_node({.op = Op::choice});
      uint32_t body = build(part, again);
      auto first = static_cast<uint32_t>(program_->choices_.size());
      program_->choices_.insert(program_->choices_.end(), {body, next});
      program_->nodes_[again].target = first;
      program_->nodes_[again].count = 2;
      return min == 0 ? again : body;
    }
    uint32_t body = build(part, Program::kEnd);
    auto max = static_cast<uint32_t>(std::min<uint64_t>(e.max, Program::kNoLimit));
    return add_node({.op = Op::loop, .target = body, .next = next, .min = static_cast<uint32_t>(min), .max = max});
  }

  Dfa counted(Id part, uint64_t min, uint64_t max) {
    if (min >= Dfa::kNoLimit)
      fail(ErrorCode::invalid_argument, "the grammar repeats a character at least {} times", min);
    Dfa one = regular(g_, part, Spelling::plain, {.dfa_states = limits_.dfa_states}, meter_);
    return repeat_counted(one, static_cast<uint32_t>(min),
                          static_cast<uint32_t>(std::min<uint64_t>(max, Dfa::kNoLimit)));
  }

  void note_new(Id id) {
    nullable_.resize(g_.size(), 0);
    nullable_[id] = compute_nullable(g_.at(id));
  }

  // Calls go through a node that is filled in once the rule is built.
  uint32_t start_of(Grammar::Rule r) {
    if (rule_start_[r] == kUnset) {
      rule_start_[r] = add_node({.op = Op::call, .next = Program::kEnd});
      wanted_.push_back(r);
    }
    return rule_start_[r];
  }

  // --- the shortest ways ---

  std::pair<uint64_t, uint32_t> shortest(const Program::Node& n) const {
    const auto& nodes = program_->nodes_;
    const Program::Node& next = nodes[n.next];
    switch (n.op) {
      case Op::accept:
      case Op::end:
        return {0, 0};
      case Op::terminal:
        return {add(program_->terminals_[n.target]->distance(0, 0), next.length), next.height};
      case Op::call:
        return {add(nodes[n.target].length, next.length), std::max(1 + nodes[n.target].height, next.height)};
      case Op::choice: {
        std::pair<uint64_t, uint32_t> best{Program::kNever, 0};
        for (uint32_t i = 0; i < n.count; ++i) {
          const Program::Node& c = nodes[program_->choices_[n.target + i]];
          if (c.length != Program::kNever) best = std::min(best, {c.length, c.height});
        }
        return best;
      }
      case Op::loop: {
        const Program::Node& body = nodes[n.target];
        if (n.min == 0) return {next.length, next.height};
        return {add(times(n.min, body.length), next.length), std::max(1 + body.height, next.height)};
      }
    }
    return {Program::kNever, 0};
  }

  void find_lengths() {
    auto& nodes = program_->nodes_;
    std::vector<std::vector<uint32_t>> users(nodes.size());
    for (uint32_t i = 2; i < nodes.size(); ++i) {
      const Program::Node& n = nodes[i];
      if (n.op == Op::choice)
        for (uint32_t k = 0; k < n.count; ++k) users[program_->choices_[n.target + k]].push_back(i);
      else
        users[n.next].push_back(i);
      if (n.op == Op::call || n.op == Op::loop) users[n.target].push_back(i);
    }
    std::deque<uint32_t> todo;
    std::vector<uint8_t> queued(nodes.size(), 1);
    for (uint32_t i = 0; i < nodes.size(); ++i) todo.push_back(i);
    while (!todo.empty()) {
      uint32_t i = todo.front();
      todo.pop_front();
      queued[i] = 0;
      meter_.spend(1 + (nodes[i].op == Op::choice ? nodes[i].count : 0));
      auto [length, height] = shortest(nodes[i]);
      if (length == nodes[i].length && (height == nodes[i].height || length == Program::kNever)) {
        if (i >= 2) continue;
      }
      nodes[i].length = length;
      nodes[i].height = height;
      for (uint32_t u : users[i])
        if (!queued[u]) queued[u] = 1, todo.push_back(u);
    }
  }

  void order_choices() {
    const auto& nodes = program_->nodes_;
    for (const Program::Node& n : nodes)
      if (n.op == Op::choice)
        std::stable_sort(program_->choices_.begin() + n.target, program_->choices_.begin() + n.target + n.count,
                         [&](uint32_t a, uint32_t b) {
                           return std::pair(nodes[a].length, nodes[a].height) <
                                  std::pair(nodes[b].length, nodes[b].height);
                         });
  }

  Grammar g_;
  const TokenTrie& trie_;
  const CompileLimits& limits_;
  Meter meter_;
  std::unique_ptr<Program> program_;
  std::vector<uint8_t> nullable_;
  std::vector<Shape> shapes_;
  std::unordered_map<Id, std::optional<Dfa>> dfas_;
  std::unordered_map<const Terminal*, uint32_t> terminal_index_;
  std::vector<uint32_t> rule_start_;
  std::vector<Grammar::Rule> wanted_;
  int depth_ = 0;
};

std::unique_ptr<const Program> Program::compile(const Grammar& grammar, const TokenTrie& trie,
                                                const CompileLimits& limits) {
  return ProgramBuilder(grammar, trie, limits).run();
}

}  // namespace tenon::text::grammar
