// Chat templates: Jinja as transformers' apply_chat_template runs it, sandboxed and bounded; text with spans of what
// came from messages.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/tokenizer.h"

namespace tenon::text {

struct ChatInput {
  Json messages = Json::array();
  Json tools;                    // null: none
  Json documents;                // null: none
  Json kwargs = Json::object();  // further template variables
  bool add_generation_prompt = false;
  bool continue_final_message = false;
  std::optional<std::string> bos_token, eos_token;  // nullopt: the variable is undefined
  std::optional<std::string>
      now;  // "2026-10-27 12:00:00": the clock strftime_now reads; nullopt: the real one, local time
};

struct Rendered {
  std::string text;
  std::vector<ContentSpan>
      content;  // in order, not overlapping: text that came from messages, tools, documents, kwargs
};

namespace jinja {
class Program;
}

class ChatTemplate {
 public:
  // Throws Error{invalid_file} with line and column.
  explicit ChatTemplate(std::string_view source, std::string_view name = "chat template");
  // Throws Error{invalid_argument}: the template or the renderer refuses (raise_exception's message is in it), or the
  // step, depth or output bound is reached.
  Rendered render(const ChatInput& input) const;

  // A plain Jinja rendering of `context` without the chat conventions (`tenon template` with "context").
  std::string render_context(const Json& context, std::optional<std::string> now = std::nullopt) const;

 private:
  std::shared_ptr<const jinja::Program> program_;
};

using NamedTemplate = std::pair<std::string, std::string>;  // name, source

// Of a model's several templates the one called `wanted`; without a wish "tool_use" where tools are given, else
// "default". nullptr: there is none.
const std::string* choose_template(std::span<const NamedTemplate> templates, bool has_tools,
                                   std::string_view wanted = {});

}  // namespace tenon::text
