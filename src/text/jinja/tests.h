// Jinja's builtin tests.
#pragma once
#include <optional>
#include <string_view>

#include "text/jinja/args.h"

namespace tenon::text::jinja {

class Evaluator;

std::optional<uint32_t> test_index(std::string_view name);
bool apply_test(Evaluator& evaluator, uint32_t index, const Value& input, const Args& args);

}  // namespace tenon::text::jinja
