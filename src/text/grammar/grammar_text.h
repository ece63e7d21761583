// A grammar in any notation that is read here.
#pragma once
#include "text/grammar/gbnf.h"
#include "text/grammar/lark.h"

namespace tenon::text::grammar {

// GBNF where rules are written with `::=`, else Lark. Throws what the two throw.
inline Grammar grammar_of_text(std::string_view text) {
  return text.find("::=") != std::string_view::npos ? gbnf_grammar(text) : lark_grammar(text);
}

}  // namespace tenon::text::grammar
