#include "text/grammar/grammar.h"

namespace tenon::text::grammar {

Grammar::Id Grammar::add(Expr e) {
  constexpr size_t kMost = 2'000'000;
  if (exprs_.size() >= kMost)
    fail(ErrorCode::invalid_argument, "the grammar is too complex: more than {} expressions", kMost);
  exprs_.push_back(std::move(e));
  return static_cast<Id>(exprs_.size() - 1);
}

Grammar::Id Grammar::text(std::string_view bytes) { return add({.kind = Kind::text, .text = std::string(bytes)}); }

Grammar::Id Grammar::chars(CharRanges set) { return add({.kind = Kind::chars, .chars = std::move(set)}); }

Grammar::Id Grammar::sequence(std::vector<Id> parts) {
  if (parts.size() == 1) return parts[0];
  return add({.kind = Kind::sequence, .parts = std::move(parts)});
}

Grammar::Id Grammar::choice(std::vector<Id> parts) {
  if (parts.size() == 1) return parts[0];
  return add({.kind = Kind::choice, .parts = std::move(parts)});
}

Grammar::Id Grammar::repeat(Id part, uint64_t min, uint64_t max) {
  if (min == 1 && max == 1) return part;
  return add({.kind = Kind::repeat, .parts = {part}, .min = min, .max = max});
}

Grammar::Id Grammar::call(Rule rule) { return add({.kind = Kind::call, .rule = rule}); }

Grammar::Id Grammar::terminal(Dfa dfa) {
  return add({.kind = Kind::terminal, .dfa = std::make_shared<const Dfa>(std::move(dfa))});
}

Grammar::Id Grammar::special_token(std::string_view spelling) { return text(special_spelling(spelling)); }

Grammar::Id Grammar::begin() { return add({.kind = Kind::begin}); }
Grammar::Id Grammar::end() { return add({.kind = Kind::end}); }

Grammar::Rule Grammar::add_rule(std::string name) {
  names_.push_back(std::move(name));
  rules_.push_back(kUndefined);
  return static_cast<Rule>(rules_.size() - 1);
}

}  // namespace tenon::text::grammar
