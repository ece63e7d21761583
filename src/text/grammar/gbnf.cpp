#include "text/grammar/gbnf.h"

#include "text/grammar/ebnf_scanner.h"
#include "text/unicode.h"

namespace tenon::text::grammar {
namespace {

using Id = Grammar::Id;

class Reader {
 public:
  explicit Reader(std::string_view text) : in_(text), names_(g_) {}

  Grammar run() {
    std::string first;
    for (blank(); in_.more(); blank()) {
      std::string name = in_.name();
      if (name.empty()) in_.bad("a rule's name is missing");
      blank();
      if (!in_.take("::=") && !in_.take(":")) in_.bad("'::=' is missing");
      if (first.empty()) first = name;
      names_.define(name, alternatives());
    }
    if (first.empty()) in_.bad("there is no rule");
    g_.set_root(g_.call(names_.rule(names_.has("root") ? "root" : first)));
    return std::move(g_);
  }

 private:
  void blank() {
    while (in_.more()) {
      char c = in_.peek();
      if (c == '#') {
        while (in_.more() && in_.peek() != '\n') in_.skip(1);
      } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        in_.skip(1);
      } else {
        return;
      }
    }
  }

  // A name that is followed by ::= begins the next rule.
  bool next_rule() {
    const size_t here = in_.offset();
    std::string name = in_.name();
    blank();
    bool is = !name.empty() && (in_.take("::=") || (in_.peek() == ':' && in_.take(":")));
    in_.seek(here);
    return is;
  }

  std::vector<Id> alternatives() {
    if (++depth_ > 100) in_.bad("nested too deeply");
    std::vector<Id> ways;
    do {
      std::vector<Id> parts;
      for (blank(); in_.more() && in_.peek() != '|' && in_.peek() != ')' && !next_rule(); blank())
        parts.push_back(repeated());
      ways.push_back(g_.sequence(std::move(parts)));
    } while (in_.take("|"));
    --depth_;
    return ways;
  }

  Id repeated() {
    Id id = item();
    for (;;) {
      uint64_t min = 0, max = kUnbounded;
      if (in_.take("*"))
        min = 0;
      else if (in_.take("+"))
        min = 1;
      else if (in_.take("?"))
        max = 1;
      else if (in_.take("{"))
        in_.bounds(min, max);
      else
        return id;
      id = g_.repeat(id, min, max);
    }
  }

  Id item() {
    if (in_.take("(")) {
      Id id = g_.choice(alternatives());
      blank();
      if (!in_.take(")")) in_.bad("a ')' is missing");
      return id;
    }
    if (in_.peek() == '"' || in_.peek() == '\'') return literal();
    if (in_.take("[")) return char_class();
    if (in_.take(".")) return g_.chars(CharRanges::all());
    std::string name = in_.name();
    if (name.empty()) in_.bad("an unexpected character");
    return g_.call(names_.rule(name));
  }

  Id literal() {
    const char quote = in_.peek();
    in_.skip(1);
    std::string bytes;
    while (in_.peek() != quote) {
      if (!in_.more()) in_.bad("a literal without end");
      append_utf8(bytes, in_.take("\\") ? in_.escaped() : in_.character());
    }
    in_.skip(1);
    return g_.text(bytes);
  }

  Id char_class() {
    const bool negated = in_.take("^");
    CharRanges set;
    while (!in_.take("]")) {
      if (!in_.more()) in_.bad("a class without ']'");
      char32_t low = in_.take("\\") ? in_.escaped() : in_.character(), high = low;
      if (in_.peek() == '-' && in_.peek(1) != ']') {
        in_.skip(1);
        high = in_.take("\\") ? in_.escaped() : in_.character();
        if (high < low) in_.bad("a range in the wrong order");
      }
      set.add(low, high);
    }
    return g_.chars(negated ? set.complement() : set);
  }

  Grammar g_;
  EbnfScanner in_;
  RuleNames names_;
  int depth_ = 0;
};

}  // namespace

Grammar gbnf_grammar(std::string_view text) { return Reader(text).run(); }

}  // namespace tenon::text::grammar
