#include "text/regex.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "text/unicode.h"

namespace tenon::text {
namespace {

constexpr int kMaxDepth = 60;            // of groups
constexpr size_t kMaxProgram = 1 << 16;  // instructions
constexpr uint32_t kMaxRepeat = 1000;    // as {n,m} is written out
constexpr uint32_t kUnbounded = ~0u;
constexpr uint64_t kBaseSteps = 20'000'000, kStepsPerByte = 2'000;

enum class Code : uint8_t {
  character,       // a: the character
  set,             // a: index of the set
  any,             // all but \n
  split,           // try a, then b
  jump,            // to a
  span,            // a: set, b: least, c: most, mode
  assertion,       // a: Assertion
  look,            // a: where to go on, b: behind << 1 | negated, c: least | most << 16 characters (behind)
  atomic,          // a: where to go on
  mark,            // a: slot that remembers the position
  check_progress,  // a: slot; fails when nothing was consumed since
  accept
};
enum class Mode : uint8_t { greedy, lazy, possessive };
enum class Assertion : uint32_t {
  text_begin,
  text_end,
  text_end_or_newline,
  line_begin,
  line_end,
  word_boundary,
  no_word_boundary
};

struct Instruction {
  Code code;
  Mode mode = Mode::greedy;
  uint32_t a = 0, b = 0, c = 0;
};

struct Frame {
  enum Kind : uint8_t { branch, span_greedy, span_lazy, restore } kind;
  uint32_t pc;
  size_t position, limit;  // span: positions still to try; restore: slot and old value
  uint32_t set;
};

bool is_word(char32_t c) { return has_flag(c, kWord); }

}  // namespace

struct Regex::Program {
  std::vector<Instruction> code;
  std::vector<CharSet> sets;
  uint32_t slots = 0;
};

// ---- character sets ----

bool CharSet::item_contains(const Item& item, char32_t c) const {
  switch (item.kind) {
    case Kind::range:
      return c >= item.low && c <= item.high;
    case Kind::categories:
      return item.low >> char_record(c).category & 1;
    case Kind::script:
      return char_record(c).script == item.low;
    case Kind::flag:
      return (char_record(c).flags & item.low) != 0;
    case Kind::space:
      return (scan_class(c) & kSpace) != 0;
    case Kind::set:
      return sets_[item.low].contains(c);
  }
  return false;
}

bool CharSet::slow_contains(char32_t c) const {
  bool in = std::any_of(items_.begin(), items_.end(), [&](const Item& i) { return item_contains(i, c) != i.negated; });
  for (const CharSet& s : and_with_) in = in && s.contains(c);
  return in != negated_;
}

void CharSet::seal() {
  ascii_[0] = ascii_[1] = 0;
  for (char32_t c = 0; c < 128; ++c)
    if (slow_contains(c)) ascii_[c >> 6] |= uint64_t{1} << (c & 63);
}

// (?i: every character that folds like a member becomes a member: the first round adds what members fold to, the second
// all that folds to it.
void CharSet::add_case_pairs() {
  if (negated_) {  // members of a negated set are added outside of the negation
    CharSet inner = std::move(*this);
    inner.seal();
    *this = CharSet();
    sets_.push_back(std::move(inner));
    items_.push_back({Kind::set, false, 0, 0});
  }
  const auto& fold = unicode_tables::kFold;
  for (int round = 0; round < 2; ++round) {
    std::vector<Item> more;
    for (uint32_t i = 0; i < fold.count; ++i) {
      char32_t a = fold.keys[i], b = fold.data[fold.offsets[i]];
      bool has_a = slow_contains(a), has_b = slow_contains(b);
      if (has_a != has_b) more.push_back({Kind::range, false, has_a ? b : a, has_a ? b : a});
    }
    items_.insert(items_.end(), more.begin(), more.end());
  }
}

// ---- parsing: text -> tree ----

namespace {

struct Node {
  enum Kind : uint8_t { empty, character, set, any, assertion, sequence, choice, repeat, look, atomic } kind = empty;
  uint32_t value = 0;  // character, set index, assertion, look flags
  uint32_t least = 0, most = 0;
  Mode mode = Mode::greedy;
  std::vector<Node> children;
};

}  // namespace

class RegexParser {
 public:
  RegexParser(std::string_view pattern, RegexDialect dialect, std::string_view source, std::vector<CharSet>& sets)
      : text_(to_utf32(pattern)), pattern_(pattern), dialect_(dialect), source_(source), sets_(sets) {}

