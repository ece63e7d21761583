// What the chat endpoints of all APIs share: the prompt of a conversation with its tools, and an answer read as
// content, reasoning and calls.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "server/generation.h"
#include "text/tool_calls.h"
#include "text/tool_grammar.h"

namespace tenon::server {

// Tools as OpenAI's list, checked; null: none.
struct ToolsAsked {
  Json tools;
  bool off = false;  // declared, and not to be called now
  text::ToolChoice choice;
  bool parallel = true;
};

// OpenAI's `tools`, `tool_choice`, `parallel_tool_calls`; of the responses API, whose functions have no level of their
// own, too. Throws ApiError naming the field.
ToolsAsked take_tools(Fields& f);
// Checks a list of {"type": "function", "function": {"name", ...}}.
void check_tools(const Json& tools, const std::string& field);

// Renders the conversation into g.request.prompt and decides how the answer is read and held to its form: sets g.form,
// g.speech, g.request.shown_token_ids. Throws ApiError.
void prepare_chat(TextService& service, text::ChatInput input, const ToolsAsked& tools, Generation& g);

// One choice of an answer as it comes.
class SpeechReader {
 public:
  explicit SpeechReader(const Speech& speech, int choice = 0);
  text::OutputDelta read(const ServiceEvent& event);
  bool called() const { return parser_ && parser_->calls() > 0; }

 private:
  std::optional<text::ToolCallParser> parser_;
};

}  // namespace tenon::server
