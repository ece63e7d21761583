#include "text/jinja/operators.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/chars.h"
#include "text/jinja/methods.h"
#include "text/jinja/numbers.h"
#include "text/jinja/percent_format.h"
#include "text/jinja/special.h"

namespace tenon::text::jinja {
namespace {

constexpr int kMaxCompareDepth = 2 * kMaxNesting;

[[noreturn]] void refuse_operands(const char* symbol, const Value& a, const Value& b) {
  refuse_undefined(a);
  refuse_undefined(b);
  raise("unsupported operand type(s) for {}: '{}' and '{}'", symbol, type_name(a), type_name(b));
}

int order(double a, double b) { return a < b ? -1 : a > b ? 1 : a == b ? 0 : 2; }

// Exact also where an integer has no double of its own.
int compare_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    Integer x = a.integer(), y = b.integer();
    return x < y ? -1 : x > y ? 1 : 0;
  }
  if (a.is(Kind::real) && b.is(Kind::real)) return order(a.real(), b.real());
  if (b.is_integral()) {
    int r = compare_numbers(b, a);
    return r == 2 ? 2 : -r;
  }
  double d = b.real();
  if (std::isnan(d)) return 2;
  if (std::abs(d) >= 0x1p126) return d > 0 ? -1 : 1;
  Integer x = a.integer(), y = static_cast<Integer>(std::floor(d));
  if (x != y) return x < y ? -1 : 1;
  return d > std::floor(d) ? -1 : 0;
}

bool equal_dicts(const Dict& a, const Dict& b, int depth);
bool equal_at(const Value& a, const Value& b, int depth);

bool equal_items(const std::vector<Value>& a, const std::vector<Value>& b, int depth) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const Value& x, const Value& y) { return identical(x, y) || equal_at(x, y, depth + 1); });
}

bool equal_at(const Value& a, const Value& b, int depth) {
  if (depth > kMaxCompareDepth) raise("values are nested too deeply to compare");
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::string:
      return a.str().view() == b.str().view();
    case Kind::list:
    case Kind::tuple:
      return equal_items(a.sequence().items, b.sequence().items, depth);
    case Kind::dict:
      return equal_dicts(a.dict(), b.dict(), depth);
    case Kind::range: {
      const Range &x = a.as<Range>(), &y = b.as<Range>();
      return x.size == y.size && (x.size == 0 || (x.start == y.start && (x.size == 1 || x.step == y.step)));
    }
    case Kind::bound_method: {
      const BoundMethod &x = a.as<BoundMethod>(), &y = b.as<BoundMethod>();
      return equal_at(x.name, y.name, depth) && identical(x.self, y.self);
    }
    case Kind::none:
    case Kind::undefined:
      return true;
    case Kind::function:
      return a.aux() == b.aux();
    default:
      return a.identity() == b.identity();
  }
}

bool equal_dicts(const Dict& a, const Dict& b, int depth) {
  if (a.items.size() != b.items.size()) return false;
  for (const auto& [key, value] : a.items) {
    const Value* other = b.find(key);
    if (!other || !(identical(value, *other) || equal_at(value, *other, depth + 1))) return false;
  }
  return true;
}

int compare_at(const Value& a, const Value& b, const char* symbol, int depth) {
  if (depth > kMaxCompareDepth) raise("values are nested too deeply to compare");
  if (a.is_number() && b.is_number()) return compare_numbers(a, b);
  if (a.is(Kind::string) && b.is(Kind::string)) {
    int c = a.str().view().compare(b.str().view());  // UTF-8 orders as code points do
    return c < 0 ? -1 : c > 0 ? 1 : 0;
  }
  if (a.is_list_or_tuple() && a.kind() == b.kind()) {
    const auto &x = a.sequence().items, &y = b.sequence().items;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i)
      if (!equal_at(x[i], y[i], depth + 1)) return compare_at(x[i], y[i], symbol, depth + 1);
    return x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0;
  }
  refuse_undefined(a);
  refuse_undefined(b);
  raise("'{}' not supported between instances of '{}' and '{}'", symbol, type_name(a), type_name(b));
}

