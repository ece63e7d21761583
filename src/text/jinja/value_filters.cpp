// Filters on single values: default, int, round, tojson ...
#include <algorithm>
#include <cmath>

#include "text/jinja/filter_call.h"
#include "text/jinja/json_text.h"
#include "text/jinja/numbers.h"

namespace tenon::text::jinja {
namespace {

Value absolute(const FilterCall& c) {
  c.bind({});
  if (!c.v.is_number()) {
    refuse_undefined(c.v);
    raise("bad operand type for abs(): '{}'", type_name(c.v));
  }
  bool negative = c.v.is(Kind::real) ? std::signbit(c.v.real()) : c.v.integer() < 0;
  return negative ? negate(c.v) : plus(c.v);
}

// A Python attribute only, never a key.
Value attr(const FilterCall& c) {
  Bound a = c.bind({"name"}, 1);
  Value name = to_text(c.meter, a[0]);
  Value v = attribute(c.meter, c.v, name);
  if (c.v.is(Kind::dict) && !v.is(Kind::bound_method)) return Value::undefined(name, static_cast<uint8_t>(Kind::dict));
  return v;
}

Value default_value(const FilterCall& c) {
  Bound a = c.bind({"default_value", "boolean"});
  bool missing = c.v.is(Kind::undefined) || (a.flag(1, false) && !truthy(c.v));
  if (!missing) return c.v;
  return a.has(0) ? a[0] : c.string("");
}

Value to_integer(const FilterCall& c) {
  Bound a = c.bind({"default", "base"});
  Value otherwise = a.has(0) ? a[0] : Value::of(0);
  refuse_undefined(c.v);
  if (c.v.is_integral()) return Value::of(c.v.integer()).set_content(c.v.content());
  if (c.v.is(Kind::real)) {
    if (!std::isfinite(c.v.real())) return otherwise;
    return Value::of(truncated(c.v.real())).set_content(c.v.content());
  }
  if (!c.v.is(Kind::string)) return otherwise;
  bool content = !c.v.str().marks().none();
  std::string_view text = c.v.str().view();
  if (auto i = parse_integer(text, static_cast<int>(std::clamp<Integer>(a.integer(1, 10), 0, 36))))
    return Value::of(*i).set_content(content);
  auto d = parse_float(text);
  if (!d || !std::isfinite(*d)) return otherwise;
  return Value::of(truncated(*d)).set_content(content);
}

Value to_float(const FilterCall& c) {
  Bound a = c.bind({"default"});
  Value otherwise = a.has(0) ? a[0] : Value::of(0.0);
  refuse_undefined(c.v);
  if (c.v.is_number()) return Value::of(to_double(c.v)).set_content(c.v.content());
  if (!c.v.is(Kind::string)) return otherwise;
  auto d = parse_float(c.v.str().view());
  return d ? Value::of(*d).set_content(!c.v.str().marks().none()) : otherwise;
}

Integer integer_round(Integer i, Integer digits) {
  if (digits >= 0) return i;
  if (digits < -37) return 0;
  Integer unit = 1;
  for (Integer k = digits; k < 0; ++k) unit *= 10;
  Integer rest = i % unit;
  if (rest < 0) rest += unit;
  Integer down = checked_subtract(i, rest);
  bool up = rest * 2 > unit || (rest * 2 == unit && (down / unit) % 2 != 0);
  return up ? checked_add(down, unit) : down;
}

Value round(const FilterCall& c) {
  Bound a = c.bind({"precision", "method"});
  Integer digits = a.integer(0, 0);
  std::string_view method = a.has(1) ? a.string(1).view() : "common";
  if (method != "common" && method != "ceil" && method != "floor") raise("method must be common, ceil or floor");
  if (!c.v.is_number()) {
    refuse_undefined(c.v);
    raise("type {} doesn't define __round__ method", type_name(c.v));
  }
  bool content = c.v.content();
  if (method == "common") {
    if (c.v.is_integral()) return Value::of(integer_round(c.v.integer(), digits)).set_content(content);
    return Value::of(round_half_even(c.v.real(), static_cast<int>(std::clamp<Integer>(digits, -400, 400))))
        .set_content(content);
  }
  double scale = std::pow(10.0, static_cast<double>(digits)), scaled = to_double(c.v) * scale;
  if (!std::isfinite(scaled) || scale == 0) raise("cannot round this number");
  return Value::of((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale).set_content(content);
}

Value tojson(const FilterCall& c) {
  Bound a = c.bind({"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = a.flag(0, false);
  style.sort_keys = a.flag(3, false);
  if (const Value* indent = a.given(1)) {
    if (indent->is(Kind::string)) {
      style.indent = *indent;
    } else {
      Integer width = std::clamp<Integer>(a.integer(1, 0), 0, 1000);
      style.indent = c.string(std::string(static_cast<size_t>(width), ' '));
    }
  }
  style.item_separator = c.string(style.indent ? "," : ", ");
  style.key_separator = c.string(": ");
  if (const Value* separators = a.given(2)) {
    std::vector<Value> parts = elements(c.meter, *separators);
    if (parts.size() != 2 || !parts[0].is(Kind::string) || !parts[1].is(Kind::string))
      raise("tojson: separators are two strings");
    style.item_separator = parts[0];
    style.key_separator = parts[1];
  }
  TextBuilder out(c.meter);
  print_json(c.meter, out, c.v, style);
  return out.finish();
}

}  // namespace

const std::vector<FilterEntry>& value_filters() {
  static const std::vector<FilterEntry> filters = {
      {"abs", absolute},   {"attr", attr},      {"d", default_value}, {"default", default_value},
      {"float", to_float}, {"int", to_integer}, {"round", round},     {"tojson", tojson},
  };
  return filters;
}

}  // namespace tenon::text::jinja
