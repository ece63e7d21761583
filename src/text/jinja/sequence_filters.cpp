// Filters on sequences: map, select, sort, join ...
#include <algorithm>

#include "text/jinja/filter_call.h"
#include "text/jinja/filters.h"
#include "text/jinja/numbers.h"
#include "text/jinja/tests.h"

namespace tenon::text::jinja {
namespace {

// What a generator makes of each element; a failure comes when the iterator gets there.
template <class Function>
Value generate(const FilterCall& c, Function function) {
  std::vector<Value> out;
  std::optional<Failure> then;
  try {
    for (const Value& v : elements(c.meter, c.v)) {
      c.meter.step();
      function(v, out);
    }
  } catch (Failure& f) {
    then = std::move(f);
  }
  return c.evaluator.iterator(std::move(out), "generator", std::move(then));
}

Args rest_of(const Args& args, size_t from) {
  Args rest;
  rest.positional.assign(args.positional.begin() + static_cast<ptrdiff_t>(std::min(from, args.positional.size())),
                         args.positional.end());
  rest.named = args.named;
  return rest;
}

Value mapped(const FilterCall& c) {
  bool by_attribute = false;
  for (const auto& [key, value] : c.args.named)
    by_attribute |= c.args.positional.empty() && key.str().view() == "attribute";
  if (by_attribute) {
    Bound a(c.args, "map", {"attribute", "default"}, 1);
    AttributePath path(c.meter, a[0], a.given(1));
    return generate(c, [&](const Value& v, std::vector<Value>& out) { out.push_back(path.get(v)); });
  }
  if (c.args.positional.empty()) raise("map requires a filter argument");
  Value name = to_text(c.meter, c.args.positional[0]);
  auto index = filter_index(name.str().view());
  if (!index) raise("there is no filter '{}'", name.str().view());
  Args rest = rest_of(c.args, 1);
  return generate(
      c, [&](const Value& v, std::vector<Value>& out) { out.push_back(apply_filter(c.evaluator, *index, v, rest)); });
}

// select, reject, selectattr, rejectattr
Value chosen(const FilterCall& c) {
  bool wanted = c.name.starts_with("select"), by_attribute = c.name.ends_with("attr");
  size_t used = by_attribute ? 1 : 0;
  if (by_attribute && c.args.positional.empty()) raise("missing parameter for attribute name");
  std::optional<AttributePath> path;
  if (by_attribute) path.emplace(c.meter, c.args.positional[0]);
  std::optional<uint32_t> test;
  if (c.args.positional.size() > used) {
    Value name = to_text(c.meter, c.args.positional[used]);
    test = test_index(name.str().view());
    if (!test) raise("there is no test '{}'", name.str().view());
  }
  Args rest = rest_of(c.args, used + 1);
  return generate(c, [&](const Value& v, std::vector<Value>& out) {
    Value part = path ? path->get(v) : v;
    bool passes = test ? apply_test(c.evaluator, *test, part, rest) : truthy(part);
    if (passes == wanted) out.push_back(v);
  });
}

// map and select are generators: nothing is wrong with them until they run, and they don't where the input is false
// (None, too).
Value lazily(const FilterCall& c, FilterFunction run) {
  if (!truthy(c.v)) return c.evaluator.iterator({});
  try {
    return run(c);
  } catch (Failure& f) {
    return c.evaluator.iterator({}, "generator", std::move(f));
  }
}

Value map(const FilterCall& c) { return lazily(c, mapped); }
Value choose(const FilterCall& c) { return lazily(c, chosen); }

Value join(const FilterCall& c) {
  Bound a = c.bind({"d", "attribute"});
  std::optional<AttributePath> path;
  if (a.given(1)) path.emplace(c.meter, a[1]);
  Value separator = a.has(0) ? to_text(c.meter, a[0]) : c.string("");
  std::vector<Value> items = elements(c.meter, c.v);
  bool escape = false;
  if (c.evaluator.autoescape())
    for (const Value& v : items) escape |= v.is(Kind::string) && v.str().markup();
  TextBuilder out(c.meter);
  out.set_markup(escape);
  bool first = true;
  for (const Value& v : items) {
    if (!first) out.append(separator.str());
    first = false;
    Value part = path ? path->get(v) : v;
    if (escape)
      print_escaped(c.meter, out, part);
    else
      print(c.meter, out, part);
  }
  return out.finish();
}

Value length_of(const FilterCall& c) {
  c.bind({});
  return Value::of(length(c.v));
}

Value list(const FilterCall& c) {
  c.bind({});
  bool content = c.v.content() || (c.v.is(Kind::string) && c.v.str().marks().all);
  return make_list(c.meter, elements(c.meter, c.v), content);
}

Value first(const FilterCall& c) {
  c.bind({});
  if (c.v.is(Kind::iterator)) {
    Iterator& it = c.v.as<Iterator>();
    if (it.next < it.items.size()) return it.items[it.next++];
  }
  std::vector<Value> items = elements(c.meter, c.v);
  return items.empty() ? Value::undefined() : items.front();
}

Value last(const FilterCall& c) {
  c.bind({});
  if (c.v.is(Kind::iterator)) raise("'{}' object is not reversible", type_name(c.v));
  std::vector<Value> items = elements(c.meter, c.v);
  return items.empty() ? Value::undefined() : items.back();
}

// A prompt must not depend on chance: the first element stands for any.
Value random(const FilterCall& c) {
  c.bind({});
  std::vector<Value> items = elements(c.meter, c.v);
  return items.empty() ? Value::undefined() : items.front();
}

Value reverse(const FilterCall& c) {
  c.bind({});
  if (c.v.is(Kind::string)) return slice(c.meter, c.v, Value::none(), Value::none(), Value::of(-1));
  std::vector<Value> items = elements(c.meter, c.v);
  std::reverse(items.begin(), items.end());
  return c.evaluator.iterator(std::move(items), "list_reverseiterator");
}

// Sorting keys of values by one or more attributes ("a,b").
class Keys {
 public:
  Keys(Meter& meter, const Value* attribute, bool case_sensitive) : meter_(meter), case_sensitive_(case_sensitive) {
    if (!attribute) return;
    if (!attribute->is(Kind::string)) {
      paths_.emplace_back(meter, *attribute);
      return;
    }
    std::string_view text = attribute->str().view();
    while (true) {
      size_t comma = std::min(text.find(','), text.size());
      paths_.emplace_back(meter, make_string(meter, std::string(text.substr(0, comma)), false));
      if (comma == text.size()) return;
      text.remove_prefix(comma + 1);
    }
  }
  Value of(const Value& v) const {
    if (paths_.empty()) return sort_key(meter_, v, case_sensitive_);
    if (paths_.size() == 1) return sort_key(meter_, paths_[0].get(v), case_sensitive_);
    std::vector<Value> keys;
    for (const AttributePath& p : paths_) keys.push_back(sort_key(meter_, p.get(v), case_sensitive_));
    return make_list(meter_, std::move(keys));
  }

