// Objects with behaviour of their own: macros, loops, cyclers ... They live as long as the rendering.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace tenon::text::jinja {

class Evaluator;
struct Args;

class Special : public Object {
 public:
  Special() : Object(nullptr) {}
  virtual std::optional<Value> attribute(Meter&, std::string_view) { return std::nullopt; }
  virtual std::string text() const { return "<object>"; }  // repr, of loops and macros
  virtual Value call(Evaluator& evaluator, const Args& args) = 0;
};

}  // namespace tenon::text::jinja
