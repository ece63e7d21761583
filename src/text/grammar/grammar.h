// The one form that every front end (JSON Schema, regular expressions, choices, GBNF, Lark, tool calls) produces: rules
// of expressions over characters. compile() in constraint.h turns it into an automaton.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/char_ranges.h"
#include "text/grammar/dfa.h"

namespace tenon::text::grammar {

constexpr uint64_t kUnbounded = ~uint64_t{0};

class Grammar {
 public:
  using Id = uint32_t;    // an expression
  using Rule = uint32_t;  // a named expression that may call itself

  enum class Kind : uint8_t {
    text,      // these bytes
    chars,     // one character of a set
    sequence,  // parts in order; none: the empty text
    choice,    // any of the parts; none: nothing matches
    repeat,    // the part, between min and max times
    call,      // a rule
    terminal,  // an automaton
    begin,     // assertions, in regular expressions only
    end,
  };
  struct Expr {
    Kind kind;
    std::string text;
    CharRanges chars;
    std::vector<Id> parts;
    uint64_t min = 0, max = 0;
    Rule rule = 0;
    std::shared_ptr<const Dfa> dfa;
  };

  Id text(std::string_view bytes);
  Id chars(CharRanges set);
  Id sequence(std::vector<Id> parts);
  Id choice(std::vector<Id> parts);
  Id repeat(Id part, uint64_t min, uint64_t max = kUnbounded);
  Id optional(Id part) { return repeat(part, 0, 1); }
  Id call(Rule rule);
  Id terminal(Dfa dfa);
  // A special token: matched by that token alone, never by tokens that spell the same text.
  Id special_token(std::string_view spelling);
  Id begin();
  Id end();

  Rule add_rule(std::string name);  // to be defined before compilation; the name is for messages
  const std::string& name(Rule rule) const { return names_[rule]; }
  void define(Rule rule, Id body) { rules_[rule] = body; }
  void set_root(Id root) { root_ = root; }

  const Expr& at(Id id) const { return exprs_[id]; }
  size_t size() const { return exprs_.size(); }
  Id root() const { return root_; }
  size_t rules() const { return rules_.size(); }
  Id body(Rule rule) const { return rules_[rule]; }
  static constexpr Id kUndefined = 0xFFFFFFFF;

 private:
  Id add(Expr e);
  std::vector<Expr> exprs_;
  std::vector<Id> rules_;
  std::vector<std::string> names_;
  Id root_ = kUndefined;
};

// Around the name of a special token in the vocabulary's trie and in grammars: no text has this byte, and no special
// token is the beginning of another.
constexpr char kSpecialMark = '\xFF';
inline std::string special_spelling(std::string_view name) { return kSpecialMark + std::string(name) + kSpecialMark; }

}  // namespace tenon::text::grammar