bool either_content(const Value& a, const Value& b) { return a.content() || b.content(); }

Value add_strings(Meter& meter, const Value& a, const Value& b) {
  TextBuilder out(meter);
  bool markup = a.str().markup() || b.str().markup();
  out.set_markup(markup);
  auto part = [&](const Value& v) {
    if (markup)
      print_escaped(meter, out, v);
    else
      out.append(v.str());
  };
  part(a);
  part(b);
  return out.finish();
}

Value repeat(Meter& meter, const Value& v, Integer times) {
  if (times < 0) times = 0;
  if (v.is(Kind::string)) {
    TextBuilder out(meter);
    out.set_markup(v.str().markup());
    if (v.str().size() == 0) return out.finish();
    if (times > static_cast<Integer>(kMaxText)) raise("the text grows beyond {} bytes", kMaxText);
    Value block = v;  // doubled until it is worth its call
    for (; block.str().size() < 4096 && times > 1; times /= 2) {
      if (times % 2 != 0) out.append(block.str());
      block = add(meter, block, block);
    }
    for (Integer i = 0; i < times; ++i) out.append(block.str());
    return out.finish();
  }
  const auto& items = v.sequence().items;
  std::vector<Value> out;
  if (!items.empty() && times > static_cast<Integer>(kMaxSteps)) raise("a list grows too long");
  for (Integer i = 0; !items.empty() && i < times; ++i) {
    meter.step(items.size());
    if (out.size() > kMaxLive / sizeof(Value)) raise("a list grows too long");
    out.insert(out.end(), items.begin(), items.end());
  }
  return v.is(Kind::list) ? make_list(meter, std::move(out), v.content())
                          : make_tuple(meter, std::move(out), v.content());
}

bool repeatable(const Value& v) { return v.is(Kind::string) || v.is_list_or_tuple(); }

double python_modulo(double a, double b) {
  double r = std::fmod(a, b);
  if (r != 0) return (r < 0) != (b < 0) ? r + b : r;
  return std::copysign(0.0, b);
}

double python_floor_divide(double a, double b) {
  double quotient = (a - python_modulo(a, b)) / b;
  double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1.0 : floor;
}

Integer integer_power(Integer base, Integer exponent) {
  if (base == 1 || exponent == 0) return 1;
  if (base == 0) return 0;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  Integer result = 1;
  for (; exponent > 0; --exponent) result = checked_multiply(result, base);  // ends soon: |base| > 1 overflows
  return result;
}

std::string undefined_owner(uint8_t owner) {
  switch (static_cast<Kind>(owner & 127)) {
    case Kind::none:
      return "None";
    case Kind::string:
      return "str object";
    case Kind::list:
      return "list object";
    case Kind::tuple:
      return "tuple object";
    case Kind::dict:
      return "dict object";
    case Kind::boolean:
      return "bool object";
    case Kind::integer:
      return "int object";
    case Kind::real:
      return "float object";
    default:
      return "object";
  }
}

Value missing(const Value& name, const Value& owner) {
  return Value::undefined(name, static_cast<uint8_t>(owner.kind()));
}

Value unsafe(const Value& name, const Value& owner) {
  return Value::undefined(name, static_cast<uint8_t>(static_cast<uint8_t>(owner.kind()) | Value::kUnsafe));
}

// A data attribute of Python's object, apart from methods.
std::optional<Value> own_attribute(Meter& meter, const Value& owner, std::string_view name) {
  switch (owner.kind()) {
    case Kind::tuple:
      if (!owner.sequence().group) return std::nullopt;
      if (name == "grouper") return owner.sequence().items[0];
      if (name == "list") return owner.sequence().items[1];
      return std::nullopt;
    case Kind::range:
      if (name == "start") return Value::of(owner.as<Range>().start);
      if (name == "stop") return Value::of(owner.as<Range>().stop);
      if (name == "step") return Value::of(owner.as<Range>().step);
      return std::nullopt;
    case Kind::boolean:
    case Kind::integer:
      if (name == "real" || name == "numerator") return Value::of(owner.integer()).set_content(owner.content());
      if (name == "imag") return Value::of(0);
      if (name == "denominator") return Value::of(1);
      return std::nullopt;
    case Kind::real:
      if (name == "real") return owner;
      if (name == "imag") return Value::of(0.0);
      return std::nullopt;
    case Kind::name_space:
      if (Value* v = owner.as<Namespace>().find(name)) return *v;
      return std::nullopt;
    case Kind::macro:
    case Kind::loop:
    case Kind::cycler:
    case Kind::joiner:
    case Kind::template_self:
      return owner.as<Special>().attribute(meter, name);
    default:
      return std::nullopt;
  }
}

