// Structured output as requests ask for it: response_format, structured_outputs and the like -> a grammar.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "server/fields.h"
#include "text/grammar/grammar.h"
#include "text/grammar/token_trie.h"

namespace tenon::server {

// What an answer must look like. The grammar is made and compiled off the server's thread, before the request is taken.
struct OutputForm {
  std::string field;  // of the request, for messages
  std::string key;    // equal for equal forms
  std::function<text::grammar::Grammar(const text::grammar::TokenTrie&)> grammar;
};

// OpenAI's response_format; vLLM's structured_outputs and guided_*; llama.cpp's grammar (GBNF) and json_schema. Throws
// ApiError naming the field; two forms at once are refused.
std::optional<OutputForm> take_output_form(Fields& f);

// {"type": "text" | "json_object" | "json_schema", ...}; the schema is in `format` itself or in its member
// "json_schema". nullopt: text.
std::optional<OutputForm> output_format(const Json& format, const std::string& field);
OutputForm schema_form(const Json& schema, const std::string& field);
OutputForm object_form(const std::string& field);

}  // namespace tenon::server
