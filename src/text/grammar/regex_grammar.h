// Regular expressions in the subset that JavaScript, Python and RE2 agree on.
//
// Goals: literals, classes, \d \w \s \p{..}, groups, alternation, bounded and lazy repetition (same language as
// greedy), ^ and $. Non-goals: look-around, back references, word boundaries, flags; they are refused.
#pragma once
#include <string_view>

#include "text/grammar/grammar.h"

namespace tenon::text::grammar {

// The whole output matches `pattern`. Throws Error{invalid_argument|unsupported} with the place in the pattern.
Grammar regex_grammar(std::string_view pattern);

// Adds `pattern` to a grammar as one expression. Assertions stay in it: for regular() and regular_search().
Grammar::Id add_regex(Grammar& grammar, std::string_view pattern);

}  // namespace tenon::text::grammar