 private:
  Meter& meter_;
  bool case_sensitive_;
  std::vector<AttributePath> paths_;
};

// Stable merge sort of our own: values without a strict order (NaN) must not break it, and each comparison is a step.
void sort_indices(Meter& meter, std::vector<size_t>& order, const std::vector<Value>& keys, bool reverse) {
  std::vector<size_t> scratch(order.size());
  for (size_t width = 1; width < order.size(); width *= 2) {
    for (size_t begin = 0; begin < order.size(); begin += 2 * width) {
      size_t middle = std::min(begin + width, order.size()), end = std::min(begin + 2 * width, order.size());
      size_t a = begin, b = middle, to = begin;
      while (a < middle && b < end) {
        meter.step();
        bool take_right = compare(keys[order[b]], keys[order[a]]) == (reverse ? 1 : -1);
        scratch[to++] = take_right ? order[b++] : order[a++];
      }
      while (a < middle) scratch[to++] = order[a++];
      while (b < end) scratch[to++] = order[b++];
    }
    order.swap(scratch);
  }
}

std::vector<Value> sorted(Meter& meter, const std::vector<Value>& items, const std::vector<Value>& keys, bool reverse) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  sort_indices(meter, order, keys, reverse);
  std::vector<Value> out;
  out.reserve(items.size());
  for (size_t i : order) out.push_back(items[i]);
  return out;
}

std::vector<Value> keys_of(const std::vector<Value>& items, const Keys& keys) {
  std::vector<Value> out;
  out.reserve(items.size());
  for (const Value& v : items) out.push_back(keys.of(v));
  return out;
}

Value sort(const FilterCall& c) {
  Bound a = c.bind({"reverse", "case_sensitive", "attribute"});
  std::vector<Value> items = elements(c.meter, c.v);
  Keys keys(c.meter, a.given(2), a.flag(1, false));
  return make_list(c.meter, sorted(c.meter, items, keys_of(items, keys), a.flag(0, false)), c.v.content());
}

Value dictsort(const FilterCall& c) {
  Bound a = c.bind({"case_sensitive", "by", "reverse"});
  std::string_view by = a.has(1) ? a.string(1).view() : "key";
  if (by != "key" && by != "value") raise("You can only sort by either \"key\" or \"value\"");
  if (!c.v.is(Kind::dict)) {
    refuse_undefined(c.v);
    raise("dictsort wants a mapping, not {}", type_name(c.v));
  }
  std::vector<Value> items, keys;
  for (const auto& [key, value] : c.v.dict().items) {
    items.push_back(make_tuple(c.meter, {key, value}, c.v.content()));
    keys.push_back(sort_key(c.meter, by == "key" ? key : value, a.flag(0, false)));
  }
  return make_list(c.meter, sorted(c.meter, items, keys, a.flag(2, false)), c.v.content());
}

Value unique(const FilterCall& c) {
  Bound a = c.bind({"case_sensitive", "attribute"});
  Keys keys(c.meter, a.given(1), a.flag(0, false));
  Ref<Dict> seen = make<Dict>(c.meter);
  return generate(c, [&](const Value& v, std::vector<Value>& out) {
    Value key = keys.of(v);
    if (seen->find(key)) return;
    seen->set(key, Value::none());
    out.push_back(v);
  });
}

Value extreme(const FilterCall& c) {
  Bound a = c.bind({"case_sensitive", "attribute"});
  std::vector<Value> items = elements(c.meter, c.v);
  if (items.empty()) return Value::undefined();
  std::vector<Value> keys = keys_of(items, Keys(c.meter, a.given(1), a.flag(0, false)));
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i)
    if (compare(keys[i], keys[best]) == (c.name == "min" ? -1 : 1)) best = i;
  return items[best];
}

