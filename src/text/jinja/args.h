// Arguments of a call, and their binding to parameter names.
#pragma once
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace tenon::text::jinja {

struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<Value, Value>> named;  // names are strings
};

class Bound {
 public:
  // Raises for too many, unknown or doubled arguments, and when fewer than the first `required` are given.
  Bound(const Args& args, std::string_view who, std::initializer_list<const char*> names, size_t required = 0);

  bool has(size_t i) const { return values_[i] != nullptr; }
  const Value& operator[](size_t i) const { return *values_[i]; }
  bool flag(size_t i, bool otherwise) const;
  Integer integer(size_t i, Integer otherwise) const;  // raises unless an integer
  // None counts as absent.
  const Value* given(size_t i) const { return values_[i] && !values_[i]->is(Kind::none) ? values_[i] : nullptr; }
  const Str& string(size_t i) const;  // raises unless a string

 private:
  static constexpr size_t kMost = 8;
  std::string_view who_;
  const char* names_[kMost] = {};
  const Value* values_[kMost] = {};
};

}  // namespace tenon::text::jinja
