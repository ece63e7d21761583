#include "text/jinja/tests.h"

#include <algorithm>

#include "text/jinja/eval.h"
#include "text/jinja/filters.h"
#include "text/jinja/operators.h"
#include "text/jinja/string_cases.h"

namespace tenon::text::jinja {
namespace {

struct Call {
  Evaluator& evaluator;
  const Value& v;
  const Args& args;

  // The one operand of a test such as `eq`.
  const Value& operand() const {
    if (args.positional.size() != 1 || !args.named.empty()) raise("this test takes one argument");
    return args.positional[0];
  }
  Integer modulo(Integer by) const {
    Value r = jinja::modulo(evaluator.meter(), v, Value::of(by));
    return r.is(Kind::real) ? (r.real() == 1.0 ? 1 : r.real() == 0.0 ? 0 : 2) : r.is_integral() ? r.integer() : 2;
  }
};

using TestFunction = bool (*)(const Call&);
struct Entry {
  std::string_view name;
  bool operand;
  TestFunction run;
};

bool is_callable(const Value& v) {
  switch (v.kind()) {
    case Kind::function:
    case Kind::macro:
    case Kind::loop:
    case Kind::joiner:
    case Kind::bound_method:
    case Kind::undefined:
      return true;
    default:
      return false;
  }
}

bool is_sequence(const Value& v) {
  switch (v.kind()) {
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::range:
    case Kind::undefined:
      return true;
    default:
      return false;
  }
}

bool eq(const Call& c) { return equal(c.v, c.operand()); }
bool ne(const Call& c) { return !equal(c.v, c.operand()); }
bool lt(const Call& c) { return compare(c.v, c.operand(), "<") == -1; }
bool gt(const Call& c) { return compare(c.v, c.operand(), ">") == 1; }
bool le(const Call& c) {
  int r = compare(c.v, c.operand(), "<=");
  return r == -1 || r == 0;
}
bool ge(const Call& c) {
  int r = compare(c.v, c.operand(), ">=");
  return r == 0 || r == 1;
}
bool in(const Call& c) { return contains(c.evaluator.meter(), c.operand(), c.v); }
bool is_case(const Call& c, std::string_view method) {
  Value text = to_text(c.evaluator.meter(), c.v);
  return has_property(text.str().view(), method);
}
bool known_name(const Call& c, std::optional<uint32_t> (*index)(std::string_view)) {
  (void)hash_value(c.v);  // raises for lists and dicts
  return c.v.is(Kind::string) && index(c.v.str().view()).has_value();
}

// Sorted.
constexpr Entry kTests[] = {
    {"!=", true, ne},
    {"<", true, lt},
    {"<=", true, le},
    {"==", true, eq},
    {">", true, gt},
    {">=", true, ge},
    {"boolean", false, [](const Call& c) { return c.v.is(Kind::boolean); }},
    {"callable", false, [](const Call& c) { return is_callable(c.v); }},
    {"defined", false, [](const Call& c) { return !c.v.is(Kind::undefined); }},
    {"divisibleby", true, [](const Call& c) { return !truthy(jinja::modulo(c.evaluator.meter(), c.v, c.operand())); }},
    {"eq", true, eq},
    {"equalto", true, eq},
    {"escaped", false, [](const Call& c) { return c.v.is(Kind::string) && c.v.str().markup(); }},
    {"even", false, [](const Call& c) { return c.modulo(2) == 0; }},
    {"false", false, [](const Call& c) { return c.v.is(Kind::boolean) && !c.v.boolean(); }},
    {"filter", false, [](const Call& c) { return known_name(c, filter_index); }},
    {"float", false, [](const Call& c) { return c.v.is(Kind::real); }},
    {"ge", true, ge},
    {"greaterthan", true, gt},
    {"gt", true, gt},
    {"in", true, in},
    {"integer", false, [](const Call& c) { return c.v.is(Kind::integer); }},
    {"iterable", false, [](const Call& c) { return is_iterable(c.v); }},
    {"le", true, le},
    {"lessthan", true, lt},
    {"lower", false, [](const Call& c) { return is_case(c, "islower"); }},
    {"lt", true, lt},
    {"mapping", false, [](const Call& c) { return c.v.is(Kind::dict); }},
    {"ne", true, ne},
    {"none", false, [](const Call& c) { return c.v.is(Kind::none); }},
    {"number", false, [](const Call& c) { return c.v.is_number(); }},
    {"odd", false, [](const Call& c) { return c.modulo(2) == 1; }},
    {"sameas", true, [](const Call& c) { return identical(c.v, c.operand()); }},
    {"sequence", false, [](const Call& c) { return is_sequence(c.v); }},
    {"string", false, [](const Call& c) { return c.v.is(Kind::string); }},
    {"test", false, [](const Call& c) { return known_name(c, test_index); }},
    {"true", false, [](const Call& c) { return c.v.is(Kind::boolean) && c.v.boolean(); }},
    {"undefined", false, [](const Call& c) { return c.v.is(Kind::undefined); }},
    {"upper", false, [](const Call& c) { return is_case(c, "isupper"); }},
};

}  // namespace

std::optional<uint32_t> test_index(std::string_view name) {
  const Entry* e = std::lower_bound(std::begin(kTests), std::end(kTests), name,
                                    [](const Entry& a, std::string_view b) { return a.name < b; });
  if (e == std::end(kTests) || e->name != name) return std::nullopt;
  return static_cast<uint32_t>(e - kTests);
}

bool apply_test(Evaluator& evaluator, uint32_t index, const Value& input, const Args& args) {
  const Entry& e = kTests[index];
  if (!e.operand && (!args.positional.empty() || !args.named.empty())) raise("test '{}' takes no argument", e.name);
  return e.run({evaluator, input, args});
}

}  // namespace tenon::text::jinja
