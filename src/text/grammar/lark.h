// The subset of Lark grammars that OpenAI's custom tools and llguidance take.
//
// `rule: a b | c`, `TERMINAL: ...`, alternatives on lines of their own that begin with `|`, literals "x" (also "x"i and
// "a".."z"), regular expressions /x/ (no flags but i), groups ( ), optional [ ], * + ? ~n ~n..m, aliases `-> name` and
// the prefixes ! ? _ (they shape trees, not texts), `%ignore` of terminals, comments // and #. The start is `start`.
// Direct left recursion is rewritten. %import and templates throw Error{unsupported}.
#pragma once
#include <string_view>

#include "text/grammar/grammar.h"

namespace tenon::text::grammar {

// Throws Error{invalid_argument|unsupported} with line and column.
Grammar lark_grammar(std::string_view text);

}  // namespace tenon::text::grammar
