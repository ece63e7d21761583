#include "text/grammar/regex_grammar.h"

#include <optional>

#include "text/grammar/regular.h"
#include "text/unicode.h"

namespace tenon::text::grammar {
namespace {

using Id = Grammar::Id;

// A class of characters on which dialects differ (ASCII or Unicode): `narrow` belongs to it in all, `wide` in some.
struct Class {
  CharRanges narrow, wide;
};

template <class F>
CharRanges characters_where(F&& belongs) {
  CharRanges out;
  char32_t first = 0;
  bool open = false;
  for (char32_t c = 0; c <= CharRanges::kLast + 1; ++c) {
    const bool in = c <= CharRanges::kLast && belongs(c);
    if (in && !open) first = c;
    if (!in && open) out.add(first, c - 1);
    open = in;
  }
  return out;
}

const Class& digits() {
  static const Class c{CharRanges::range('0', '9'),
                       characters_where([](char32_t x) { return scan_class(x) & kNumber; })};
  return c;
}

const Class& words() {
  static const Class c = [] {
    Class w{CharRanges::range('0', '9'), characters_where([](char32_t x) {
              return (scan_class(x) & (kLetter | kNumber | kMark)) || has_flag(x, kWord);
            })};
    w.narrow.add('A', 'Z');
    w.narrow.add('a', 'z');
    w.narrow.add('_', '_');
    w.wide.add(w.narrow);
    return w;
  }();
  return c;
}

const Class& spaces() {
  static const Class c = [] {
    Class s{CharRanges::one(' '), characters_where([](char32_t x) { return scan_class(x) & kSpace; })};
    s.narrow.add('\t', '\r');
    s.wide.add(s.narrow);
    s.wide.add(0x1C, 0x1F);  // Python
    s.wide.add(0x85, 0x85);
    s.wide.add(0xFEFF, 0xFEFF);  // JavaScript
    s.wide.add(0x180E, 0x180E);
    return s;
  }();
  return c;
}

Class negated(const Class& c) { return {c.wide.complement(), c.narrow.complement()}; }

Class just(CharRanges r) { return {r, r}; }

// \p{L}, \p{Lu}: categories by their names.
std::optional<CharRanges> category(std::string_view name) {
  using namespace unicode_tables;
  if (name.empty() || name.size() > 2) return std::nullopt;
  bool known = false;
  for (size_t i = 0; i < 30 && kCategoryNames[i] != nullptr; ++i)
    known |= std::string_view(kCategoryNames[i]).starts_with(name);
  if (!known) return std::nullopt;
  return characters_where(
      [&](char32_t c) { return std::string_view(kCategoryNames[char_record(c).category]).starts_with(name); });
}

class Parser {
 public:
  Parser(Grammar& g, std::string_view pattern) : g_(g), p_(pattern) {}

  Id run() {
    Id id = alternation();
    if (at_ < p_.size()) bad("an unmatched ')'");
    return id;
  }

 private:
  [[noreturn]] void bad(std::string_view what) const {
    fail(ErrorCode::invalid_argument, "pattern \"{}\": {} at offset {}", printable(p_), what, at_);
  }
  [[noreturn]] void unsupported(std::string_view what) const {
    fail(ErrorCode::unsupported, "pattern \"{}\": {} at offset {} cannot be enforced", printable(p_), what, at_);
  }
  bool more() const { return at_ < p_.size(); }
  char peek() const { return more() ? p_[at_] : '\0'; }
  bool take(std::string_view s) {
    if (!p_.substr(at_).starts_with(s)) return false;
    at_ += s.size();
    return true;
  }
  char32_t character() {
    Utf8Step s = utf8_step(p_.substr(at_));
    if (!s.complete) bad("invalid UTF-8");
    CodePoint c = decode_utf8(p_.data() + at_);
    at_ += c.bytes;
    return c.value;
  }

  Id alternation() {
    if (++depth_ > 100) bad("groups nested too deeply");
    std::vector<Id> ways{sequence()};
    while (take("|")) ways.push_back(sequence());
    --depth_;
    return g_.choice(std::move(ways));
  }

  Id sequence() {
    std::vector<Id> parts;
    while (more() && peek() != '|' && peek() != ')') parts.push_back(quantified());
    return g_.sequence(std::move(parts));
  }

