// Automata of the decimal numbers within bounds.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "text/grammar/dfa.h"

namespace tenon::text::grammar {

// A decimal number as written: digits of the whole part (no leading zeros) and of the fraction (no trailing ones).
struct Decimal {
  bool negative = false;
  std::string whole = "0", fraction;
  bool zero() const { return whole == "0" && fraction.empty(); }
  // From a JSON number's text; nullopt: beyond 30 places.
  static std::optional<Decimal> parse(std::string_view text);
};
int compare(const Decimal& a, const Decimal& b);

struct Bound {
  Decimal value;
  bool exclusive = false;
};

struct NumberRange {
  std::optional<Bound> low, high;
  uint64_t multiple = 0;  // 0: of anything
};

bool contains(const NumberRange& range, const Decimal& d);

// Whole numbers without fraction and exponent, at most 18 digits. The result may be empty. Throws Error{unsupported}
// for bounds and multiples that are too large.
Dfa integers(const NumberRange& range, Meter& meter);
// Throws Error{unsupported} where a bound has more digits than a double tells apart.
Dfa reals(const NumberRange& range, Meter& meter);

}  // namespace tenon::text::grammar
