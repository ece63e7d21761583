#include "text/grammar/json_numbers.h"

#include <algorithm>

#include "text/grammar/regex_grammar.h"
#include "text/grammar/regular.h"

namespace tenon::text::grammar {
namespace {

using Id = Grammar::Id;
constexpr size_t kDigits = 18;       // of a whole number
constexpr size_t kExactDigits = 15;  // that every double tells apart
constexpr uint32_t kMostStates = 20'000;

std::string trimmed_whole(std::string s) {
  size_t zeros = std::min(s.find_first_not_of('0'), s.size());
  s.erase(0, zeros);
  return s.empty() ? "0" : s;
}

int compare_whole(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  return a < b ? -1 : a > b ? 1 : 0;
}

int compare_magnitude(const Decimal& a, const Decimal& b) {
  if (int c = compare_whole(a.whole, b.whole)) return c;
  return a.fraction < b.fraction ? -1 : a.fraction > b.fraction ? 1 : 0;  // without trailing zeros text order is it
}

std::string increment(std::string s) {
  size_t i = s.size();
  while (i > 0 && s[i - 1] == '9') s[--i] = '0';
  if (i == 0) return "1" + s;
  ++s[i - 1];
  return s;
}

std::string decrement(std::string s) {  // s > 0
  size_t i = s.size();
  while (s[i - 1] == '0') s[--i] = '9';
  --s[i - 1];
  return trimmed_whole(s);
}

// Expressions of digit strings.
class Digits {
 public:
  explicit Digits(Grammar& g) : g_(g) {}

  Id digit(char low, char high) {
    return g_.chars(CharRanges::range(static_cast<char32_t>(low), static_cast<char32_t>(high)));
  }
  Id any(size_t n) { return g_.repeat(digit('0', '9'), n, n); }
  Id any_more() { return g_.repeat(digit('0', '9'), 0); }
  Id none() { return g_.choice({}); }

  // As many digits as `s`, not less or not greater than it.
  Id bounded(std::string_view s, bool at_least) {
    if (s.empty()) return g_.text("");
    std::vector<Id> ways{g_.sequence({digit(s[0], s[0]), bounded(s.substr(1), at_least)})};
    if (at_least && s[0] < '9')
      ways.push_back(g_.sequence({digit(static_cast<char>(s[0] + 1), '9'), any(s.size() - 1)}));
    if (!at_least && s[0] > '0')
      ways.push_back(g_.sequence({digit('0', static_cast<char>(s[0] - 1)), any(s.size() - 1)}));
    return g_.choice(ways);
  }
  Id between(std::string_view low, std::string_view high) {  // of one length, low <= high
    if (low.empty()) return g_.text("");
    if (low[0] == high[0]) return g_.sequence({digit(low[0], low[0]), between(low.substr(1), high.substr(1))});
    std::vector<Id> ways{g_.sequence({digit(low[0], low[0]), bounded(low.substr(1), true)}),
                         g_.sequence({digit(high[0], high[0]), bounded(high.substr(1), false)})};
    if (high[0] - low[0] > 1)
      ways.push_back(
          g_.sequence({digit(static_cast<char>(low[0] + 1), static_cast<char>(high[0] - 1)), any(low.size() - 1)}));
    return g_.choice(ways);
  }
  // Whole numbers from low to high, no leading zeros.
  Id whole(const std::string& low, const std::string& high) {
    if (compare_whole(low, high) > 0) return none();
    std::vector<Id> ways;
    for (size_t n = low.size(); n <= high.size(); ++n) {
      std::string from = n == low.size() ? low : "1" + std::string(n - 1, '0');
      std::string to = n == high.size() ? high : std::string(n, '9');
      ways.push_back(between(from, to));
    }
    return g_.choice(ways);
  }

  // What follows the whole part when that equals the bound's: fractions not below (or above) `f`.
  Id fraction_at_least(const std::string& f, bool exclusive) {
    Id nonzero = g_.sequence({g_.repeat(digit('0', '0'), 0), digit('1', '9'), any_more()});
    if (f.empty()) return exclusive ? g_.sequence({g_.text("."), nonzero}) : any_fraction();
    std::vector<Id> ways{g_.sequence({g_.text("." + f), exclusive ? nonzero : any_more()})};
    for (size_t i = 0; i < f.size(); ++i)
      if (f[i] < '9')
        ways.push_back(
            g_.sequence({g_.text("." + f.substr(0, i)), digit(static_cast<char>(f[i] + 1), '9'), any_more()}));
    return g_.choice(ways);
  }
  Id fraction_at_most(const std::string& f, bool exclusive) {
    Id zeros = g_.repeat(digit('0', '0'), 0);
    if (f.empty()) return exclusive ? none() : g_.optional(g_.sequence({g_.text(".0"), zeros}));
    std::vector<Id> ways{g_.text("")};
    if (!exclusive) ways.push_back(g_.sequence({g_.text("." + f), zeros}));
    for (size_t i = 0; i < f.size(); ++i) {
      if (i > 0) ways.push_back(g_.text("." + f.substr(0, i)));
      if (f[i] > '0')
        ways.push_back(
            g_.sequence({g_.text("." + f.substr(0, i)), digit('0', static_cast<char>(f[i] - 1)), any_more()}));
    }
    return g_.choice(ways);
  }
  Id any_fraction() { return g_.optional(g_.sequence({g_.text("."), digit('0', '9'), any_more()})); }

