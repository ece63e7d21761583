#include "pipelines/chat.h"

#include <algorithm>

#include "base/error.h"

namespace tenon::pipelines {
namespace {

std::vector<int32_t> special_marks(const text::ToolFormat& format, const text::Tokenizer& tokenizer) {
  std::vector<int32_t> out;
  for (std::string_view mark : text::marks_of(format))
    for (size_t a = 0; a < mark.size(); ++a) {
      if ((mark[a] & 0xC0) == 0x80) continue;  // inside of a character
      for (size_t n = 3; a + n <= mark.size(); ++n)
        if (auto id = tokenizer.id(mark.substr(a, n)); id && tokenizer.is_special(*id)) out.push_back(*id);
    }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace

Prompt chat_prompt(const text::Tokenizer& tokenizer, const text::ChatTemplate& chat_template,
                   const text::ChatInput& input, bool trust_content) {
  text::ChatInput in = input;
  auto name = [&](std::optional<int32_t> id) { return id ? std::optional(tokenizer.token(*id)) : std::nullopt; };
  if (!in.bos_token) in.bos_token = name(tokenizer.bos_id());
  if (!in.eos_token && !tokenizer.eos_ids().empty()) in.eos_token = name(tokenizer.eos_ids().front());
  text::Rendered r = chat_template.render(in);
  if (trust_content) r.content.clear();
  // The template writes BOS itself where the model wants one.
  std::vector<int32_t> tokens =
      tokenizer.encode_prompt(r.text, r.content, {.add_special_tokens = false, .parse_special = true});
  return {std::move(r.text), std::move(tokens)};
}

std::string chat_template_of(const text::Tokenizer& tokenizer, bool tools, std::string_view name) {
  if (const std::string* source = text::choose_template(tokenizer.chat_templates(), tools, name)) return *source;
  if (tokenizer.chat_templates().empty())
    fail(ErrorCode::not_found, "the model has no chat template; use --raw for plain text or --chat-template FILE");
  std::string names;
  for (const auto& t : tokenizer.chat_templates()) names += (names.empty() ? "" : ", ") + printable(t.first);
  fail(ErrorCode::not_found, "the model has no chat template called '{}'; it has {}",
       name.empty() ? "default" : printable(name), names);
}

ChatForm::ChatForm(const text::Tokenizer& tokenizer, std::string template_source, std::string_view tool_format)
    : source(std::move(template_source)),
      chat_template(source),
      format(tool_format.empty() ? &text::tool_format_for(source) : text::tool_format_named(tool_format)),
      marks(special_marks(*format, tokenizer)),
      thinks(text::may_think(*format, source)) {}

const ChatForm& ChatForms::get(bool tools) {
  std::optional<ChatForm>& form = tools ? with_tools_ : plain_;
  if (form) return *form;
  const text::Tokenizer& tokenizer = pipeline_.require_tokenizer();
  return form.emplace(tokenizer,
                      options_.chat_template.empty() ? chat_template_of(tokenizer, tools) : options_.chat_template,
                      options_.tool_format);
}

}  // namespace tenon::pipelines
