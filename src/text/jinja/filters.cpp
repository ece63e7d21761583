#include "text/jinja/filters.h"

#include <algorithm>

#include "text/jinja/filter_call.h"
#include "text/jinja/methods.h"
#include "text/jinja/numbers.h"
#include "text/jinja/string_cases.h"

namespace tenon::text::jinja {
namespace {

const std::vector<FilterEntry>& all_filters() {
  static const std::vector<FilterEntry> sorted = [] {
    std::vector<FilterEntry> out;
    for (const auto* part : {&text_filters(), &sequence_filters(), &value_filters(), &pretty_filters()})
      out.insert(out.end(), part->begin(), part->end());
    std::sort(out.begin(), out.end(), [](const FilterEntry& a, const FilterEntry& b) { return a.name < b.name; });
    return out;
  }();
  return sorted;
}

}  // namespace

std::optional<uint32_t> filter_index(std::string_view name) {
  const auto& filters = all_filters();
  auto e = std::lower_bound(filters.begin(), filters.end(), name,
                            [](const FilterEntry& a, std::string_view b) { return a.name < b; });
  if (e == filters.end() || e->name != name) return std::nullopt;
  return static_cast<uint32_t>(e - filters.begin());
}

Value apply_filter(Evaluator& evaluator, uint32_t index, const Value& input, const Args& args) {
  const FilterEntry& e = all_filters()[index];
  evaluator.meter().step();
  return e.run({evaluator, evaluator.meter(), e.name, input, args});
}

Value FilterCall::method(std::string_view method_name, std::vector<Value> positional) const {
  return call_string_method(meter, text(), method_name, Args{std::move(positional), {}});
}

AttributePath::AttributePath(Meter& meter, const Value& path, const Value* fallback)
    : meter_(meter), fallback_(fallback) {
  if (!path.is(Kind::string)) {
    parts_.push_back(path);
    return;
  }
  std::string_view text = path.str().view();
  while (true) {
    size_t dot = std::min(text.find('.'), text.size());
    std::string_view part = text.substr(0, dot);
    bool number = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    if (number)
      parts_.push_back(Value::of(parse_integer(part).value_or(0)));
    else
      parts_.push_back(make_string(meter, std::string(part), false));
    if (dot == text.size()) return;
    text.remove_prefix(dot + 1);
  }
}

Value AttributePath::get(const Value& of) const {
  Value v = of;
  for (const Value& part : parts_) {
    v = item(meter_, v, part);
    if (v.is(Kind::undefined) && fallback_) v = *fallback_;
  }
  return v;
}

Value sort_key(Meter& meter, const Value& v, bool case_sensitive) {
  return v.is(Kind::string) && !case_sensitive ? lower_case(meter, v) : v;
}

}  // namespace tenon::text::jinja