  Node parse() {
    Node n = choice(0);
    if (at_ < text_.size()) bad("unmatched )");
    return n;
  }

 private:
  using Kind = CharSet::Kind;

  [[noreturn]] void bad(std::string_view why, ErrorCode code = ErrorCode::invalid_file) const {
    fail(code, "{}: regular expression \"{}\", character {}: {}", source_, printable(pattern_, 120), at_, why);
  }
  bool more() const { return at_ < text_.size(); }
  char32_t peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : 0; }
  bool take(char32_t c) {
    if (!more() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take(const char* s) {
    size_t n = std::strlen(s);
    for (size_t i = 0; i < n; ++i)
      if (at_ + i >= text_.size() || text_[at_ + i] != static_cast<char32_t>(s[i])) return false;
    at_ += n;
    return true;
  }
  char32_t next() {
    if (!more()) bad("ends too early");
    return text_[at_++];
  }

  Node choice(int depth) {
    if (depth > kMaxDepth) bad("groups are nested too deep");
    bool saved = ignore_case_;
    Node n{.kind = Node::choice};
    n.children.push_back(sequence(depth));
    while (take(U'|')) n.children.push_back(sequence(depth));
    ignore_case_ = saved;
    return n.children.size() == 1 ? std::move(n.children[0]) : n;
  }

  Node sequence(int depth) {
    Node n{.kind = Node::sequence};
    while (more() && peek() != U'|' && peek() != U')') n.children.push_back(repeated(atom(depth)));
    return n;
  }

  Node repeated(Node n) {
    for (;;) {
      uint32_t least, most;
      bool braces = false;
      if (take(U'*'))
        least = 0, most = kUnbounded;
      else if (take(U'+'))
        least = 1, most = kUnbounded;
      else if (take(U'?'))
        least = 0, most = 1;
      else if (peek() == U'{' && counts(least, most))
        braces = true;
      else
        return n;
      Mode mode = Mode::greedy;
      if (take(U'?'))
        mode = Mode::lazy;
      else if (peek() == U'+' && !(braces && dialect_ == RegexDialect::oniguruma))
        ++at_, mode = Mode::possessive;
      if (n.kind == Node::look || n.kind == Node::assertion)
        bad("an assertion cannot be repeated", ErrorCode::unsupported);
      Node r{.kind = Node::repeat, .least = least, .most = most, .mode = mode};
      r.children.push_back(std::move(n));
      n = std::move(r);
    }
  }

  // {n}, {n,}, {n,m}, {,m}; anything else is the literal brace.
  bool counts(uint32_t& least, uint32_t& most) {
    size_t saved = at_;
    ++at_;
    auto number = [&]() -> std::optional<uint32_t> {
      if (peek() < U'0' || peek() > U'9') return std::nullopt;
      uint32_t v = 0;
      while (peek() >= U'0' && peek() <= U'9') {
        v = v * 10 + static_cast<uint32_t>(next() - U'0');
        if (v > kMaxRepeat) bad("repeats more often than the bound");
      }
      return v;
    };
    auto a = number();
    bool comma = take(U',');
    auto b = comma ? number() : a;
    if (!take(U'}') || (!a && !b)) {
      at_ = saved;
      return false;
    }
    least = a.value_or(0);
    most = b.value_or(kUnbounded);
    if (most < least) bad("{n,m} with m < n");
    return true;
  }

  Node group(int depth) {
    if (take("?:")) return closed(choice(depth + 1));
    if (take("?=")) return look(depth, 0);
    if (take("?!")) return look(depth, 1);
    if (take("?<=")) return look(depth, 2);
    if (take("?<!")) return look(depth, 3);
    if (take("?>")) {
      Node n{.kind = Node::atomic};
      n.children.push_back(closed(choice(depth + 1)));
      return n;
    }
    if (take("?<") || take("?P<")) {  // a name; captures are not kept
      while (next() != U'>') {
      }
      return closed(choice(depth + 1));
    }
    if (take(U'?')) return flags(depth);
    return closed(choice(depth + 1));
  }

  // (?i) to the end of the group, (?i:...), (?-i:...).
  Node flags(int depth) {
    bool on = true, ignore = ignore_case_;
    for (char32_t c = next(); c != U')' && c != U':'; c = next()) {
      if (c == U'-')
        on = false;
      else if (c == U'i')
        ignore = on;
      else
        bad("an option other than i", ErrorCode::unsupported);
    }
    if (text_[at_ - 1] == U')') {
      ignore_case_ = ignore;
      return {};
    }
    bool saved = ignore_case_;
    ignore_case_ = ignore;
    Node n = closed(choice(depth + 1));
    ignore_case_ = saved;
    return n;
  }

  Node closed(Node n) {
    if (!take(U')')) bad("a group is not closed");
    return n;
  }

  Node look(int depth, uint32_t flags) {
    Node n{.kind = Node::look, .value = flags};
    n.children.push_back(closed(choice(depth + 1)));
    if (flags & 2) {
      width(n.children[0], n.least, n.most);
      if (n.most > 255) bad("look-behind of unbounded length", ErrorCode::unsupported);
    }
    return n;
  }

  static void width(const Node& n, uint32_t& least, uint32_t& most) {
    auto add = [](uint32_t a, uint32_t b) { return a >= kUnbounded - b ? kUnbounded : a + b; };
    least = most = 0;
    switch (n.kind) {
      case Node::character:
      case Node::set:
      case Node::any:
        least = most = 1;
        return;
      case Node::empty:
      case Node::assertion:
      case Node::look:
        return;
      case Node::sequence:
      case Node::atomic:
      case Node::choice:
        for (size_t i = 0; i < n.children.size(); ++i) {
          uint32_t a, b;
          width(n.children[i], a, b);
          if (n.kind == Node::choice && i > 0)
            least = std::min(least, a), most = std::max(most, b);
          else
            least = add(least, a), most = add(most, b);
        }
        return;
      case Node::repeat: {
        uint32_t a, b;
        width(n.children[0], a, b);
        least = a * n.least;
        most = b == 0                                                                           ? 0
               : (n.most == kUnbounded || b == kUnbounded || b > 100000 / std::max(n.most, 1u)) ? kUnbounded
                                                                                                : b * n.most;
        return;
      }
    }
  }

  Node atom(int depth) {
    char32_t c = next();
    auto assertion = [](Assertion a) { return Node{.kind = Node::assertion, .value = static_cast<uint32_t>(a)}; };
    const bool onig = dialect_ == RegexDialect::oniguruma;
    switch (c) {
      case U'(':
        return group(depth);
      case U'[':
        return set_node(bracket(depth));
      case U'.':
        return {.kind = Node::any};
      case U'^':
        return assertion(onig ? Assertion::line_begin : Assertion::text_begin);
      case U'$':
        return assertion(onig ? Assertion::line_end : Assertion::text_end);
      case U'*':
      case U'+':
      case U'?':
        bad("nothing to repeat");
      case U'\\':
        break;
      default:
        return literal(c);
    }
    switch (peek()) {
      case U'A':
        ++at_;
        return assertion(Assertion::text_begin);
      case U'z':
        ++at_;
        return assertion(Assertion::text_end);
      case U'Z':
        ++at_;
        return assertion(Assertion::text_end_or_newline);
      case U'b':
        ++at_;
        return assertion(Assertion::word_boundary);
      case U'B':
        ++at_;
        return assertion(Assertion::no_word_boundary);
      default:
        break;
    }
    CharSet set;
    if (class_escape(set)) return set_node(std::move(set));
    return literal(escaped_character());
  }

  Node literal(char32_t c) {
    if (ignore_case_) {
      CharSet set;
      set.items_.push_back({Kind::range, false, c, c});
      return set_node(std::move(set));
    }
    return {.kind = Node::character, .value = c};
  }

  Node set_node(CharSet set) {
    if (ignore_case_) set.add_case_pairs();
    set.seal();
    sets_.push_back(std::move(set));
    return {.kind = Node::set, .value = static_cast<uint32_t>(sets_.size() - 1)};
  }

  // After the backslash: \d \w \s \h \p{..} and their complements. Leaves the place alone when it is something else.
  bool class_escape(CharSet& set) {
    char32_t c = peek();
    bool negated = c < 128 && c >= U'A' && c <= U'Z';
    switch (c) {
      case U'd':
      case U'D':
        set.items_.push_back({Kind::categories, negated, category_mask("Nd"), 0});
        break;
      case U'w':
      case U'W':
        set.items_.push_back({Kind::flag, negated, kWord, 0});
        break;
      case U's':
      case U'S':
        set.items_.push_back({Kind::space, negated, 0, 0});
        break;
      case U'p':
      case U'P':
        ++at_;
        property(set, negated);
        return true;
      case U'h':
      case U'H': {
        CharSet hex;
        for (auto [a, b] : {std::pair{U'0', U'9'}, {U'a', U'f'}, {U'A', U'F'}})
          hex.items_.push_back({Kind::range, false, a, b});
        hex.negated_ = negated;
        nest(set, std::move(hex));
        break;
      }
      default:
        return false;
    }
    ++at_;
    return true;
  }

  static void nest(CharSet& set, CharSet inner) {
    inner.seal();
    set.sets_.push_back(std::move(inner));
    set.items_.push_back({Kind::set, false, static_cast<uint32_t>(set.sets_.size() - 1), 0});
  }

  static uint32_t category_mask(std::string_view name) {
    uint32_t mask = 0;
    for (uint32_t i = 0; i < 30; ++i) {
      std::string_view known = unicode_tables::kCategoryNames[i];
      if (name == known || (name.size() == 1 && name[0] == known[0])) mask |= 1u << i;
    }
    return mask;
  }

  // Case, spaces, hyphens and underscores of property names do not count.
  static std::string plain_name(std::string_view name) {
    std::string out;
    for (char c : name)
      if (c != ' ' && c != '-' && c != '_') out += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    return out;
  }

  void property(CharSet& set, bool negated) {
    std::string name;
    if (take(U'{')) {
      if (take(U'^')) negated = !negated;
      for (char32_t c = next(); c != U'}'; c = next()) append_utf8(name, c);
    } else {
      append_utf8(name, next());
    }
    named_property(set, name, negated);
  }

  void named_property(CharSet& set, const std::string& name, bool negated) {
    static constexpr std::pair<const char*, const char*> kLongNames[] = {{"letter", "L"},
                                                                         {"mark", "M"},
                                                                         {"number", "N"},
                                                                         {"punctuation", "P"},
                                                                         {"symbol", "S"},
                                                                         {"separator", "Z"},
                                                                         {"other", "C"},
                                                                         {"uppercaseletter", "Lu"},
                                                                         {"lowercaseletter", "Ll"},
                                                                         {"titlecaseletter", "Lt"},
                                                                         {"modifierletter", "Lm"},
                                                                         {"otherletter", "Lo"},
                                                                         {"nonspacingmark", "Mn"},
                                                                         {"decimalnumber", "Nd"},
                                                                         {"digit", "Nd"}};
    std::string plain = plain_name(name);
    uint32_t mask = 0;
    for (uint32_t i = 0; i < 30; ++i) {
      std::string known = plain_name(unicode_tables::kCategoryNames[i]);
      if (plain == known || plain == known.substr(0, 1)) mask |= 1u << i;
    }
    if (plain == "lc" || plain == "l&") mask = category_mask("Lu") | category_mask("Ll") | category_mask("Lt");
    for (auto [full, brief] : kLongNames)
      if (!mask && plain == full) mask = category_mask(brief);
    if (mask) {
      set.items_.push_back({Kind::categories, negated, mask, 0});
      return;
    }
    for (uint32_t i = 0; i < unicode_tables::kScriptCount; ++i)
      if (plain == plain_name(unicode_tables::kScriptNames[i])) {
        set.items_.push_back({Kind::script, negated, i, 0});
        return;
      }
    if (!posix(set, plain, negated)) bad(fmt::format("unknown property {}", printable(name)), ErrorCode::unsupported);
  }

  // [:name:] and \p{name}; false when there is no such class.
  bool posix(CharSet& set, std::string_view name, bool negated) {
    auto categories = [&](std::initializer_list<const char*> names) {
      uint32_t mask = 0;
      for (const char* n : names) mask |= category_mask(n);
      set.items_.push_back({Kind::categories, negated, mask, 0});
    };
    auto flag = [&](CharFlag f) { set.items_.push_back({Kind::flag, negated, f, 0}); };
    if (name == "alpha" || name == "alphabetic")
      flag(kPosixAlpha);
    else if (name == "punct")
      flag(kPosixPunct);
    else if (name == "graph")
      flag(kPosixGraph);
    else if (name == "print")
      flag(kPosixPrint);
    else if (name == "word")
      flag(kWord);
    else if (name == "upper" || name == "uppercase")
      flag(kPosixUpper);
    else if (name == "lower" || name == "lowercase")
      flag(kPosixLower);
    else if (name == "cntrl")
      categories({"Cc", "Cf", "Cn", "Co", "Cs"});
    else if (name == "space" || name == "whitespace")
      set.items_.push_back({Kind::space, negated, 0, 0});
    else if (name == "any")
      set.items_.push_back({Kind::range, negated, 0, 0x10FFFF});
    else if (name == "alnum" || name == "blank" || name == "xdigit" || name == "ascii")
      compound(set, name, negated);
    else
      return false;
    return true;
  }

  void compound(CharSet& set, std::string_view name, bool negated) {
    CharSet inner;
    auto range = [&](char32_t a, char32_t b) { inner.items_.push_back({Kind::range, false, a, b}); };
    if (name == "alnum") {
      inner.items_.push_back({Kind::flag, false, kPosixAlpha, 0});
      inner.items_.push_back({Kind::categories, false, category_mask("Nd"), 0});
    } else if (name == "blank") {
      inner.items_.push_back({Kind::categories, false, category_mask("Zs"), 0});
      range(U'\t', U'\t');
    } else if (name == "xdigit") {
      range(U'0', U'9'), range(U'a', U'f'), range(U'A', U'F');
    } else {
      range(0, 127);
    }
    inner.negated_ = negated;
    nest(set, std::move(inner));
  }

  char32_t hex(size_t least, size_t most) {
    char32_t v = 0;
    size_t n = 0;
    for (; n < most && more(); ++n, ++at_) {
      char32_t c = peek();
      if (c >= U'0' && c <= U'9')
        v = v * 16 + (c - U'0');
      else if (c >= U'a' && c <= U'f')
        v = v * 16 + (c - U'a' + 10);
      else if (c >= U'A' && c <= U'F')
        v = v * 16 + (c - U'A' + 10);
      else
        break;
    }
    if (n < least) bad("hexadecimal digits are missing");
    if (v > 0x10FFFF) bad("no such character");
    return v;
  }

  char32_t escaped_character() {
    char32_t c = next();
    switch (c) {
      case U't':
        return U'\t';
      case U'n':
        return U'\n';
      case U'r':
        return U'\r';
      case U'f':
        return U'\f';
      case U'v':
        return U'\v';
      case U'a':
        return U'\a';
      case U'e':
        return 0x1B;
      case U'u':
        return take(U'{') ? braced_hex() : hex(4, 4);
      case U'x':
        return take(U'{') ? braced_hex() : hex(1, 2);
      case U'0':
        return 0;
      default:
        if ((c >= U'1' && c <= U'9') || (c < 128 && ((c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z'))))
          bad(fmt::format("\\{}", static_cast<char>(c)), ErrorCode::unsupported);
        return c;
    }
  }

  char32_t braced_hex() {
    char32_t v = hex(1, 8);
    if (!take(U'}')) bad("} is missing");
    return v;
  }

  // After the opening bracket.
  CharSet bracket(int depth) {
    if (depth > kMaxDepth) bad("sets are nested too deep");
    CharSet set;
    set.negated_ = take(U'^');
    bool first = true;
    for (;; first = false) {
      char32_t c = next();
      if (c == U']' && !first) break;
      if (c == U'&' && peek() == U'&') {
        ++at_;
        set.and_with_.push_back(rest_of_bracket(depth));
        break;
      }
      if (c == U'[') {
        if (peek() == U':' && posix_bracket(set)) continue;
        nest(set, bracket(depth + 1));
        continue;
      }
      if (c == U'\\') {
        if (class_escape(set)) continue;
        c = peek() == U'b' ? (++at_, U'\b') : escaped_character();
      }
      range_from(set, c);
    }
    return set;
  }

  CharSet rest_of_bracket(int depth) {
    CharSet right = bracket(depth + 1);  // reads up to the bracket that closes the whole set
    right.seal();
    return right;
  }

  void range_from(CharSet& set, char32_t low) {
    char32_t high = low;
    if (peek() == U'-' && peek(1) != U']' && at_ + 1 < text_.size()) {
      size_t saved = at_;
      ++at_;
      char32_t c = next();
      if (c == U'[') {
        at_ = saved;
      } else if (c == U'\\') {
        CharSet ignored;
        if (class_escape(ignored))
          at_ = saved;  // "a-\d": the hyphen is itself
        else
          high = escaped_character();
      } else {
        high = c;
      }
      if (at_ == saved) {
        set.items_.push_back({Kind::range, false, low, low});
        ++at_;
        low = high = U'-';
      }
    }
    if (high < low) bad("a range runs backwards");
    set.items_.push_back({Kind::range, false, low, high});
  }

  bool posix_bracket(CharSet& set) {
    size_t saved = at_;
    ++at_;
    bool negated = take(U'^');
    std::string name;
    while (more() && peek() >= U'a' && peek() <= U'z') name += static_cast<char>(next());
    if (name == "digit")
      set.items_.push_back({Kind::categories, negated, category_mask("Nd"), 0});
    else if (!posix(set, name, negated))
      name.clear();
    if (!name.empty() && take(U':') && take(U']')) return true;
    at_ = saved;
    return false;
  }

  std::u32string text_;
  std::string_view pattern_;
  RegexDialect dialect_;
  std::string_view source_;
  std::vector<CharSet>& sets_;
  size_t at_ = 0;
  bool ignore_case_ = false;
};

// ---- tree -> program ----

namespace {

class Compiler {
 public:
  Compiler(std::vector<Instruction>& code, std::vector<CharSet>& sets, std::string_view source)
      : code_(code), sets_(sets), source_(source) {}

  void compile(const Node& n) {
    switch (n.kind) {
      case Node::empty:
        return;
      case Node::character:
        emit({Code::character, Mode::greedy, n.value});
        return;
      case Node::set:
        emit({Code::set, Mode::greedy, n.value});
        return;
      case Node::any:
        emit({Code::any});
        return;
      case Node::assertion:
        emit({Code::assertion, Mode::greedy, n.value});
        return;
      case Node::sequence:
        for (const Node& c : n.children) compile(c);
        return;
      case Node::choice:
        compile_choice(n);
        return;
      case Node::repeat:
        compile_repeat(n);
        return;
      case Node::look:
      case Node::atomic: {
        size_t at =
            emit({n.kind == Node::look ? Code::look : Code::atomic, Mode::greedy, 0, n.value, n.least | n.most << 16});
        compile(n.children[0]);
        emit({Code::accept});
        code_[at].a = here();
        return;
      }
    }
  }
  uint32_t slots() const { return slots_; }

 private:
  uint32_t here() const { return static_cast<uint32_t>(code_.size()); }
  size_t emit(Instruction i) {
    if (code_.size() >= kMaxProgram) fail(ErrorCode::invalid_file, "{}: a regular expression is too large", source_);
    code_.push_back(i);
    return code_.size() - 1;
  }

  void compile_choice(const Node& n) {
    std::vector<size_t> jumps;
    for (size_t i = 0; i < n.children.size(); ++i) {
      bool last = i + 1 == n.children.size();
      size_t split = last ? 0 : emit({Code::split});
      if (!last) code_[split].a = here();
      compile(n.children[i]);
      if (last) break;
      jumps.push_back(emit({Code::jump}));
      code_[split].b = here();
    }
    for (size_t j : jumps) code_[j].a = here();
  }

  void compile_repeat(const Node& n) {
    const Node& body = n.children[0];
    if (body.kind == Node::character || body.kind == Node::set || body.kind == Node::any) {
      emit({Code::span, n.mode, set_of(body), n.least, n.most});
      return;
    }
    if (n.mode == Mode::possessive) {
      size_t at = emit({Code::atomic});
      repeat(body, n.least, n.most, Mode::greedy);
      emit({Code::accept});
      code_[at].a = here();
      return;
    }
    repeat(body, n.least, n.most, n.mode);
  }

  void repeat(const Node& body, uint32_t least, uint32_t most, Mode mode) {
    for (uint32_t i = 0; i < least; ++i) compile(body);
    auto branch = [&](size_t split, uint32_t inside, uint32_t outside) {
      code_[split].a = mode == Mode::lazy ? outside : inside;
      code_[split].b = mode == Mode::lazy ? inside : outside;
    };
    if (most == kUnbounded) {
      uint32_t slot = slots_++;
      size_t split = emit({Code::split});
      uint32_t inside = here();
      emit({Code::mark, Mode::greedy, slot});
      compile(body);
      emit({Code::check_progress, Mode::greedy, slot});
      emit({Code::jump, Mode::greedy, static_cast<uint32_t>(split)});
      branch(split, inside, here());
      return;
    }
    std::vector<std::pair<size_t, uint32_t>> splits;
    for (uint32_t i = least; i < most; ++i) {
      size_t split = emit({Code::split});
      splits.push_back({split, here()});
      compile(body);
    }
    for (auto [split, inside] : splits) branch(split, inside, here());
  }

  uint32_t set_of(const Node& n) {
    if (n.kind == Node::set) return n.value;
    std::vector<CharSet> made;
    std::string text = n.kind == Node::any ? "[^\\n]" : "[\\x{" + fmt::format("{:X}", n.value) + "}]";
    RegexParser(text, RegexDialect::fancy, source_, made).parse();
    sets_.push_back(std::move(made[0]));
    return static_cast<uint32_t>(sets_.size() - 1);
  }

  std::vector<Instruction>& code_;
  std::vector<CharSet>& sets_;
  std::string_view source_;
  uint32_t slots_ = 0;
};

}  // namespace

Regex::Regex(std::string_view pattern, RegexDialect dialect, std::string_view source) {
  auto program = std::make_unique<Program>();
  Node tree = RegexParser(pattern, dialect, source, program->sets).parse();
  Compiler compiler(program->code, program->sets, source);
  compiler.compile(tree);
  program->code.push_back({Code::accept});
  program->slots = compiler.slots();
  program_ = std::move(program);
}

Regex::~Regex() = default;

size_t Regex::memory_bytes() const {
  return program_->code.capacity() * sizeof(Instruction) + program_->sets.capacity() * sizeof(CharSet) +
         sizeof(Program);
}

size_t Regex::next_character(std::string_view text, size_t at) {
  return at >= text.size() ? at + 1 : at + decode_utf8(text.data() + at).bytes;
}

// ---- matching ----

namespace {

class Matcher {
 public:
  Matcher(const std::vector<Instruction>& code, const std::vector<CharSet>& sets, uint32_t slots, std::string_view text)
      : code_(code), sets_(sets), text_(text), slots_(slots), steps_(kBaseSteps + kStepsPerByte * text.size()) {}

  // The end of the match of the program from `pc` at `at`.
  std::optional<size_t> run(uint32_t pc, size_t at) {
    const size_t base = frames_.size();
    for (;;) {
      if (steps_ == 0) fail(ErrorCode::invalid_argument, "a regular expression needs too many steps on this text");
      --steps_;
      const Instruction& i = code_[pc];
      if (i.code == Code::accept) {
        frames_.resize(base);
        return at;
      }
      if (step(i, pc, at)) continue;
      if (!backtrack(base, pc, at)) return std::nullopt;
    }
  }

 private:
  bool step(const Instruction& i, uint32_t& pc, size_t& at) {
    switch (i.code) {
      case Code::character:
      case Code::set:
      case Code::any: {
        if (at == text_.size()) return false;
        CodePoint c = decode_utf8(text_.data() + at);
        bool ok = i.code == Code::character ? c.value == i.a
                  : i.code == Code::set     ? sets_[i.a].contains(c.value)
                                            : c.value != U'\n';
        if (!ok) return false;
        at += c.bytes;
        ++pc;
        return true;
      }
      case Code::split:
        frames_.push_back({Frame::branch, i.b, at, 0, 0});
        pc = i.a;
        return true;
      case Code::jump:
        pc = i.a;
        return true;
      case Code::span:
        return span(i, pc, at);
      case Code::assertion:
        ++pc;
        return holds(static_cast<Assertion>(i.a), at);
      case Code::look:
        return look(i, pc, at);
      case Code::atomic: {
        auto end = run(pc + 1, at);
        if (!end) return false;
        at = *end;
        pc = i.a;
        return true;
      }
      case Code::mark:
        frames_.push_back({Frame::restore, 0, i.a, slots_[i.a], 0});
        slots_[i.a] = at;
        ++pc;
        return true;
      case Code::check_progress:
        if (slots_[i.a] == at) return false;
        ++pc;
        return true;
      case Code::accept:
        break;
    }
    return false;
  }

  bool span(const Instruction& i, uint32_t& pc, size_t& at) {
    const CharSet& set = sets_[i.a];
    uint32_t n = 0;
    auto one = [&] {
      if (at == text_.size()) return false;
      CodePoint c = decode_utf8(text_.data() + at);
      if (!set.contains(c.value)) return false;
      at += c.bytes;
      return true;
    };
    while (n < i.b && one()) ++n;
    if (n < i.b) return false;
    ++pc;
    if (i.mode == Mode::lazy) {
      if (n < i.c) frames_.push_back({Frame::span_lazy, pc, at, i.c == kUnbounded ? ~size_t{0} : i.c - n, i.a});
      return true;
    }
    size_t least_end = at;
    while (n < i.c && one()) ++n;
    steps_ -= std::min<uint64_t>(steps_, n / 8);
    if (i.mode == Mode::greedy && at > least_end) frames_.push_back({Frame::span_greedy, pc, at, least_end, 0});
    return true;
  }

  bool look(const Instruction& i, uint32_t& pc, size_t& at) {
    bool found = false;
    if (i.b & 2) {
      uint32_t least = i.c & 0xFFFF, most = i.c >> 16;
      size_t p = at;
      for (uint32_t n = 0; n <= most && !found; ++n) {
        if (n >= least) {
          auto end = run(pc + 1, p);
          found = end && *end == at;
        }
        if (p == 0) break;
        p -= decode_utf8_before(text_.data() + p).bytes;
      }
    } else {
      found = run(pc + 1, at).has_value();
    }
    pc = i.a;
    return found != ((i.b & 1) != 0);
  }

  bool holds(Assertion a, size_t at) const {
    auto word = [&](bool after) {
      if (after ? at == text_.size() : at == 0) return false;
      return is_word((after ? decode_utf8(text_.data() + at) : decode_utf8_before(text_.data() + at)).value);
    };
    switch (a) {
      case Assertion::text_begin:
        return at == 0;
      case Assertion::text_end:
        return at == text_.size();
      case Assertion::text_end_or_newline:
        return at == text_.size() || (at + 1 == text_.size() && text_[at] == '\n');
      case Assertion::line_begin:
        return at == 0 || (text_[at - 1] == '\n' && at < text_.size());
      case Assertion::line_end:
        return at == text_.size() || text_[at] == '\n';
      case Assertion::word_boundary:
        return word(false) != word(true);
      case Assertion::no_word_boundary:
        return word(false) == word(true);
    }
    return false;
  }

  bool backtrack(size_t base, uint32_t& pc, size_t& at) {
    while (frames_.size() > base) {
      Frame& f = frames_.back();
      pc = f.pc;
      at = f.position;
      switch (f.kind) {
        case Frame::branch:
          frames_.pop_back();
          return true;
        case Frame::restore:
          slots_[f.position] = f.limit;
          frames_.pop_back();
          break;
        case Frame::span_greedy:
          at -= decode_utf8_before(text_.data() + at).bytes;
          f.position = at;
          if (at == f.limit) frames_.pop_back();
          return true;
        case Frame::span_lazy: {
          if (at == text_.size()) {
            frames_.pop_back();
            break;
          }
          CodePoint c = decode_utf8(text_.data() + at);
          if (!sets_[f.set].contains(c.value)) {
            frames_.pop_back();
            break;
          }
          at += c.bytes;
          f.position = at;
          if (--f.limit == 0) frames_.pop_back();
          return true;
        }
      }
    }
    return false;
  }

  const std::vector<Instruction>& code_;
  const std::vector<CharSet>& sets_;
  std::string_view text_;
  std::vector<size_t> slots_;
  std::vector<Frame> frames_;
  uint64_t steps_;
};

}  // namespace

bool Regex::find(std::string_view text, size_t from, Match& match) const {
  Matcher m(program_->code, program_->sets, program_->slots, text);
  for (size_t at = from; at <= text.size(); at = next_character(text, at)) {
    if (auto end = m.run(0, at)) {
      match = {at, *end};
      return true;
    }
  }
  return false;
}

}  // namespace tenon::text
