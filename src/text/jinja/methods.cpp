#include "text/jinja/methods.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/eval.h"
#include "text/jinja/loop.h"
#include "text/jinja/operators.h"

namespace tenon::text::jinja {
namespace {

template <size_t N>
bool among(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

constexpr std::string_view kDictMethods[] = {"keys", "values", "items", "get", "copy", "fromkeys"};
constexpr std::string_view kDictChanges[] = {"pop", "update", "clear", "popitem", "setdefault"};
constexpr std::string_view kListChanges[] = {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};

Value dict_view(Meter& meter, const Value& self, ViewKind kind) {
  return Value::object(Kind::view, make<View>(meter, kind, self).get());
}

Value call_dict(Meter& meter, const Value& self, std::string_view name, const Args& args) {
  if (name == "get") {
    Bound a(args, name, {"key", "default"}, 1);
    const Value* v = self.dict().find(a[0]);
    return v ? *v : a.has(1) ? a[1] : Value::none();
  }
  if (name == "fromkeys") {
    Bound a(args, name, {"iterable", "value"}, 1);
    Ref<Dict> dict = make<Dict>(meter);
    for (const Value& key : elements(meter, a[0])) dict->set(key, a.has(1) ? a[1] : Value::none());
    return to_value(dict);
  }
  Bound none(args, name, {});
  if (name == "keys") return dict_view(meter, self, ViewKind::keys);
  if (name == "values") return dict_view(meter, self, ViewKind::values);
  if (name == "items") return dict_view(meter, self, ViewKind::items);
  return self;  // copy: values don't change
}

Value call_sequence(Meter& meter, const Value& self, std::string_view name, const Args& args) {
  if (name == "copy") {
    Bound none(args, name, {});
    return self;
  }
  Bound a(args, name, {"value", "start", "stop"}, 1);
  std::vector<Value> items = elements(meter, self);
  auto same = [&](const Value& v) {
    meter.step();
    return identical(v, a[0]) || equal(v, a[0]);
  };
  if (name == "count") return Value::of(static_cast<Integer>(std::count_if(items.begin(), items.end(), same)));
  Integer size = static_cast<Integer>(items.size());
  auto place = [&](Integer i) { return std::clamp<Integer>(i < 0 ? i + size : i, 0, size); };
  Integer start = place(a.integer(1, 0)), stop = place(a.integer(2, size));
  for (Integer i = start; i < stop; ++i)
    if (same(items[static_cast<size_t>(i)])) return Value::of(i);
  raise("the value is not in the {}", type_name(self));
}

Value call_number(const Value& self, std::string_view name, const Args& args) {
  Bound none(args, name, {});
  if (name == "is_integer")
    return Value::of(self.is_integral() || (std::isfinite(self.real()) && std::floor(self.real()) == self.real()));
  if (name == "conjugate") return self;
  int bits = 0;  // bit_length
  for (Integer i = self.integer() < 0 ? -self.integer() : self.integer(); i > 0; i >>= 1) ++bits;
  return Value::of(bits);
}

}  // namespace

MethodKind find_method(Kind kind, std::string_view name) {
  auto when = [](bool is) { return is ? MethodKind::safe : MethodKind::none; };
  switch (kind) {
    case Kind::string:
      return when(is_string_method(name));
    case Kind::dict:
      if (among(kDictChanges, name)) return MethodKind::unsafe;
      return when(among(kDictMethods, name));
    case Kind::list:
      if (among(kListChanges, name)) return MethodKind::unsafe;
      return when(name == "count" || name == "index" || name == "copy");
    case Kind::tuple:
    case Kind::range:
      return when(name == "count" || name == "index");
    case Kind::boolean:
    case Kind::integer:
      return when(name == "bit_length" || name == "is_integer" || name == "conjugate");
    case Kind::real:
      return when(name == "is_integer" || name == "conjugate");
    default:
      return MethodKind::none;
  }
}

Value call_method(Evaluator& evaluator, const Value& self, std::string_view name, const Args& args) {
  Meter& meter = evaluator.meter();
  meter.step();
  switch (self.kind()) {
    case Kind::string:
      return call_string_method(meter, self, name, args);
    case Kind::dict:
      return call_dict(meter, self, name, args);
    case Kind::list:
    case Kind::tuple:
    case Kind::range:
      return call_sequence(meter, self, name, args);
    case Kind::loop:
      return name == "cycle" ? self.as<Loop>().cycle(args) : self.as<Loop>().changed(meter, args);
    default:
      return call_number(self, name, args);
  }
}

}  // namespace tenon::text::jinja
