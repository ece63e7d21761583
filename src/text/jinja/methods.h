// Methods of Python's str, list, tuple, dict, int, float and range that templates may call.
#pragma once
#include <string_view>

#include "text/jinja/args.h"

namespace tenon::text::jinja {

class Evaluator;

enum class MethodKind : unsigned char {
  none,
  safe,
  unsafe
};  // unsafe: it would change its object, the sandbox forbids it

MethodKind find_method(Kind kind, std::string_view name);
Value call_method(Evaluator& evaluator, const Value& self, std::string_view name, const Args& args);

// Methods of strings; is_string_method(name).
Value call_string_method(Meter& meter, const Value& self, std::string_view name, const Args& args);
bool is_string_method(std::string_view name);

}  // namespace tenon::text::jinja
