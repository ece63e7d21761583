// tenon template: the prompt a chat becomes.
#include <cstdio>
#include <iostream>

#include "base/error.h"
#include "base/file.h"
#include "cli/command.h"
#include "pipelines/text.h"
#include "text/template_row.h"

namespace tenon::cli {
namespace {

struct Options {
  std::string model, message, system, template_file;
  bool jsonl = false;
};

// A model's default template, a file of Jinja, or none for "-".
std::optional<std::string> find_template(const Options& o) {
  if (!o.template_file.empty()) return read_file(o.template_file, 4 << 20);
  if (o.model == "-") return std::nullopt;
  if (o.model.ends_with(".jinja")) return read_file(o.model, 4 << 20);
  auto tokenizer = pipelines::load_tokenizer(o.model);
  if (!tokenizer)
    fail(ErrorCode::not_found, "{}: the model has no tokenizer and so no template", printable(o.model, 200));
  return pipelines::chat_template_of(*tokenizer, false);
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
  input.messages.push_back({{"role", "user"}, {"content", o.message}});
  input.add_generation_prompt = true;
  pipelines::Prompt prompt = pipelines::chat_prompt(*tokenizer, *find_template(o), input);
  size_t special = 0;
  for (int32_t id : prompt.tokens) special += tokenizer->is_special(id);
  std::printf("%s\n\n%zu tokens, %zu of them special:", prompt.text.c_str(), prompt.tokens.size(), special);
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
  app.add_flag("--jsonl", o->jsonl,
               "answer JSON rows from standard input: {\"messages\"...} or {\"template\", \"context\"}");
  CLI::App* a = &app;
  return [o, a] {
    if (o->jsonl) return rows(find_template(*o));
    if (a->count("message") > 0) return show(*o);
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
                                      "  tenon template - --jsonl < rows.jsonl\n",
                                      declare};

}  // namespace tenon::cli