Value sum(const FilterCall& c) {
  Bound a = c.bind({"attribute", "start"});
  Value total = a.has(1) ? a[1] : Value::of(0);
  if (total.is(Kind::string)) raise("sum() can't sum strings");
  std::optional<AttributePath> path;
  if (a.given(0)) path.emplace(c.meter, a[0]);
  for (const Value& v : elements(c.meter, c.v)) total = add(c.meter, total, path ? path->get(v) : v);
  return total;
}

Value groupby(const FilterCall& c) {
  Bound a = c.bind({"attribute", "default", "case_sensitive"}, 1);
  bool case_sensitive = a.flag(2, false);
  AttributePath path(c.meter, a[0], a.given(1));
  std::vector<Value> items = elements(c.meter, c.v), groupers, keys;
  for (const Value& v : items) {
    groupers.push_back(path.get(v));
    keys.push_back(sort_key(c.meter, groupers.back(), case_sensitive));
  }
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  sort_indices(c.meter, order, keys, false);
  std::vector<Value> groups;
  for (size_t i = 0; i < order.size();) {
    size_t first_of_group = order[i];
    std::vector<Value> members;
    for (; i < order.size() && equal(keys[order[i]], keys[first_of_group]); ++i) members.push_back(items[order[i]]);
    if (members.empty()) members.push_back(items[order[i++]]);  // NaN is not equal to itself
    Value group =
        make_tuple(c.meter, {groupers[first_of_group], make_list(c.meter, std::move(members), c.v.content())});
    group.as<Sequence>().group = true;
    groups.push_back(std::move(group));
  }
  return make_list(c.meter, std::move(groups));
}

