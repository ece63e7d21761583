#include "server/fields.h"

#include <fmt/format.h>

#include "base/error.h"

namespace tenon::server {

void refuse(const std::string& param, const std::string& message, int status, const std::string& code) {
  throw ApiError{status, message, param, code};
}

Fields::Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
  if (!object.is_object())
    refuse(where_, fmt::format("{} must be a JSON object", where_.empty() ? "the body" : where_));
}

const Json* Fields::take(const std::string& name) {
  taken_.insert(name);
  auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const Json& Fields::require(const std::string& name) {
  const Json* v = take(name);
  if (!v) refuse(path(name), fmt::format("'{}' is required", path(name)), 400, "missing_field");
  return *v;
}

std::optional<bool> Fields::flag(const std::string& name) {
  const Json* v = take(name);
  if (!v) return std::nullopt;
  if (!v->is_boolean()) refuse(path(name), fmt::format("'{}' must be true or false", path(name)));
  return v->get<bool>();
}

std::optional<int64_t> Fields::integer(const std::string& name, int64_t least, int64_t most) {
  const Json* v = take(name);
  if (!v) return std::nullopt;
  if (!v->is_number_integer() || (v->is_number_unsigned() && v->get<uint64_t>() > INT64_MAX) ||
      v->get<int64_t>() < least || v->get<int64_t>() > most)
    refuse(path(name), fmt::format("'{}' must be an integer from {} to {}", path(name), least, most));
  return v->get<int64_t>();
}

std::optional<double> Fields::number(const std::string& name, double least, double most) {
  const Json* v = take(name);
  if (!v) return std::nullopt;
  if (!v->is_number() || !(v->get<double>() >= least && v->get<double>() <= most))
    refuse(path(name), fmt::format("'{}' must be a number from {} to {}", path(name), least, most));
  return v->get<double>();
}

std::optional<std::string> Fields::text(const std::string& name) {
  const Json* v = take(name);
  if (!v) return std::nullopt;
  if (!v->is_string()) refuse(path(name), fmt::format("'{}' must be a string", path(name)));
  return v->get<std::string>();
}

std::vector<std::string> Fields::texts(const std::string& name, size_t most) {
  const Json* v = take(name);
  if (!v) return {};
  if (v->is_string()) return {v->get<std::string>()};
  std::vector<std::string> out;
  if (v->is_array())
    for (const Json& s : *v)
      if (s.is_string()) out.push_back(s.get<std::string>());
  if (!v->is_array() || out.size() != v->size() || out.size() > most)
    refuse(path(name), fmt::format("'{}' must be a string or a list of at most {} strings", path(name), most));
  return out;
}

std::vector<int32_t> Fields::ids(const std::string& name) {
  const Json* v = take(name);
  if (!v) return {};
  std::vector<int32_t> out;
  if (v->is_array())
    for (const Json& id : *v)
      if (id.is_number_integer() && id.get<int64_t>() >= 0 && id.get<int64_t>() <= INT32_MAX)
        out.push_back(static_cast<int32_t>(id.get<int64_t>()));
  if (!v->is_array() || out.size() != v->size())
    refuse(path(name), fmt::format("'{}' must be a list of token ids", path(name)));
  return out;
}

void Fields::unsupported(const std::string& name, const std::vector<Json>& harmless, const std::string& why) {
  const Json* v = take(name);
  if (!v) return;
  for (const Json& h : harmless)
    if (*v == h) return;
  refuse(path(name), fmt::format("'{}' is not supported{}", path(name), why.empty() ? std::string() : ": " + why), 400,
         "unsupported_field");
}

void Fields::finish() const {
  for (const auto& [name, value] : object_.items())
    if (!taken_.count(name) && !value.is_null())  // clients send null for what they do not ask
      refuse(path(name), fmt::format("'{}' is not a field of this request", printable(path(name))), 400,
             "unknown_field");
}

}  // namespace tenon::server
