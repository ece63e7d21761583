#include "text/template_row.h"

#include "base/error.h"
#include "text/chat_template.h"

namespace tenon::text {
namespace {

// A field that is absent or null counts as not given.
const Json* field(const Json& row, const char* name) {
  auto found = row.find(name);
  return found == row.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> text_field(const Json& row, const char* name) {
  const Json* v = field(row, name);
  if (!v) return std::nullopt;
  if (!v->is_string()) fail(ErrorCode::invalid_argument, "{}: must be a string, not {}", name, v->type_name());
  return v->get<std::string>();
}

bool flag(const Json& v, const char* name) {
  if (!v.is_boolean()) fail(ErrorCode::invalid_argument, "{}: must be true or false, not {}", name, v.type_name());
  return v.get<bool>();
}

void check_fields(const Json& row) {
  static constexpr const char* kKnown[] = {
      "template", "messages", "context",   "tools",    "documents", "add_generation_prompt", "continue_final_message",
      "kwargs",   "now",      "bos_token", "eos_token"};
  if (!row.is_object()) fail(ErrorCode::invalid_argument, "a line must be a JSON object");
  for (const auto& [key, value] : row.items()) {
    bool known = false;
    for (const char* k : kKnown) known |= key == k;
    if (!known) fail(ErrorCode::invalid_argument, "unknown field '{}'", printable(key));
  }
  if (!row.contains("messages") && !row.contains("context"))
    fail(ErrorCode::invalid_argument, "a line needs 'messages' or 'context'");
}

ChatInput chat_input(const Json& row) {
  ChatInput in;
  in.messages = row.at("messages");
  if (const Json* v = field(row, "tools")) in.tools = *v;
  if (const Json* v = field(row, "documents")) in.documents = *v;
  if (const Json* v = field(row, "add_generation_prompt")) in.add_generation_prompt = flag(*v, "add_generation_prompt");
  if (const Json* v = field(row, "continue_final_message"))
    in.continue_final_message = flag(*v, "continue_final_message");
  if (const Json* v = field(row, "kwargs")) {
    if (!v->is_object()) fail(ErrorCode::invalid_argument, "kwargs: must be an object, not {}", v->type_name());
    for (const auto& [key, value] : v->items()) {
      // arguments of the renderer, not variables of the template
      if (key == "continue_final_message")
        in.continue_final_message = flag(value, "continue_final_message");
      else if (key == "documents")
        in.documents = value;
      else
        in.kwargs[key] = value;
    }
  }
  in.bos_token = text_field(row, "bos_token");
  in.eos_token = text_field(row, "eos_token");
  in.now = text_field(row, "now");
  return in;
}

std::string render_row(const Json& row, const std::string* default_template) {
  check_fields(row);
  auto own = text_field(row, "template");
  if (!own && !default_template)
    fail(ErrorCode::invalid_argument, "there is no template: give one in the line's 'template'");
  ChatTemplate chat_template(own ? *own : *default_template);
  if (row.contains("context")) return chat_template.render_context(row.at("context"), text_field(row, "now"));
  return chat_template.render(chat_input(row)).text;
}

}  // namespace

Json answer_template_row(const Json& row, const std::string* default_template) {
  try {
    return Json{{"text", render_row(row, default_template)}};
  } catch (const Error& e) {
    return Json{{"error", e.what()}};
  }
}

}  // namespace tenon::text
