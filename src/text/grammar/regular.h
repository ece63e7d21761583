// Expressions without recursion -> deterministic automata.
#pragma once
#include "text/grammar/grammar.h"

namespace tenon::text::grammar {

// How a character of an expression is written in the output.
enum class Spelling {
  plain,      // as its UTF-8
  json,       // inside of a JSON string; one spelling per character: escaped only where it must be
  json_free,  // inside of a JSON string, with every escape that JSON knows
};

struct RegularLimits {
  uint32_t nfa_nodes = 200'000;
  uint32_t dfa_states = 20'000;
};

// Calls are followed; a recursive one throws Error{invalid_argument}, as does a result beyond the limits.
Dfa regular(const Grammar& grammar, Grammar::Id expr, Spelling spelling, const RegularLimits& limits, Meter& meter);

// As regular(), for texts that contain a match anywhere (what JSON Schema's `pattern` asks for).
Dfa regular_search(const Grammar& grammar, Grammar::Id expr, Spelling spelling, const RegularLimits& limits,
                   Meter& meter);

}  // namespace tenon::text::grammar
