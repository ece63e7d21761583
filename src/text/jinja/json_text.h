// json.dumps as transformers' tojson calls it.
#pragma once
#include <optional>
#include <string>

#include "text/jinja/value.h"

namespace tenon::text::jinja {

struct JsonStyle {
  std::optional<Value> indent;  // a string
  Value item_separator, key_separator;
  bool ensure_ascii = false, sort_keys = false;
};

void print_json(Meter& meter, TextBuilder& out, const Value& v, const JsonStyle& style, int depth = 0);

}  // namespace tenon::text::jinja
