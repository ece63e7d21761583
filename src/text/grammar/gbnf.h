// llama.cpp's GBNF, and the EBNF that vLLM and xgrammar take in the same notation.
//
// `name ::= ...` or `name: ...`; literals in double or single quotes, classes, `.`, groups, | * + ? {n} {n,} {n,m},
// comments from # to the end of the line. A rule ends where the next begins. The start is `root`, else the first rule.
#pragma once
#include <string_view>

#include "text/grammar/grammar.h"

namespace tenon::text::grammar {

// Throws Error{invalid_argument} with line and column.
Grammar gbnf_grammar(std::string_view text);

}  // namespace tenon::text::grammar