bool is_dunder(std::string_view name) { return name.size() > 4 && name.substr(0, 2) == "__" && name.ends_with("__"); }

std::optional<Value> python_attribute(Meter& meter, const Value& owner, const Value& name) {
  std::string_view text = name.str().view();
  switch (find_method(owner.kind(), text)) {
    case MethodKind::none:
      break;
    case MethodKind::unsafe:
      return unsafe(name, owner);
    case MethodKind::safe:
      return Value::object(Kind::bound_method, make<BoundMethod>(meter, owner, name).get());
  }
  if (is_dunder(text)) return unsafe(name, owner);
  return own_attribute(meter, owner, text);
}

std::optional<Value> subscript(Meter& meter, const Value& owner, const Value& key) {
  if (owner.is(Kind::dict)) {
    if (key.is(Kind::list) || key.is(Kind::dict) || key.is(Kind::view)) return std::nullopt;
    const Value* v = key.is(Kind::string) ? owner.dict().find(key.str().view()) : owner.dict().find(key);
    return v ? std::optional<Value>(*v) : std::nullopt;
  }
  if (!key.is_integral()) return std::nullopt;
  auto size =
      owner.is_list_or_tuple() || owner.is(Kind::string) || owner.is(Kind::range) ? maybe_length(owner) : std::nullopt;
  if (!size) return std::nullopt;
  Integer i = key.integer();
  if (i < 0) i += *size;
  if (i < 0 || i >= *size) return std::nullopt;
  if (owner.is_list_or_tuple()) return owner.sequence().items[static_cast<size_t>(i)];
  if (owner.is(Kind::range)) return Value::of(owner.as<Range>().at(i));
  return slice(meter, owner, Value::of(i), Value::of(i + 1), Value::none());
}

struct Bounds {
  Integer start, stop, step, count;
};

Integer slice_index(const Value& v) {
  if (!v.is_integral()) {
    refuse_undefined(v);
    raise("slice indices must be integers or None or have an __index__ method");
  }
  return v.integer();
}

Bounds slice_bounds(Integer size, const Value& start, const Value& stop, const Value& step) {
  Bounds b{};
  b.step = step.is(Kind::none) ? 1 : slice_index(step);
  if (b.step == 0) raise("slice step cannot be zero");
  Integer low = b.step < 0 ? -1 : 0, high = b.step < 0 ? size - 1 : size;
  auto place = [&](const Value& v, Integer otherwise) {
    if (v.is(Kind::none)) return otherwise;
    Integer i = slice_index(v);
    if (i < 0) i = checked_add(i, size);
    return std::clamp(i, low, high);
  };
  b.start = place(start, b.step < 0 ? high : low);
  b.stop = place(stop, b.step < 0 ? low : high);
  if (b.step > 0 && b.start < b.stop) b.count = (b.stop - b.start - 1) / b.step + 1;
  if (b.step < 0 && b.start > b.stop) b.count = (b.start - b.stop - 1) / -b.step + 1;
  return b;
}

size_t byte_of_char(std::string_view text, Integer index) {
  size_t at = 0;
  for (Integer i = 0; i < index && at < text.size(); ++i) at += char_at(text, at).bytes;
  return at;
}

