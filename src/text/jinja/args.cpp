#include "text/jinja/args.h"

#include <algorithm>

#include "base/error.h"
#include "text/jinja/operators.h"

namespace tenon::text::jinja {

Bound::Bound(const Args& args, std::string_view who, std::initializer_list<const char*> names, size_t required)
    : who_(who) {
  TENON_CHECK(names.size() <= kMost);
  std::copy(names.begin(), names.end(), names_);
  if (args.positional.size() > names.size())
    raise("{}() takes at most {} arguments ({} given)", who, names.size(), args.positional.size());
  for (size_t i = 0; i < args.positional.size(); ++i) values_[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    size_t i = 0;
    while (i < names.size() && name.str().view() != names.begin()[i]) ++i;
    if (i == names.size()) raise("{}() got an unexpected keyword argument '{}'", who, name.str().view());
    if (values_[i]) raise("{}() got multiple values for argument '{}'", who, names.begin()[i]);
    values_[i] = &value;
  }
  for (size_t i = 0; i < required; ++i)
    if (!values_[i]) raise("{}() misses its argument '{}'", who, names.begin()[i]);
}

bool Bound::flag(size_t i, bool otherwise) const { return values_[i] ? truthy(*values_[i]) : otherwise; }

Integer Bound::integer(size_t i, Integer otherwise) const {
  if (!values_[i]) return otherwise;
  refuse_undefined(*values_[i]);
  if (!values_[i]->is_integral())
    raise("{}(): '{}' must be an integer, not {}", who_, names_[i], type_name(*values_[i]));
  return values_[i]->integer();
}

const Str& Bound::string(size_t i) const {
  if (!values_[i]->is(Kind::string)) {
    refuse_undefined(*values_[i]);
    raise("{}(): '{}' must be str, not {}", who_, names_[i], type_name(*values_[i]));
  }
  return values_[i]->str();
}

}  // namespace tenon::text::jinja
