// A request's JSON, read strictly: every field is taken by somebody, or refused by name.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"

namespace tenon::server {

// Becomes the API's own error answer.
struct ApiError {
  int status = 400;
  std::string message;
  std::string param;  // the field at fault
  std::string code;   // "unknown_field", "unsupported_field", "context_length_exceeded", ...
};

[[noreturn]] void refuse(const std::string& param, const std::string& message, int status = 400,
                         const std::string& code = "invalid_value");

class Fields {
 public:
  // `where`: path of the object, "" for the body. Throws ApiError if it is no object.
  explicit Fields(const Json& object, std::string where = {});

  // The field's value, or nullptr when absent or null.
  const Json* take(const std::string& name);
  const Json& require(const std::string& name);
  std::optional<bool> flag(const std::string& name);
  std::optional<int64_t> integer(const std::string& name, int64_t least, int64_t most);
  std::optional<double> number(const std::string& name, double least, double most);
  std::optional<std::string> text(const std::string& name);
  std::vector<std::string> texts(const std::string& name, size_t most);  // one string or a list
  std::vector<int32_t> ids(const std::string& name);
  // Known to the API, not done here: refused unless absent, null or equal to one of the values that mean nothing.
  void unsupported(const std::string& name, const std::vector<Json>& harmless = {}, const std::string& why = {});
  void ignore(const std::string& name) { take(name); }  // has no effect on the answer by definition (user, metadata)
  // Throws ApiError naming a field nobody took.
  void finish() const;
  std::string path(const std::string& name) const { return where_.empty() ? name : where_ + "." + name; }

 private:
  const Json& object_;
  std::string where_;
  std::set<std::string> taken_;
};

}  // namespace tenon::server
