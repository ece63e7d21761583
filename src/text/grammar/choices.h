// One of a list of strings.
#pragma once
#include <span>
#include <string>

#include "text/grammar/grammar.h"

namespace tenon::text::grammar {

// Throws Error{invalid_argument} for an empty list.
Grammar choices_grammar(std::span<const std::string> choices);

}  // namespace tenon::text::grammar
