// Tool calls that cannot be malformed: a grammar of what a model may say where tools are declared.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "text/grammar/grammar.h"
#include "text/grammar/token_trie.h"
#include "text/tool_calls.h"

namespace tenon::text {

struct ToolChoice {
  enum class Kind { automatic, required, named } kind = Kind::automatic;
  std::string name;  // for named
};

struct ToolGrammarOptions {
  ToolChoice choice;
  bool parallel = true;         // several calls in one answer
  bool reasoning_open = false;  // the answer begins inside of reasoning
};

// automatic: any text without a mark of a call, then perhaps calls; with an `answer`, either calls or what that grammar
// says. Else calls, after reasoning. A call's arguments match its tool's `parameters`. Marks are special tokens where
// the vocabulary has them as such. Throws Error{invalid_argument|unsupported} naming the tool.
grammar::Grammar tool_grammar(const ToolFormat& format, const Json& tools, const ToolGrammarOptions& options,
                              const grammar::TokenTrie& trie, std::optional<grammar::Grammar> answer = {});

// The same grammar behind reasoning, which begins in the prompt or may come first.
grammar::Grammar after_reasoning(grammar::Grammar grammar, const ToolFormat& format, bool reasoning_open,
                                 const grammar::TokenTrie& trie);

}  // namespace tenon::text