Value slice_string(Meter& meter, const Value& v, const Bounds& b) {
  const Str& s = v.str();
  if (b.step == 1) {
    auto byte = [&](Integer i) { return s.ascii() ? static_cast<size_t>(i) : byte_of_char(s.view(), i); };
    meter.step(s.ascii() ? 1 : 1 + s.size() / 64);
    return b.count == 0 ? substring(meter, v, 0, 0) : substring(meter, v, byte(b.start), byte(b.stop));
  }
  std::vector<size_t> starts;
  meter.step(s.size() / 4);
  if (!s.ascii())
    for (size_t at = 0; at < s.size(); at += char_at(s.view(), at).bytes) starts.push_back(at);
  TextBuilder out(meter);
  for (Integer k = 0; k < b.count; ++k) {
    size_t i = static_cast<size_t>(b.start + k * b.step), at = s.ascii() ? i : starts[i];
    out.append(s, at, at + char_at(s.view(), at).bytes);
  }
  return out.finish();
}

}  // namespace

void raise_undefined(const Value& v) {
  std::string_view name = v.undefined_name();
  if (v.aux() == Value::kVariable) raise("'{}' is undefined", name.empty() ? "a value" : name);
  if (v.unsafe()) raise("access to attribute '{}' of '{}' is unsafe", name, undefined_owner(v.aux()));
  raise("'{}' has no attribute '{}'", undefined_owner(v.aux()), name);
}

bool truthy(const Value& v) {
  switch (v.kind()) {
    case Kind::undefined:
      return false;
    case Kind::none:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return v.integer() != 0;
    case Kind::real:
      return v.real() != 0;
    case Kind::string:
      return v.str().size() != 0;
    case Kind::list:
    case Kind::tuple:
      return !v.sequence().items.empty();
    case Kind::dict:
      return !v.dict().items.empty();
    case Kind::range:
      return v.as<Range>().size != 0;
    case Kind::view:
      return truthy(v.as<View>().of);
    default:
      return true;
  }
}

bool equal(const Value& a, const Value& b) { return equal_at(a, b, 0); }

bool identical(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  if (a.is_number()) return a.is(Kind::real) ? a.real() == b.real() : a.integer() == b.integer();
  if (a.is(Kind::string)) return a.identity() == b.identity() || (a.str().size() <= 1 && equal(a, b));
  if (a.holds_object()) return a.identity() == b.identity();
  return a.is(Kind::none) || (a.is(Kind::function) && a.aux() == b.aux());
}

int compare(const Value& a, const Value& b, const char* symbol) { return compare_at(a, b, symbol, 0); }

bool contains(Meter& meter, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::string:
      if (!item.is(Kind::string)) raise("'in <string>' requires string as left operand, not {}", type_name(item));
      meter.step(container.str().size() / 64);
      return container.str().view().find(item.str().view()) != std::string_view::npos;
    case Kind::dict:
      return container.dict().find(item) != nullptr;
    case Kind::view:
      if (container.as<View>().kind == ViewKind::keys) return container.as<View>().of.dict().find(item) != nullptr;
      break;
    case Kind::undefined:
      return false;
    default:
      break;
  }
  if (!is_iterable(container)) raise("argument of type '{}' is not iterable", type_name(container));
  for (const Value& v : elements(meter, container)) {
    meter.step();
    if (identical(v, item) || equal(v, item)) return true;
  }
  return false;
}

Value add(Meter& meter, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral())
      return Value::of(checked_add(a.integer(), b.integer())).set_content(either_content(a, b));
    return Value::of(to_double(a) + to_double(b)).set_content(either_content(a, b));
  }
  if (a.is(Kind::string) && b.is(Kind::string)) return add_strings(meter, a, b);
  if (a.is_list_or_tuple() && a.kind() == b.kind()) {
    std::vector<Value> items;
    const auto &x = a.sequence().items, &y = b.sequence().items;
    items.reserve(x.size() + y.size());
    items.insert(items.end(), x.begin(), x.end());
    items.insert(items.end(), y.begin(), y.end());
    bool content = either_content(a, b);
    return a.is(Kind::list) ? make_list(meter, std::move(items), content)
                            : make_tuple(meter, std::move(items), content);
  }
  refuse_undefined(a);
  refuse_undefined(b);
  if (a.is(Kind::string) || a.is_list_or_tuple())
    raise("can only concatenate {} (not \"{}\") to {}", type_name(a), type_name(b), type_name(a));
  refuse_operands("+", a, b);
}