  Id quantified() {
    Id id = atom();
    for (bool any = false;; any = true) {
      uint64_t min = 0, max = kUnbounded;
      if (take("*"))
        min = 0;
      else if (take("+"))
        min = 1;
      else if (take("?"))
        max = 1;
      else if (!bounds(min, max))
        return id;
      if (any) bad("a repeated repetition");
      if (peek() == '+') unsupported("a possessive repetition");
      take("?");
      id = g_.repeat(id, min, max);
    }
  }

  // {n}, {n,}, {n,m}; false, nothing read: a brace that means itself.
  bool bounds(uint64_t& min, uint64_t& max) {
    const size_t start = at_;
    auto number = [&](uint64_t& value) {
      const size_t from = at_;
      for (value = 0; more() && peek() >= '0' && peek() <= '9'; ++at_) {
        value = value * 10 + static_cast<uint64_t>(peek() - '0');
        if (value > 1'000'000'000'000u) bad("a bound out of range");
      }
      return at_ > from;
    };
    if (!take("{")) return false;
    bool has_min = number(min), ok = has_min;
    max = min;
    if (take(",")) {
      max = kUnbounded;
      uint64_t value = 0;
      if (number(value)) max = value, ok = true;
    }
    if (!ok || !take("}")) {
      at_ = start;
      return false;
    }
    if (max < min) bad("bounds in the wrong order");
    return true;
  }

  Id atom() {
    if (take("(")) return group();
    if (take("[")) return g_.chars(char_class());
    if (take(".")) {
      CharRanges line_ends = CharRanges::one('\n');
      line_ends.add('\r', '\r');
      line_ends.add(0x2028, 0x2029);
      return g_.chars(line_ends.complement());
    }
    if (take("^")) return g_.begin();
    if (take("$")) return g_.end();
    if (peek() == '*' || peek() == '+' || peek() == '?') bad("nothing to repeat");
    if (take("\\")) return escape_outside();
    return g_.chars(CharRanges::one(character()));
  }

  Id group() {
    if (take("?")) {
      if (take(":")) {
      } else if (take("P<") || (peek() == '<' && p_.substr(at_, 2) != "<=" && p_.substr(at_, 2) != "<!" && take("<"))) {
        while (more() && peek() != '>') ++at_;
        if (!take(">")) bad("a group's name without end");
      } else if (peek() == '=' || peek() == '!' || peek() == '<') {
        unsupported("look-around");
      } else {
        unsupported("a group with flags");
      }
    }
    Id id = alternation();
    if (!take(")")) bad("a group without ')'");
    return id;
  }

  Id escape_outside() {
    if (take("A")) return g_.begin();
    if (take("Z") || take("z")) return g_.end();
    if (peek() == 'b' || peek() == 'B') unsupported("a word boundary");
    if (peek() >= '1' && peek() <= '9') unsupported("a back reference");
    if (peek() == 'k') unsupported("a back reference");
    return g_.chars(escape().narrow);
  }

  char32_t hex(size_t digits) {
    char32_t v = 0;
    for (size_t i = 0; i < digits; ++i, ++at_) {
      char c = peek();
      int d = c >= '0' && c <= '9'   ? c - '0'
              : c >= 'a' && c <= 'f' ? c - 'a' + 10
              : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                     : -1;
      if (d < 0) bad("a hexadecimal digit is missing");
      v = v * 16 + static_cast<char32_t>(d);
    }
    return v;
  }

  char32_t unicode_escape() {
    if (take("{")) {
      char32_t v = 0;
      for (size_t n = 0; peek() != '}'; ++n) {
        if (n == 6) bad("a code point out of range");
        v = v * 16 + hex(1);
      }
      ++at_;
      if (v > CharRanges::kLast) bad("a code point out of range");
      return v;
    }
    char32_t v = hex(4);
    if (v >= 0xD800 && v < 0xDC00 && take("\\u")) {
      char32_t low = hex(4);
      if (low < 0xDC00 || low > 0xDFFF) bad("half a surrogate pair");
      return 0x10000 + ((v - 0xD800) << 10) + (low - 0xDC00);
    }
    return v;
  }