Value batch(const FilterCall& c) {
  Bound a = c.bind({"linecount", "fill_with"}, 1);
  Integer size = a.integer(0, 0);
  std::vector<Value> batches, current;
  auto flush = [&] {
    batches.push_back(make_list(c.meter, std::move(current), c.v.content()));
    current.clear();
  };
  for (const Value& v : elements(c.meter, c.v)) {
    if (static_cast<Integer>(current.size()) == size) flush();
    current.push_back(v);
  }
  if (!current.empty()) {
    if (a.given(1)) {
      if (size > kMaxRange) raise("batch: the size is beyond {}", kMaxRange);
      while (static_cast<Integer>(current.size()) < size) current.push_back(a[1]);
    }
    flush();
  }
  return c.evaluator.iterator(std::move(batches));
}

Value slice_into(const FilterCall& c) {
  Bound a = c.bind({"slices", "fill_with"}, 1);
  Integer slices = a.integer(0, 0);
  std::vector<Value> items = elements(c.meter, c.v), out;
  if (slices == 0) raise("division by zero");
  if (slices > kMaxRange) raise("slice: the number is beyond {}", kMaxRange);
  Integer each = static_cast<Integer>(items.size()) / std::max<Integer>(slices, 1),
          longer = static_cast<Integer>(items.size()) % std::max<Integer>(slices, 1);
  size_t at = 0;
  for (Integer i = 0; i < slices; ++i) {
    size_t n = static_cast<size_t>(each + (i < longer ? 1 : 0));
    std::vector<Value> part(items.begin() + static_cast<ptrdiff_t>(at), items.begin() + static_cast<ptrdiff_t>(at + n));
    at += n;
    if (a.given(1) && i >= longer) part.push_back(a[1]);
    c.meter.step();
    out.push_back(make_list(c.meter, std::move(part), c.v.content()));
  }
  return c.evaluator.iterator(std::move(out));
}

Value items(const FilterCall& c) {
  c.bind({});
  if (c.v.is(Kind::undefined)) return c.evaluator.iterator({});
  if (!c.v.is(Kind::dict))
    return c.evaluator.iterator({}, "generator", Failure{"Can only get item pairs from a mapping."});
  std::vector<Value> out;
  for (const auto& [key, value] : c.v.dict().items) out.push_back(make_tuple(c.meter, {key, value}, c.v.content()));
  return c.evaluator.iterator(std::move(out));
}

}  // namespace

const std::vector<FilterEntry>& sequence_filters() {
  static const std::vector<FilterEntry> filters = {
      {"batch", batch},      {"count", length_of}, {"dictsort", dictsort}, {"first", first},
      {"groupby", groupby},  {"items", items},     {"join", join},         {"last", last},
      {"length", length_of}, {"list", list},       {"map", map},           {"max", extreme},
      {"min", extreme},      {"random", random},   {"reject", choose},     {"rejectattr", choose},
      {"reverse", reverse},  {"select", choose},   {"selectattr", choose}, {"slice", slice_into},
      {"sort", sort},        {"sum", sum},         {"unique", unique},
  };
  return filters;
}

}  // namespace tenon::text::jinja
