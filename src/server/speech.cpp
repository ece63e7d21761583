#include "server/speech.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace tenon::server {
namespace {

constexpr size_t kMostTools = 128;

bool is_tool_name(const std::string& name) {
  auto part_of_name = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.'; };
  return !name.empty() && name.size() <= 128 && std::all_of(name.begin(), name.end(), part_of_name);
}

// `answer`: what an answer without calls must look like.
OutputForm tool_form(const text::ToolFormat& format, const ToolsAsked& asked, bool reasoning_open,
                     const std::optional<OutputForm>& answer) {
  const text::ToolGrammarOptions options{asked.choice, asked.parallel, reasoning_open};
  const std::string key =
      fmt::format("tools\n{}\n{}\n{}\n{}\n{}\n{}\n{}", format.name, static_cast<int>(asked.choice.kind),
                  asked.choice.name, asked.parallel, reasoning_open, asked.tools.dump(), answer ? answer->key : "");
  return {"tools", key, [&format, options, tools = asked.tools, answer](const text::grammar::TokenTrie& trie) {
            std::optional<text::grammar::Grammar> said;
            try {
              if (answer) said = answer->grammar(trie);
            } catch (const Error& e) {
              fail(e.code(), "{}: {}", answer->field, e.what());
            }
            return text::tool_grammar(format, tools, options, trie, std::move(said));
          }};
}

}  // namespace

void check_tools(const Json& tools, const std::string& field) {
  if (!tools.is_array() || tools.size() > kMostTools)
    refuse(field, fmt::format("'{}' must be a list of at most {} tools", field, kMostTools));
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", field, i);
    Fields t(tools[i], at);
    if (const std::string type = t.text("type").value_or(""); type != "function")
      refuse(at + ".type", fmt::format("'{}.type' is '{}': only functions are known here", at, printable(type)), 400,
             "unsupported_value");
    Fields fn(t.require("function"), at + ".function");
    const std::string name = fn.text("name").value_or("");
    if (!is_tool_name(name))
      refuse(at + ".function.name",
             fmt::format("'{}.function.name' must have 1 to 128 letters, digits, '_', '-' or '.'", at));
    fn.text("description");
    if (const Json* p = fn.take("parameters"); p && !p->is_object())
      refuse(at + ".function.parameters", fmt::format("'{}.function.parameters' must be a JSON Schema", at));
    fn.flag("strict");  // every call is held to its schema
    fn.finish();
    t.finish();
  }
}

ToolsAsked take_tools(Fields& f) {
  ToolsAsked out;
  if (const Json* tools = f.take("tools"); tools && !(tools->is_array() && tools->empty())) {
    out.tools = *tools;
    if (out.tools.is_array())
      for (Json& t : out.tools)  // the responses API's form
        if (t.is_object() && !t.contains("function") && t.value("type", Json()) == "function") {
          Json inner = t;
          inner.erase("type");
          t = {{"type", "function"}, {"function", inner}};
        }
    check_tools(out.tools, f.path("tools"));
  }
  out.parallel = f.flag("parallel_tool_calls").value_or(true);
  const Json* choice = f.take("tool_choice");
  if (!choice) return out;
  const std::string at = f.path("tool_choice");
  std::string kind;
  if (choice->is_string()) {
    kind = choice->get<std::string>();
  } else if (choice->is_object() && choice->value("type", Json()) == "function") {
    const Json& fn = text::function_of(*choice);
    kind = "named";
    out.choice = {text::ToolChoice::Kind::named,
                  fn.is_object() && fn.contains("name") && fn["name"].is_string() ? fn["name"].get<std::string>() : ""};
    const bool known = out.tools.is_array() && std::any_of(out.tools.begin(), out.tools.end(), [&](const Json& t) {
                         return text::function_of(t)["name"] == out.choice.name;
                       });
    if (!known) refuse(at, fmt::format("'{}' names '{}', which is not in 'tools'", at, printable(out.choice.name)));
  }
  if (kind == "none")
    out.off = true;
  else if (kind == "required")
    out.choice.kind = text::ToolChoice::Kind::required;
  else if (kind != "auto" && kind != "named")
    refuse(at, fmt::format("'{}' is none, auto, required, or a function to be called", at));
  if (kind == "required" && out.tools.is_null()) refuse(at, fmt::format("'{}' needs 'tools'", at));
  return out;
}

void prepare_chat(TextService& service, text::ChatInput input, const ToolsAsked& asked, Generation& g) {
  const bool tools = !asked.tools.is_null();
  if (tools) input.tools = asked.tools;
  const pipelines::ChatForm& form = service.chats().get(tools);
  const text::ToolFormat* format = form.format;
  if (tools && !asked.off && format->body == text::ToolFormat::Body::none)
    refuse("tools",
           "the model's chat template does not write tool calls in a form that is known here; serve it with "
           "--tool-format, or with another --chat-template",
           400, "unsupported_field");
  pipelines::Prompt prompt = render_chat(service, input);
  g.request.prompt = std::move(prompt.tokens);
  const bool open = input.add_generation_prompt && text::opens_reasoning(*format, prompt.text);
  const bool thinks = open || form.thinks;
  const bool calls = tools && !asked.off;
  if (calls || thinks) {
    g.speech = {format, calls ? asked.tools : Json(), open, new_id("call")};
    g.request.shown_token_ids = form.marks;
  }
  if (calls) {
    g.form = tool_form(*format, asked, open, g.form);
    return;
  }
  if (g.form && thinks) {  // the form is the answer's, behind what the model thinks
    g.form->key += open ? "\nopen" : "\nthinks";
    g.form->grammar = [make = g.form->grammar, format, open](const text::grammar::TokenTrie& trie) {
      return text::after_reasoning(make(trie), *format, open, trie);
    };
  }
}

SpeechReader::SpeechReader(const Speech& speech, int choice) {
  if (!speech.format) return;
  const std::string id = speech.format->short_ids ? speech.call_id.substr(speech.call_id.size() - 7) +
                                                        std::string(1, static_cast<char>('a' + choice % 26))
                                                  : fmt::format("{}_{}_", speech.call_id, choice);
  parser_.emplace(*speech.format, text::ToolCallParser::Options{speech.tools, speech.reasoning_open, id, true});
}

text::OutputDelta SpeechReader::read(const ServiceEvent& e) {
  text::OutputDelta out;
  if (!parser_) {
    out.content = e.text;
    return out;
  }
  out = parser_->push(e.text);
  if (e.done) out += parser_->finish();
  return out;
}

}  // namespace tenon::server
