// tenon template: the prompt a chat becomes.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/process.h"
#include "pipelines/chat.h"
#include "pipelines/text.h"
#include "text/template_row.h"

namespace tenon::cli {
namespace {

struct Options {
  std::string model, message, system, template_file, template_name, tools, documents, messages;
  bool jsonl = false, no_generation_prompt = false, continue_final = false, trust_content = false;
};

// A model's default template, a file of Jinja, or none for "-".
std::optional<std::string> find_template(const Options& o) {
  if (!o.template_file.empty()) return read_file(o.template_file, 4 << 20);
  if (o.model == "-") return std::nullopt;
  if (o.model.ends_with(".jinja")) return read_file(o.model, 4 << 20);
  auto tokenizer = pipelines::load_tokenizer(o.model);
  if (!tokenizer)
    fail(ErrorCode::not_found, "{}: the model has no tokenizer and so no template", printable(o.model, 200));
  return pipelines::chat_template_of(*tokenizer, !o.tools.empty(), o.template_name);
}

// Special tokens stand out on a terminal.
void print_marked(const std::string& text, const std::set<std::string>& special) {
  if (!stdout_is_terminal()) return std::printf("%s\n\n", text.c_str()), void();
  for (size_t at = 0; at < text.size();) {
    std::string_view rest = std::string_view(text).substr(at);
    auto found = std::find_if(special.begin(), special.end(), [&](const auto& s) { return rest.starts_with(s); });
    if (found == special.end()) {
      std::putchar(text[at++]);
      continue;
    }
    std::printf("\x1b[7;33m%s\x1b[0m", found->c_str());
    at += found->size();
  }
  std::printf("\n\n");
}

int rows(const std::optional<std::string>& source) {
  std::string line;
  while (std::getline(std::cin, line)) {
    Json out;
    try {
      out = text::answer_template_row(parse_json(line, "standard input"), source ? &*source : nullptr);
    } catch (const Error& e) {
      out = {{"error", e.what()}};
    }
    std::cout << out.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  }
  return 0;
}

int show(const Options& o) {
  auto tokenizer = pipelines::load_tokenizer(o.model);
  if (!tokenizer) fail(ErrorCode::not_found, "{}: the model has no tokenizer", printable(o.model, 200));
  text::ChatInput input;
  if (!o.system.empty()) input.messages.push_back({{"role", "system"}, {"content", o.system}});
  if (!o.messages.empty())
    for (const Json& m : read_json(o.messages)) input.messages.push_back(m);
  if (!o.message.empty()) input.messages.push_back({{"role", "user"}, {"content", o.message}});
  if (!o.tools.empty()) input.tools = read_json(o.tools);
  if (!o.documents.empty()) input.documents = read_json(o.documents);
  input.continue_final_message = o.continue_final;
  input.add_generation_prompt = !o.no_generation_prompt && !o.continue_final;
  pipelines::Prompt prompt =
      pipelines::chat_prompt(*tokenizer, text::ChatTemplate(*find_template(o)), input, o.trust_content);
  size_t special = 0;
  std::set<std::string> names;
  for (int32_t id : prompt.tokens)
    if (tokenizer->is_special(id)) ++special, names.insert(tokenizer->token(id));
  print_marked(prompt.text, names);
  std::printf("%zu tokens, %zu of them special:", prompt.tokens.size(), special);
  for (int32_t id : prompt.tokens)
    if (tokenizer->is_special(id)) std::printf(" %s", tokenizer->token(id).c_str());
  std::puts("");
  return 0;
}

std::function<int()> declare(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("model", o->model, "model directory, .gguf file, .jinja file, or - with --jsonl")->required();
  app.add_option("message", o->message, "a user message to render");
  app.add_option("--system", o->system, "a system message before it");
  app.add_option("--chat-template", o->template_file, "a Jinja file instead of the model's own template");
  app.add_option("--template-name", o->template_name, "which of the model's own templates, where it has several");
  app.add_option("--messages", o->messages, "a JSON file: the list of messages before it");
  app.add_option("--tools", o->tools, "a JSON file: the list of tools");
  app.add_option("--documents", o->documents, "a JSON file: the list of documents");
  app.add_flag("--no-generation-prompt", o->no_generation_prompt, "without the beginning of the answer");
  app.add_flag("--continue-final-message", o->continue_final, "the last message is the beginning of the answer");
  app.add_flag("--parse-special", o->trust_content, "special tokens written in messages count as such");
  app.add_flag("--jsonl", o->jsonl,
               "answer JSON rows from standard input: {\"messages\"...} or {\"template\", \"context\"}");
  CLI::App* a = &app;
  return [o, a] {
    if (o->jsonl) return rows(find_template(*o));
    if (a->count("message") > 0 || !o->messages.empty()) return show(*o);
    auto source = find_template(*o);
    if (!source) fail(ErrorCode::invalid_argument, "- needs --jsonl");
    std::printf("%s\n", source->c_str());
    return 0;
  };
}

}  // namespace

extern const Command template_command{"template", "The prompt a chat becomes",
                                      "  tenon template model.gguf \"Hello\"      rendered, special tokens counted\n"
                                      "  tenon template model/                  the template's source\n"
                                      "  tenon template model/ --messages chat.json --tools tools.json\n"
                                      "  tenon template - --jsonl < rows.jsonl\n",
                                      declare};

}  // namespace tenon::cli
