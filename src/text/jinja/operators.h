// Python's operators on values: comparison, arithmetic, printing, containment, iteration, indexing.
#pragma once
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace tenon::text::jinja {

bool truthy(const Value& v);
bool equal(const Value& a, const Value& b);
bool identical(const Value& a, const Value& b);  // `is`
// -1, 0, 1; 2 when unordered (NaN). Raises for types that have no order; `symbol` is for the message.
int compare(const Value& a, const Value& b, const char* symbol = "<");
bool contains(Meter& meter, const Value& container, const Value& item);

Value add(Meter& meter, const Value& a, const Value& b);
Value subtract(const Value& a, const Value& b);
Value multiply(Meter& meter, const Value& a, const Value& b);
Value divide(const Value& a, const Value& b);
Value floor_divide(const Value& a, const Value& b);
Value modulo(Meter& meter, const Value& a, const Value& b);
Value power(const Value& a, const Value& b);
Value negate(const Value& v);
Value plus(const Value& v);

// str(v) and repr(v).
void print(Meter& meter, TextBuilder& out, const Value& v);
void print_repr(Meter& meter, TextBuilder& out, const Value& v, int depth = 0);
Value to_text(Meter& meter, const Value& v);                         // a string: v itself if it is one
void print_escaped(Meter& meter, TextBuilder& out, const Value& v);  // markupsafe.escape
Value escaped(Meter& meter, const Value& v);

// The elements of an iterable; an iterator is used up. Raises if v is none.
std::vector<Value> elements(Meter& meter, const Value& v);
bool is_iterable(const Value& v);
Integer length(const Value& v);  // raises
std::optional<Integer> maybe_length(const Value& v);

Value attribute(Meter& meter, const Value& owner, const Value& name);  // a.name
Value item(Meter& meter, const Value& owner, const Value& key);        // a[key]
Value slice(Meter& meter, const Value& owner, const Value& start, const Value& stop, const Value& step);

[[noreturn]] void raise_undefined(const Value& v);
inline void refuse_undefined(const Value& v) {
  if (v.is(Kind::undefined)) raise_undefined(v);
}

}  // namespace tenon::text::jinja