  Id at_least(const Bound& b) {
    return g_.choice(
        {g_.sequence({whole(increment(b.value.whole), std::string(kExactDigits + 1, '9')), any_fraction()}),
         g_.sequence({g_.text(b.value.whole), fraction_at_least(b.value.fraction, b.exclusive)})});
  }
  Id at_most(const Bound& b) {
    Id below = b.value.whole == "0" ? none() : g_.sequence({whole("0", decrement(b.value.whole)), any_fraction()});
    return g_.choice({below, g_.sequence({g_.text(b.value.whole), fraction_at_most(b.value.fraction, b.exclusive)})});
  }

 private:
  Grammar& g_;
};

Dfa dfa_of(const Grammar& g, Id id, Meter& meter) {
  return regular(g, id, Spelling::plain, {.dfa_states = kMostStates}, meter);
}

// Texts of digits, perhaps with a sign, whose value is a multiple of m.
Dfa multiples(uint64_t m) {
  if (m > 10'000) fail(ErrorCode::unsupported, "multipleOf {} is too large to be enforced", m);
  Dfa d;
  d.classes = 12;  // digits, the sign, everything else
  d.byte_class.fill(11);
  for (int b = '0'; b <= '9'; ++b) d.byte_class[static_cast<size_t>(b)] = static_cast<uint8_t>(b - '0');
  d.byte_class['-'] = 10;
  const auto n = static_cast<uint32_t>(m) + 1;  // state 0: nothing read, 1 + r: remainder r
  d.accepting.assign(n, 0);
  d.accepting[1] = 1;
  d.next.assign(n * d.classes, Dfa::kDead);
  for (uint32_t s = 0; s < n; ++s)
    for (uint64_t digit = 0; digit < 10; ++digit)
      d.next[s * d.classes + digit] = static_cast<uint32_t>(((s == 0 ? 0 : s - 1) * 10u + digit) % m) + 1;
  d.next[10] = 0;
  return d;
}

// The whole numbers from `low` up (or from `high` down, both away from zero), as magnitudes.
struct Whole {
  bool negative;
  std::string magnitude;
};

Whole rounded(const Bound& b, bool up) {
  const bool exact = b.value.fraction.empty();
  bool away = b.value.negative != up;  // rounding in this direction makes the magnitude larger
  Whole w{b.value.negative, b.value.whole};
  if (exact && !b.exclusive) return w;
  if (exact && b.exclusive && w.magnitude == "0") return {!up, "1"};
  if (exact)
    w.magnitude = away ? increment(w.magnitude) : decrement(w.magnitude);
  else if (away)
    w.magnitude = increment(w.magnitude);
  return w;
}

// Magnitudes in [low, high]; either may be missing.
Dfa magnitudes(const std::optional<Bound>& low, const std::optional<Bound>& high, Meter& meter) {
  size_t whole_digits = 1, places = 0;
  for (const auto* b : {&low, &high})
    if (*b) {
      whole_digits = std::max(whole_digits, (*b)->value.whole.size());
      places = std::max(places, (*b)->value.fraction.size());
    }
  if (whole_digits + places > kExactDigits)
    fail(ErrorCode::unsupported, "a bound with more than {} digits cannot be enforced", kExactDigits);
  // Few enough that no text beyond a bound is read as the bound itself.
  places = std::max<size_t>({places, 1, std::min<size_t>(6, kExactDigits - whole_digits)});
  Grammar g;
  Digits digits(g);
  Id base = add_regex(g, "(0|[1-9][0-9]{0,14})(\\.[0-9]{1," + std::to_string(places) + "})?");
  Dfa out = dfa_of(g, base, meter);
  if (low) out = combine(out, dfa_of(g, digits.at_least(*low), meter), Combine::both, kMostStates, meter);
  if (high) out = combine(out, dfa_of(g, digits.at_most(*high), meter), Combine::both, kMostStates, meter);
  return out;
}

Dfa with_sign(const Dfa& positive, const Dfa& negative, Meter& meter) {
  Grammar g;
  std::vector<Id> ways;
  if (!positive.empty()) ways.push_back(g.terminal(positive));
  if (!negative.empty()) ways.push_back(g.sequence({g.text("-"), g.terminal(negative)}));
  return dfa_of(g, g.choice(ways), meter);
}

std::optional<Bound> mirrored(std::optional<Bound> b) {
  if (b) b->value.negative = false;
  return b;
}

}  // namespace

std::optional<Decimal> Decimal::parse(std::string_view text) {
  constexpr int kPlaces = 30;
  Decimal d;
  size_t at = 0;
  if (at < text.size() && text[at] == '-') d.negative = true, ++at;
  std::string digits;
  int point = 0, exponent = 0;
  bool fraction = false;
  for (; at < text.size() && text[at] != 'e' && text[at] != 'E'; ++at) {
    if (text[at] == '.') {
      fraction = true;
      continue;
    }
    digits.push_back(text[at]);
    point += fraction ? 0 : 1;
  }
  if (at < text.size()) {
    bool minus = ++at < text.size() && text[at] == '-';
    for (; at < text.size(); ++at)
      if (text[at] >= '0' && text[at] <= '9') exponent = std::min(exponent * 10 + (text[at] - '0'), 1000);
    if (minus) exponent = -exponent;
  }
  point += exponent;
  if (point > kPlaces || point < -kPlaces || digits.size() > 60) return std::nullopt;
  if (point < 0) digits.insert(0, static_cast<size_t>(-point), '0'), point = 0;
  if (static_cast<size_t>(point) > digits.size()) digits.append(static_cast<size_t>(point) - digits.size(), '0');
  d.whole = trimmed_whole(digits.substr(0, static_cast<size_t>(point)));
  d.fraction = digits.substr(static_cast<size_t>(point));
  d.fraction.erase(d.fraction.find_last_not_of('0') + 1);
  if (d.zero()) d.negative = false;
  return d;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  return a.negative ? compare_magnitude(b, a) : compare_magnitude(a, b);
}

bool contains(const NumberRange& range, const Decimal& d) {
  if (range.low)
    if (int c = compare(d, range.low->value); c < 0 || (c == 0 && range.low->exclusive)) return false;
  if (range.high)
    if (int c = compare(d, range.high->value); c > 0 || (c == 0 && range.high->exclusive)) return false;
  if (range.multiple == 0) return true;
  uint64_t rest = 0;
  for (char digit : d.whole) rest = (rest * 10 + static_cast<uint64_t>(digit - '0')) % range.multiple;
  return rest == 0 && d.fraction.empty();
}

Dfa integers(const NumberRange& range, Meter& meter) {
  const std::string most(kDigits, '9');
  Whole low = range.low ? rounded(*range.low, true) : Whole{true, most};
  Whole high = range.high ? rounded(*range.high, false) : Whole{false, most};
  if (low.magnitude == "0") low.negative = false;
  if (high.magnitude == "0") high.negative = false;
  auto clamp = [&](Whole& w, bool is_low) {
    if (w.magnitude.size() <= kDigits) return;
    if (w.negative != is_low)
      fail(ErrorCode::unsupported, "a bound with more than {} digits cannot be enforced", kDigits);
    w.magnitude = most;
  };
  clamp(low, true);
  clamp(high, false);
  Grammar g;
  Digits digits(g);
  std::vector<Id> ways;
  if (!high.negative) ways.push_back(digits.whole(low.negative ? "0" : low.magnitude, high.magnitude));
  if (low.negative)
    ways.push_back(g.sequence({g.text("-"), digits.whole(high.negative ? high.magnitude : "1", low.magnitude)}));
  Dfa out = dfa_of(g, g.choice(ways), meter);
  if (range.multiple > 1) out = combine(out, multiples(range.multiple), Combine::both, 400'000, meter);
  return out;
}

Dfa reals(const NumberRange& range, Meter& meter) {
  if (range.multiple > 0) return integers(range, meter);
  if (!range.low && !range.high) {
    Grammar g;
    return dfa_of(g, add_regex(g, "-?(0|[1-9][0-9]{0,15})(\\.[0-9]{1,15})?([eE][+-]?[0-9]{1,2})?"), meter);
  }
  const auto& low = range.low;
  const auto& high = range.high;
  Bound zero;
  Dfa positive, negative;
  if (!high || !high->value.negative)
    positive = magnitudes(low && !low->value.negative ? low : std::nullopt, high, meter);
  if (!low || low->value.negative) {
    zero.exclusive = true;  // "-0" is left out
    negative = magnitudes(high && high->value.negative ? mirrored(high) : std::optional(zero), mirrored(low), meter);
  }
  return with_sign(positive, negative, meter);
}

}  // namespace tenon::text::grammar
