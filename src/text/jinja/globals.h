// Global functions: range, dict, namespace, cycler, joiner, raise_exception, strftime_now.
#pragma once
#include <string_view>
#include <vector>

#include "text/jinja/args.h"

namespace tenon::text::jinja {

class Evaluator;

const std::vector<std::string_view>& global_names();  // a function's id is its index
Value call_global(Evaluator& evaluator, uint8_t id, const Args& args);

}  // namespace tenon::text::jinja
