// What every filter gets; the filters' files share it.
#pragma once
#include <initializer_list>
#include <string_view>
#include <vector>

#include "text/jinja/args.h"
#include "text/jinja/eval.h"
#include "text/jinja/operators.h"

namespace tenon::text::jinja {

struct FilterCall {
  Evaluator& evaluator;
  Meter& meter;
  std::string_view name;
  const Value& v;
  const Args& args;

  Bound bind(std::initializer_list<const char*> names, size_t required = 0) const {
    return Bound(args, name, names, required);
  }
  Value text() const { return to_text(meter, v); }
  Value method(std::string_view method_name, std::vector<Value> positional = {}) const;  // of str, on text()
  Value string(std::string text) const { return make_string(meter, std::move(text), false); }
};

using FilterFunction = Value (*)(const FilterCall&);
struct FilterEntry {
  std::string_view name;
  FilterFunction run;
};

// Each file's filters.
const std::vector<FilterEntry>& text_filters();
const std::vector<FilterEntry>& sequence_filters();
const std::vector<FilterEntry>& value_filters();
const std::vector<FilterEntry>& pretty_filters();

// "a.b.0": what sort, map, sum ... call an attribute. `fallback` replaces undefined.
class AttributePath {
 public:
  AttributePath(Meter& meter, const Value& path, const Value* fallback = nullptr);
  Value get(const Value& of) const;

 private:
  Meter& meter_;
  std::vector<Value> parts_;
  const Value* fallback_;
};

// The key that sort, unique, min ... compare: strings without case unless case counts.
Value sort_key(Meter& meter, const Value& v, bool case_sensitive);

}  // namespace tenon::text::jinja
