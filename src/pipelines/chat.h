// Conversations of a loaded model: its chat template, read once, and the prompts it writes.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipelines/text.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "text/tool_calls.h"

namespace tenon::pipelines {

// Renders `input` with the template, as one string with spans, and encodes it.
struct Prompt {
  std::string text;
  std::vector<int32_t> tokens;
};
// What messages say is text: special tokens are only those that the template wrote, unless `trust_content`.
Prompt chat_prompt(const text::Tokenizer& tokenizer, const text::ChatTemplate& chat_template,
                   const text::ChatInput& input, bool trust_content = false);
// The template a chat uses: the one called `name`; without a name the default one, or tool_use when tools are given and
// it exists. Throws Error{not_found}, which lists the names there are.
std::string chat_template_of(const text::Tokenizer& tokenizer, bool tools, std::string_view name = {});

// What a template decides for all its conversations.
struct ChatForm {
  ChatForm(const text::Tokenizer& tokenizer, std::string source, std::string_view tool_format);
  std::string source;
  text::ChatTemplate chat_template;
  const text::ToolFormat* format;  // how answers write calls and reasoning
  std::vector<int32_t> marks;      // sorted; special tokens that stand in the format's marks
  bool thinks;                     // an answer may begin with reasoning
};

struct ChatFormOptions {
  std::string chat_template;  // Jinja; "": the model's own
  std::string tool_format;    // a name in text::tool_formats(); "": by the template
};

// The forms of one model, each made when it is first asked for. One thread's.
class ChatForms {
 public:
  ChatForms(const TextPipeline& pipeline, ChatFormOptions options)
      : pipeline_(pipeline), options_(std::move(options)) {}
  // Throws Error: there is no tokenizer, no template, or it cannot be read.
  const ChatForm& get(bool tools);

 private:
  const TextPipeline& pipeline_;
  ChatFormOptions options_;
  std::optional<ChatForm> plain_, with_tools_;
};

}  // namespace tenon::pipelines
