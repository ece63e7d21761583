// Errors as callers see them: one exception type with a code and a one-line message that says what, where and what to
// do.
#pragma once
#include <stdexcept>
#include <string>

namespace tenon {

enum class ErrorCode {
  invalid_file,      // a file's content is malformed, truncated or hostile
  unsupported,       // well-formed, but not something tenon can run
  not_found,         // a file, tensor or name that should be there is not
  io,                // the operating system refused
  invalid_argument,  // the caller's value is out of range
  does_not_fit,      // the memory plan exceeds a limit
  internal,          // our bug
};

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace tenon
