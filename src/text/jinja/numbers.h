// Numbers as Python spells and reads them.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace tenon::text::jinja {

std::string integer_text(Integer i);
std::string integer_text(Integer i, unsigned base);          // 2, 8, 10, 16; lower case
std::string float_text(double d);                            // repr
std::string fixed_text(double d, int precision, char type);  // printf's e, f, g, E, F, G; precision <= kMaxPrecision
constexpr int kMaxPrecision = 1000;

// int(text, base) and float(text); nullopt: not a number. Raises beyond 127 bits.
std::optional<Integer> parse_integer(std::string_view text, int base = 10);
std::optional<double> parse_float(std::string_view text);

double to_double(const Value& number);
// int(d): raises for infinities, NaN and beyond 127 bits.
Integer truncated(double d);

Integer checked_add(Integer a, Integer b);
Integer checked_subtract(Integer a, Integer b);
Integer checked_multiply(Integer a, Integer b);

// round(d, digits) to even on the decimal value, as Python.
double round_half_even(double d, int digits);

}  // namespace tenon::text::jinja
