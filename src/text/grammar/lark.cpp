#include "text/grammar/lark.h"

#include <optional>

#include "text/grammar/ebnf_scanner.h"
#include "text/grammar/regex_grammar.h"
#include "text/grammar/regular.h"
#include "text/unicode.h"

namespace tenon::text::grammar {
namespace {

using Id = Grammar::Id;

class Reader {
 public:
  explicit Reader(std::string_view text) : in_(text), names_(g_), meter_(20'000'000) {}

  Grammar run() {
    find_ignored();
    in_.seek(0);
    for (lines(); in_.more(); lines()) {
      if (in_.take("%ignore")) {
        rest_of_line();
        continue;
      }
      if (in_.peek() == '%') in_.unsupported("this directive");
      definition();
    }
    if (!names_.has("start")) in_.bad("there is no rule \"start\"");
    Id start = g_.call(names_.rule("start"));
    g_.set_root(ignored_ ? g_.sequence({*ignored_, start}) : start);
    return std::move(g_);
  }

 private:
  // Ignored terminals may stand behind every terminal of a rule.
  void find_ignored() {
    std::vector<Id> ways;
    for (lines(); in_.more(); lines()) {
      if (!in_.take("%ignore")) {
        rest_of_line();
        continue;
      }
      in_terminal_ = true;
      blanks();
      ways.push_back(g_.choice(alternatives()));
      in_terminal_ = false;
    }
    if (ways.empty()) return;
    // Bounded, as white space is everywhere.
    ignored_ = g_.repeat(g_.choice(std::move(ways)), 0, 16);
  }

  void blanks() {
    while (in_.peek() == ' ' || in_.peek() == '\t') in_.skip(1);
  }
  void rest_of_line() {
    while (in_.more() && in_.peek() != '\n') in_.skip(1);
  }
  bool comment() {
    if (in_.peek() != '#' && !(in_.peek() == '/' && in_.peek(1) == '/')) return false;
    rest_of_line();
    return true;
  }
  void lines() {
    while (in_.more() &&
           (in_.peek() == '\n' || in_.peek() == '\r' || in_.peek() == ' ' || in_.peek() == '\t' || comment()))
      if (in_.more() && in_.peek() != '#') in_.skip(1);
  }

  void definition() {
    while (in_.peek() == '!' || in_.peek() == '?') in_.skip(1);
    std::string name = in_.name();
    if (name.empty()) in_.bad("a rule's name is missing");
    const size_t letter = name.find_first_not_of('_');
    in_terminal_ = letter != std::string::npos && name[letter] >= 'A' && name[letter] <= 'Z';
    if (in_.peek() == '{') in_.unsupported("a template");
    if (in_.take(".")) in_.number();  // a priority, which chooses between trees
    blanks();
    if (!in_.take(":")) in_.bad("a ':' is missing");
    names_.define(name, alternatives());
    in_terminal_ = false;
  }

  // Alternatives may go on in the next line with a '|'.
  bool more_ways() {
    const size_t here = in_.offset();
    if (depth_ > 1) {
      lines();
    } else {
      blanks();
      comment();
      if (in_.peek() == '\n' || in_.peek() == '\r') lines();
    }
    if (in_.take("|")) return true;
    in_.seek(here);
    return false;
  }

  std::vector<Id> alternatives() {
    if (++depth_ > 100) in_.bad("nested too deeply");
    std::vector<Id> ways;
    do ways.push_back(sequence());
    while (more_ways());
    --depth_;
    return ways;
  }

  Id sequence() {
    std::vector<Id> parts;
    for (;;) {
      if (depth_ > 1)
        lines();
      else
        blanks();
      char c = in_.peek();
      if (!in_.more() || c == '|' || c == ')' || c == ']' || c == '\n' || c == '\r' || c == '#' ||
          (c == '/' && in_.peek(1) == '/'))
        break;
      if (in_.take("->")) {
        blanks();
        in_.name();
        break;
      }
      parts.push_back(repeated());
    }
    return g_.sequence(std::move(parts));
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
      else if (in_.take("~")) {
        blanks();
        min = max = in_.number();
        if (in_.take("..")) max = in_.number();
        if (max < min) in_.bad("bounds in the wrong order");
      } else
        return id;
      id = g_.repeat(id, min, max);
    }
  }

  Id item() {
    if (in_.take("(")) return group(")", false);
    if (in_.take("[")) return group("]", true);
    if (in_.peek() == '"') return spaced(literal());
    if (in_.take("/")) return spaced(pattern());
    if (in_.peek() == '<') in_.unsupported("a special token");
    std::string name = in_.name();
    if (name.empty()) in_.bad("an unexpected character");
    Id call = g_.call(names_.rule(name));
    const size_t letter = name.find_first_not_of('_');
    return letter != std::string::npos && name[letter] >= 'A' && name[letter] <= 'Z' ? spaced(call) : call;
  }

  Id spaced(Id terminal) { return ignored_ && !in_terminal_ ? g_.sequence({terminal, *ignored_}) : terminal; }

  Id group(std::string_view close, bool optional) {
    Id id = g_.choice(alternatives());
    lines();
    if (!in_.take(close)) in_.bad("a bracket is not closed");
    return optional ? g_.optional(id) : id;
  }

  std::string quoted() {
    in_.skip(1);
    std::string bytes;
    while (!in_.take("\"")) {
      if (!in_.more()) in_.bad("a literal without end");
      append_utf8(bytes, in_.take("\\") ? in_.escaped() : in_.character());
    }
    return bytes;
  }

  Id any_case(std::string_view text) {
    std::vector<Id> parts;
    for (char c : text) {
      if (static_cast<uint8_t>(c) >= 0x80) in_.unsupported("a literal in any case beyond ASCII");
      CharRanges set = CharRanges::one(static_cast<char32_t>(c));
      if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        set.add(static_cast<char32_t>(c ^ 0x20), static_cast<char32_t>(c ^ 0x20));
      parts.push_back(g_.chars(set));
    }
    return g_.sequence(std::move(parts));
  }

  Id literal() {
    std::string text = quoted();
    if (in_.take("..")) {
      if (in_.peek() != '"') in_.bad("the end of a range is missing");
      std::string to = quoted();
      if (count_characters(text) != 1 || count_characters(to) != 1)
        in_.bad("a range between what is not one character");
      return g_.chars(CharRanges::range(decode_utf8(text.data()).value, decode_utf8(to.data()).value));
    }
    if (in_.peek() == 'i' && !EbnfScanner::name_byte(in_.peek(1))) {
      in_.skip(1);
      return any_case(text);
    }
    return g_.text(text);
  }

  Id pattern() {
    std::string source;
    while (!in_.take("/")) {
      if (!in_.more() || in_.peek() == '\n') in_.bad("a regular expression without end");
      if (in_.peek() == '\\' && in_.peek(1) == '/')
        in_.skip(1);
      else if (in_.peek() == '\\')
        source.push_back(in_.peek()), in_.skip(1);
      source.push_back(in_.peek());
      in_.skip(1);
    }
    if (in_.peek() >= 'a' && in_.peek() <= 'z') in_.unsupported("a regular expression with flags");
    return g_.terminal(regular(g_, add_regex(g_, source), Spelling::plain, {}, meter_));
  }

  Grammar g_;
  EbnfScanner in_;
  RuleNames names_;
  Meter meter_;
  std::optional<Id> ignored_;
  bool in_terminal_ = false;
  int depth_ = 0;
};

}  // namespace

Grammar lark_grammar(std::string_view text) { return Reader(text).run(); }

}  // namespace tenon::text::grammar