  // Behind a backslash.
  Class escape() {
    if (!more()) bad("a backslash at the end");
    auto is = [&](char32_t c) { return just(CharRanges::one(c)); };
    switch (char c = peek(); c) {
      case 'd':
        ++at_;
        return digits();
      case 'D':
        ++at_;
        return negated(digits());
      case 'w':
        ++at_;
        return words();
      case 'W':
        ++at_;
        return negated(words());
      case 's':
        ++at_;
        return spaces();
      case 'S':
        ++at_;
        return negated(spaces());
      case 'n':
        ++at_;
        return is('\n');
      case 'r':
        ++at_;
        return is('\r');
      case 't':
        ++at_;
        return is('\t');
      case 'f':
        ++at_;
        return is('\f');
      case 'v':
        ++at_;
        return is('\v');
      case 'a':
        ++at_;
        return is('\a');
      case '0':
        ++at_;
        return is(0);
      case 'x':
        ++at_;
        return is(hex(2));
      case 'u':
        ++at_;
        return is(unicode_escape());
      case 'U':
        ++at_;
        return is(hex(8));
      case 'p':
      case 'P':
        return property();
      default: {
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) bad("an unknown escape");
        return is(character());
      }
    }
  }

  Class property() {
    const bool no = p_[at_++] == 'P';
    std::string_view name;
    if (take("{")) {
      size_t end = p_.find('}', at_);
      if (end == std::string_view::npos) bad("a property without '}'");
      name = p_.substr(at_, end - at_);
      at_ = end + 1;
    } else {
      name = p_.substr(at_, 1);
      at_ += name.size();
    }
    auto found = category(name);
    if (!found) unsupported("this Unicode property");
    return just(no ? found->complement() : *found);
  }

  CharRanges char_class() {
    const bool no = take("^");
    Class all;
    for (bool first = true; first || peek() != ']'; first = false) {
      if (!more()) bad("a class without ']'");
      if (first && peek() == ']') {  // JavaScript: an empty class; Python: a member
        unsupported("']' at the start of a class");
      }
      if (p_.substr(at_, 2) == "[:") unsupported("a POSIX class");
      Class item = class_item();
      if (peek() == '-' && at_ + 1 < p_.size() && p_[at_ + 1] != ']') {
        ++at_;
        Class to = class_item();
        auto single = [](const Class& c) {
          const auto& r = c.narrow.ranges();
          return r.size() == 1 && r[0].first == r[0].last;
        };
        if (!single(item) || !single(to)) bad("a range whose end is not a character");
        char32_t low = item.narrow.ranges()[0].first, high = to.narrow.ranges()[0].first;
        if (low > high) bad("a range in the wrong order");
        item = just(CharRanges::range(low, high));
      }
      all.narrow.add(item.narrow);
      all.wide.add(item.wide);
    }
    ++at_;
    return no ? all.wide.complement() : all.narrow;
  }

  Class class_item() {
    if (take("\\")) {
      if (take("b")) return just(CharRanges::one('\b'));
      return escape();
    }
    return just(CharRanges::one(character()));
  }

  Grammar& g_;
  std::string_view p_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Grammar::Id add_regex(Grammar& grammar, std::string_view pattern) { return Parser(grammar, pattern).run(); }

namespace {

bool has_assertion(const Grammar& g) {
  for (Id i = 0; i < g.size(); ++i)
    if (g.at(i).kind == Grammar::Kind::begin || g.at(i).kind == Grammar::Kind::end) return true;
  return false;
}

// The pattern without the anchors around it, which say nothing of a whole output; with alternatives they do.
std::string_view unanchored(std::string_view p) {
  if (p.find('|') != std::string_view::npos) return p;
  if (p.starts_with("^")) p.remove_prefix(1);
  size_t slashes = 0;
  while (p.size() >= slashes + 2 && p[p.size() - 2 - slashes] == '\\') ++slashes;
  if (p.ends_with("$") && slashes % 2 == 0) p.remove_suffix(1);
  return p;
}

}  // namespace

Grammar regex_grammar(std::string_view pattern) {
  // As it is written where there are no assertions: compile() counts what repeats instead of unrolling it.
  for (std::string_view p : {pattern, unanchored(pattern)}) {
    Grammar g;
    Id id = add_regex(g, p);
    if (has_assertion(g)) continue;
    g.set_root(id);
    return g;
  }
  Grammar g;
  Id id = add_regex(g, pattern);
  Meter meter(20'000'000);
  g.set_root(g.terminal(regular(g, id, text::grammar::Spelling::plain, {}, meter)));
  return g;
}

}  // namespace tenon::text::grammar
