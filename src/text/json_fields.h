// Typed reads of a JSON object's fields, with errors that name the file and the field.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"

namespace tenon::text {

class Fields {
 public:
  // `what` names the object in messages; both views must outlive the reader.
  Fields(const Json& object, std::string_view source, std::string_view what)
      : object_(object), source_(source), what_(what) {
    if (!object.is_object()) fail(ErrorCode::invalid_file, "{}: {} is not an object", source, what);
  }

  const Json& get(std::string_view key) const {
    auto it = object_.find(key);
    if (it == object_.end()) bad(key, "is missing");
    return *it;
  }
  bool has(std::string_view key) const {
    auto it = object_.find(key);
    return it != object_.end() && !it->is_null();
  }
  std::string string(std::string_view key) const {
    const Json& v = get(key);
    if (!v.is_string()) bad(key, "is not a string");
    return v.get<std::string>();
  }
  std::string string_or(std::string_view key, std::string fallback) const {
    return has(key) ? string(key) : std::move(fallback);
  }
  bool flag_or(std::string_view key, bool fallback) const {
    if (!has(key)) return fallback;
    const Json& v = get(key);
    if (!v.is_boolean()) bad(key, "is not true or false");
    return v.get<bool>();
  }
  // A whole number in [0, 2^31).
  int64_t number(std::string_view key) const {
    const Json& v = get(key);
    if (!v.is_number_integer() || v.get<int64_t>() < 0 || v.get<int64_t>() > 0x7FFFFFFF)
      bad(key, "is not a number from 0 to 2147483647");
    return v.get<int64_t>();
  }
  int64_t number_or(std::string_view key, int64_t fallback) const { return has(key) ? number(key) : fallback; }

  [[noreturn]] void bad(std::string_view key, std::string_view why) const {
    fail(ErrorCode::invalid_file, "{}: {}: \"{}\" {}", source_, what_, printable(key), why);
  }
  [[noreturn]] void unsupported(std::string_view key, std::string_view value) const {
    fail(ErrorCode::unsupported, "{}: {}: {} \"{}\" is not known", source_, what_, key, printable(value));
  }
  std::string_view source() const { return source_; }

 private:
  const Json& object_;
  std::string_view source_, what_;
};

}  // namespace tenon::text