Value subtract(const Value& a, const Value& b) {
  if (!a.is_number() || !b.is_number()) refuse_operands("-", a, b);
  bool content = either_content(a, b);
  if (a.is_integral() && b.is_integral())
    return Value::of(checked_subtract(a.integer(), b.integer())).set_content(content);
  return Value::of(to_double(a) - to_double(b)).set_content(content);
}

Value multiply(Meter& meter, const Value& a, const Value& b) {
  if (repeatable(a) && b.is_integral()) return repeat(meter, a, b.integer());
  if (repeatable(b) && a.is_integral()) return repeat(meter, b, a.integer());
  if (!a.is_number() || !b.is_number()) refuse_operands("*", a, b);
  bool content = either_content(a, b);
  if (a.is_integral() && b.is_integral())
    return Value::of(checked_multiply(a.integer(), b.integer())).set_content(content);
  return Value::of(to_double(a) * to_double(b)).set_content(content);
}

Value divide(const Value& a, const Value& b) {
  if (!a.is_number() || !b.is_number()) refuse_operands("/", a, b);
  if (to_double(b) == 0) raise("division by zero");
  return Value::of(to_double(a) / to_double(b)).set_content(either_content(a, b));
}

Value floor_divide(const Value& a, const Value& b) {
  if (!a.is_number() || !b.is_number()) refuse_operands("//", a, b);
  if (to_double(b) == 0) raise("integer division or modulo by zero");
  bool content = either_content(a, b);
  if (!a.is_integral() || !b.is_integral())
    return Value::of(python_floor_divide(to_double(a), to_double(b))).set_content(content);
  Integer x = a.integer(), y = b.integer();
  if (y == -1) return Value::of(checked_subtract(0, x)).set_content(content);
  Integer q = x / y;
  if (x % y != 0 && (x < 0) != (y < 0)) --q;
  return Value::of(q).set_content(content);
}

Value modulo(Meter& meter, const Value& a, const Value& b) {
  if (a.is(Kind::string)) return percent_format(meter, a, b);
  if (!a.is_number() || !b.is_number()) refuse_operands("%", a, b);
  if (to_double(b) == 0) raise("integer division or modulo by zero");
  bool content = either_content(a, b);
  if (!a.is_integral() || !b.is_integral())
    return Value::of(python_modulo(to_double(a), to_double(b))).set_content(content);
  Integer x = a.integer(), y = b.integer();
  if (y == -1) return Value::of(0).set_content(content);
  Integer r = x % y;
  return Value::of(r != 0 && (r < 0) != (y < 0) ? r + y : r).set_content(content);
}

Value power(const Value& a, const Value& b) {
  if (!a.is_number() || !b.is_number()) refuse_operands("**", a, b);
  bool content = either_content(a, b);
  if (a.is_integral() && b.is_integral() && b.integer() >= 0)
    return Value::of(integer_power(a.integer(), b.integer())).set_content(content);
  double x = to_double(a), y = to_double(b);
  if (x == 0 && y < 0) raise("0.0 cannot be raised to a negative power");
  if (x < 0 && y != std::floor(y)) raise("complex numbers are not supported");
  double r = std::pow(x, y);
  if (std::isinf(r) && std::isfinite(x) && std::isfinite(y)) raise("numerical result out of range");
  return Value::of(r).set_content(content);
}

Value negate(const Value& v) {
  if (v.is_integral()) return Value::of(checked_subtract(0, v.integer())).set_content(v.content());
  if (v.is(Kind::real)) return Value::of(-v.real()).set_content(v.content());
  refuse_undefined(v);
  raise("bad operand type for unary -: '{}'", type_name(v));
}

Value plus(const Value& v) {
  if (v.is_integral()) return Value::of(v.integer()).set_content(v.content());
  if (v.is(Kind::real)) return v;
  refuse_undefined(v);
  raise("bad operand type for unary +: '{}'", type_name(v));
}

