#include "text/chat_template.h"

#include <cstdio>
#include <ctime>

#include "base/error.h"
#include "text/jinja/chars.h"
#include "text/jinja/eval.h"
#include "text/jinja/from_json.h"

namespace tenon::text {
namespace {

using jinja::raise;

// Appended to the message to go on with; the blank shows whether the template trims it.
constexpr std::string_view kContinueMark = "CONTINUE_FINAL_MESSAGE_TAG ";

std::tm clock(const std::optional<std::string>& now) {
  std::tm t{};
  std::time_t seconds = std::time(nullptr);
  if (!now) {
    localtime_r(&seconds, &t);
    return t;
  }
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  char separator = 0;
  int n =
      std::sscanf(now->c_str(), "%4d-%2d-%2d%c%2d:%2d:%2d", &year, &month, &day, &separator, &hour, &minute, &second);
  bool date = n >= 3 && month >= 1 && month <= 12 && day >= 1 && day <= 31;
  bool time = n == 3 || (n >= 6 && (separator == ' ' || separator == 'T') && hour >= 0 && hour < 24 && minute >= 0 &&
                         minute < 60 && second >= 0 && second < 61);
  if (!date || !time || year < 1)
    fail(ErrorCode::invalid_argument, "now: '{}' is not a time such as 2026-10-27 12:00:00", printable(*now));
  t.tm_year = year - 1900;
  t.tm_mon = month - 1;
  t.tm_mday = day;
  t.tm_hour = hour;
  t.tm_min = minute;
  t.tm_sec = second;
  seconds = timegm(&t);  // fills in the day of the week and of the year
  gmtime_r(&seconds, &t);
  return t;
}

// What transformers does to messages before the template sees them.
Json prepared_message(const Json& message) {
  if (!message.is_object()) raise("a message must be an object, not {}", message.type_name());
  Json kept = Json::object();
  for (const auto& [key, value] : message.items())
    if (!value.is_null()) kept[key] = value;
  for (const char* key : {"reasoning_content", "thinking", "reasoning"}) {
    if (!kept.contains(key)) continue;
    Json reasoning = kept[key];
    kept["reasoning_content"] = reasoning;
    if (kept.contains("thinking")) return kept;
    Json with_thinking = Json::object();
    with_thinking["thinking"] = std::move(reasoning);
    with_thinking.update(kept);
    return with_thinking;
  }
  return kept;
}

Json prepared_messages(const Json& messages) {
  if (!messages.is_array()) raise("messages must be a list");
  if (messages.empty()) raise("messages: the conversation is empty; give at least one message");
  Json out = Json::array();
  for (const Json& m : messages) out.push_back(prepared_message(m));
  return out;
}

// Adds the mark to the last message's text and returns that text.
std::string mark_final_message(Json& messages) {
  Json& last = messages.back();
  if (!last.contains("content")) raise("continue_final_message: the last message has no content");
  Json* text = &last["content"];
  if (text->is_array()) {
    Json* parts = text;
    text = nullptr;
    for (Json& part : *parts)
      if (part.is_object() && part.contains("text")) text = &part["text"];
  }
  if (!text || !text->is_string()) raise("continue_final_message: the last message has no text to go on with");
  std::string before = text->get<std::string>();
  *text = before + std::string(kContinueMark);
  return before;
}

void cut_at_mark(Rendered& rendered, const std::string& final_text) {
  std::string_view mark = kContinueMark, trimmed = jinja::strip_right(mark);
  std::string_view wanted = jinja::strip_left(jinja::strip_right(final_text));
  size_t at = rendered.text.rfind(trimmed);
  if (at == std::string::npos || rendered.text.find(wanted) == std::string::npos)
    raise("continue_final_message: the template changes or drops the last message's content");
  bool kept_blank = std::string_view(rendered.text).substr(at).starts_with(mark);
  size_t end = kept_blank ? at : jinja::strip_right(std::string_view(rendered.text).substr(0, at)).size();
  rendered.text.resize(end);
  while (!rendered.content.empty() && rendered.content.back().begin >= end) rendered.content.pop_back();
  if (!rendered.content.empty()) rendered.content.back().end = std::min(rendered.content.back().end, end);
}

// Runs `program` after `define` has given it its variables; turns failures into errors with the position.
template <class Define>
Rendered run(const jinja::Program& program, const std::optional<std::string>& now, Define define) {
  std::tm time = clock(now);
  jinja::Meter meter;
  jinja::Evaluator evaluator(program, meter, time);
  bool started = false;
  try {
    define(meter, evaluator);
    started = true;
    jinja::TextBuilder out(meter);
    evaluator.render(out);
    Rendered rendered;
    rendered.text = out.take_text(rendered.content);
    return rendered;
  } catch (const jinja::Failure& f) {
    std::string where = started ? evaluator.where() : program.name();
    fail(ErrorCode::invalid_argument, "{}: {}", where, printable(f.message, 2000));
  }
}

void check_tools(const Json& tools) {
  if (tools.is_null()) return;
  if (!tools.is_array()) raise("tools must be a list");
  for (const Json& tool : tools)
    if (!tool.is_object()) raise("a tool must be an object with its JSON schema, not {}", tool.type_name());
}

void check_documents(const Json& documents) {
  if (documents.is_null()) return;
  if (!documents.is_array()) raise("documents must be a list");
  for (const Json& document : documents)
    if (!document.is_object()) raise("a document must be an object, not {}", document.type_name());
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view source, std::string_view name)
    : program_(std::make_shared<jinja::Program>(source, name)) {}

Rendered ChatTemplate::render(const ChatInput& input) const {
  if (input.continue_final_message && input.add_generation_prompt)
    fail(ErrorCode::invalid_argument, "{}: continue_final_message and add_generation_prompt exclude each other",
         program_->name());
  std::string final_text;
  Rendered rendered = run(*program_, input.now, [&](jinja::Meter& meter, jinja::Evaluator& evaluator) {
    Json messages = prepared_messages(input.messages);
    check_tools(input.tools);
    check_documents(input.documents);
    if (input.continue_final_message) final_text = mark_final_message(messages);
    auto define = [&](std::string_view name, const Json& value) {
      evaluator.define(name, jinja::from_json(meter, value));
    };
    for (const auto& [name, value] : input.kwargs.items()) define(name, value);
    define("messages", messages);
    define("tools", input.tools);
    define("documents", input.documents);
    evaluator.define("add_generation_prompt", jinja::Value::of(input.add_generation_prompt));
    auto token = [&](std::string_view name, const std::optional<std::string>& text) {
      if (text) evaluator.define(name, jinja::make_string(meter, *text, false));
    };
    token("bos_token", input.bos_token);
    token("eos_token", input.eos_token);
  });
  if (!input.continue_final_message) return rendered;
  try {
    cut_at_mark(rendered, final_text);
  } catch (const jinja::Failure& f) {
    fail(ErrorCode::invalid_argument, "{}: {}", program_->name(), f.message);
  }
  return rendered;
}

std::string ChatTemplate::render_context(const Json& context, std::optional<std::string> now) const {
  return run(*program_, now,
             [&](jinja::Meter& meter, jinja::Evaluator& evaluator) {
               if (!context.is_object()) raise("context must be an object");
               for (const auto& [name, value] : context.items()) evaluator.define(name, jinja::from_json(meter, value));
             })
      .text;
}

const std::string* choose_template(std::span<const NamedTemplate> templates, bool has_tools, std::string_view wanted) {
  auto find = [&](std::string_view name) -> const std::string* {
    for (const auto& [known, source] : templates)
      if (known == name) return &source;
    return nullptr;
  };
  if (!wanted.empty()) return find(wanted);
  if (has_tools)
    if (const std::string* tool_use = find("tool_use")) return tool_use;
  return find("default");
}

}  // namespace tenon::text
