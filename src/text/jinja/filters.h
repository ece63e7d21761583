// Jinja's builtin filters, and transformers' tojson.
#pragma once
#include <optional>
#include <string_view>

#include "text/jinja/args.h"

namespace tenon::text::jinja {

class Evaluator;

std::optional<uint32_t> filter_index(std::string_view name);
Value apply_filter(Evaluator& evaluator, uint32_t index, const Value& input, const Args& args);

}  // namespace tenon::text::jinja