bool is_iterable(const Value& v) {
  switch (v.kind()) {
    case Kind::undefined:
      return true;
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::range:
    case Kind::view:
    case Kind::iterator:
    case Kind::loop:
      return true;
    default:
      return false;
  }
}

std::vector<Value> elements(Meter& meter, const Value& v) {
  std::vector<Value> out;
  switch (v.kind()) {
    case Kind::undefined:
      return out;
    case Kind::string:
      out = characters(meter, v);
      break;
    case Kind::list:
    case Kind::tuple:
      out = v.sequence().items;
      break;
    case Kind::dict:
      for (const auto& [key, value] : v.dict().items) out.push_back(key);
      break;
    case Kind::range: {
      const Range& r = v.as<Range>();
      for (Integer i = 0; i < r.size; ++i) out.push_back(Value::of(r.at(i)));
      break;
    }
    case Kind::view: {
      const View& view = v.as<View>();
      for (const auto& [key, value] : view.of.dict().items)
        out.push_back(view.kind == ViewKind::keys     ? key
                      : view.kind == ViewKind::values ? value
                                                      : make_tuple(meter, {key, value}, view.of.content()));
      break;
    }
    case Kind::iterator: {
      Iterator& it = v.as<Iterator>();
      out.assign(it.items.begin() + static_cast<ptrdiff_t>(it.next), it.items.end());
      it.next = it.items.size();
      if (it.then) throw *it.then;
      break;
    }
    default:
      raise("'{}' object is not iterable", type_name(v));
  }
  meter.step(out.size());
  return out;
}

std::optional<Integer> maybe_length(const Value& v) {
  switch (v.kind()) {
    case Kind::undefined:
      return 0;
    case Kind::string:
      return static_cast<Integer>(v.str().length());
    case Kind::list:
    case Kind::tuple:
      return static_cast<Integer>(v.sequence().items.size());
    case Kind::dict:
      return static_cast<Integer>(v.dict().items.size());
    case Kind::range:
      return v.as<Range>().size;
    case Kind::view:
      return maybe_length(v.as<View>().of);
    default:
      return std::nullopt;
  }
}

Integer length(const Value& v) {
  if (auto n = maybe_length(v)) return *n;
  refuse_undefined(v);
  raise("object of type '{}' has no len()", type_name(v));
}

Value attribute(Meter& meter, const Value& owner, const Value& name) {
  refuse_undefined(owner);
  if (auto v = python_attribute(meter, owner, name)) return *v;
  if (owner.is(Kind::dict))
    if (const Value* v = owner.dict().find(name.str().view())) return *v;
  return missing(name, owner);
}

Value item(Meter& meter, const Value& owner, const Value& key) {
  refuse_undefined(owner);
  if (auto v = subscript(meter, owner, key)) return *v;
  if (key.is(Kind::string))
    if (auto v = python_attribute(meter, owner, key)) return *v;
  return missing(key.is(Kind::string) ? key : to_text(meter, key), owner);
}

Value slice(Meter& meter, const Value& owner, const Value& start, const Value& stop, const Value& step) {
  refuse_undefined(owner);
  auto size =
      owner.is_list_or_tuple() || owner.is(Kind::string) || owner.is(Kind::range) ? maybe_length(owner) : std::nullopt;
  if (!size) raise("'{}' object is not subscriptable", type_name(owner));
  Bounds b = slice_bounds(*size, start, stop, step);
  if (owner.is(Kind::string)) return slice_string(meter, owner, b);
  if (owner.is(Kind::range)) {
    const Range& r = owner.as<Range>();
    Integer first = r.at(b.start), past = r.at(b.stop);
    return Value::object(Kind::range, make<Range>(meter, first, past, checked_multiply(r.step, b.step)).get());
  }
  std::vector<Value> out;
  out.reserve(static_cast<size_t>(b.count));
  for (Integer k = 0; k < b.count; ++k)
    out.push_back(owner.sequence().items[static_cast<size_t>(b.start + k * b.step)]);
  return owner.is(Kind::list) ? make_list(meter, std::move(out), owner.content())
                              : make_tuple(meter, std::move(out), owner.content());
}

}  // namespace tenon::text::jinja
