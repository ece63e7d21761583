// tenon run: generate text; without a prompt on a terminal, chat.
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <iterator>

#include "base/error.h"
#include "base/file.h"
#include "cli/chat.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/process.h"
#include "cli/report.h"
#include "pipelines/chat.h"
#include "pipelines/text.h"
#include "text/grammar/grammar_text.h"
#include "text/grammar/json_schema.h"

namespace tenon::cli {
namespace {

struct Options {
  std::string model, prompt, tokens, system, template_file, template_name, schema, grammar;
  int64_t max_tokens = -1;
  bool raw = false, json = false, ignore_eos = false, report = false, trust_content = false;
  std::vector<std::string> stop;
  RunFlags run;
  SamplingFlags sampling;
};

void write_piece(std::string_view piece) {
  std::fwrite(piece.data(), 1, piece.size(), stdout);
  std::fflush(stdout);
}

text::ChatTemplate chat_template(const Options& o, const text::Tokenizer& tokenizer) {
  return text::ChatTemplate(o.template_file.empty() ? pipelines::chat_template_of(tokenizer, false, o.template_name)
                                                    : read_file(o.template_file, 4 << 20));
}

// The form of the answer: a JSON Schema, or a grammar in GBNF or Lark.
pipelines::Constraints::Compiled constraint_of(const Options& o, const pipelines::TextPipeline& pipeline) {
  if (o.schema.empty() && o.grammar.empty()) return nullptr;
  if (!o.schema.empty() && !o.grammar.empty())
    fail(ErrorCode::invalid_argument, "--json-schema and --grammar ask for two forms of the answer");
  auto make = [&](const text::grammar::TokenTrie&) {
    if (!o.schema.empty()) {
      const bool inline_text = o.schema.front() == '{';
      return text::grammar::json_schema_grammar(inline_text ? parse_json(o.schema, "--json-schema")
                                                            : read_json(o.schema));
    }
    return text::grammar::grammar_of_text(read_file(o.grammar, 4 << 20));
  };
  return pipelines::Constraints(pipeline.shared_tokenizer()).compile("", make);
}

std::vector<int32_t> prompt_tokens(const Options& o, pipelines::TextPipeline& pipeline) {
  if (!o.tokens.empty()) return parse_ids(o.tokens);
  const text::Tokenizer& tokenizer = pipeline.require_tokenizer();
  bool raw = o.raw;
  if (!raw && o.template_file.empty() && tokenizer.chat_templates().empty()) {
    std::fprintf(stderr, "note: this model has no chat template; the prompt is continued as plain text (--raw)\n");
    raw = true;
  }
  if (raw) return tokenizer.encode(o.prompt, {.add_special_tokens = true, .parse_special = true}).ids;
  text::ChatInput input;
  if (!o.system.empty()) input.messages.push_back({{"role", "system"}, {"content", o.system}});
  input.messages.push_back({{"role", "user"}, {"content", o.prompt}});
  input.add_generation_prompt = true;
  return pipelines::chat_prompt(tokenizer, chat_template(o, tokenizer), input, o.trust_content).tokens;
}

int generate(const Options& o) {
  MemoryLog memory;
  memory.mark("start");
  pipelines::TextPipeline pipeline(o.model, o.run.resolve());
  memory.mark("loaded");
  pipelines::GenerateRequest request;
  request.prompt = prompt_tokens(o, pipeline);
  request.max_tokens = o.max_tokens >= 0 ? o.max_tokens : 0;
  request.ignore_eos = o.ignore_eos;
  request.stop = o.stop;
  request.constraint = constraint_of(o, pipeline);
  request.sampling = o.sampling.resolve(pipeline.default_sampling());
  if (o.max_tokens < 0 && pipeline.end_tokens().empty()) request.max_tokens = 256;

  bool first = true;
  double first_token = 0;
  pipelines::GenerateResult result = pipeline.generate(request, [&](std::string_view piece) {
    if (first) {
      first_token = seconds_since_start();
      memory.mark("first token");
      first = false;
    }
    if (!o.json) write_piece(piece);
    return true;
  });
  memory.mark("done");

  RunReport report{pipeline, request, result, memory, first_token};
  if (o.json) {
    Json out = {{"tokens", result.tokens}, {"text", nullptr}, {"finish_reason", result.finish_reason}};
    if (result.text) out["text"] = *result.text;
    out["timings"] = report.timings();
    out["memory"] = report.memory_json();
    std::cout << out.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  } else {
    std::puts("");
    if (!result.text) {
      for (int32_t t : result.tokens) std::printf("%d ", t);
      std::puts("");
    }
  }
  if (o.report) std::fputs(report.text().c_str(), stderr);
  return 0;
}

std::function<int()> declare(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("model", o->model, "model directory, .gguf or .safetensors file")->required();
  app.add_option("prompt", o->prompt, "what to answer; - reads standard input; none on a terminal: chat");
  app.add_option("--tokens", o->tokens, "prompt as token ids: 1,2,3");
  app.add_option("--system", o->system, "system message of a chat prompt");
  app.add_option("-n,--max-tokens", o->max_tokens,
                 "stop after this many tokens; default: at an end token or a full context");
  app.add_option("--stop", o->stop, "stop before this text; may be repeated");
  app.add_option("--chat-template", o->template_file, "a Jinja file instead of the model's own template");
  app.add_option("--template-name", o->template_name, "which of the model's own templates, where it has several");
  app.add_flag("--parse-special", o->trust_content,
               "special tokens written in the prompt count as such in a chat, too");
  app.add_option("--json-schema", o->schema, "the answer is JSON of this schema: a file, or the schema itself");
  app.add_option("--grammar", o->grammar, "the answer is a sentence of this grammar: a file of GBNF or Lark");
  app.add_flag("--raw", o->raw, "continue the prompt as plain text, without the chat template");
  app.add_flag("--ignore-eos", o->ignore_eos, "go on after end tokens");
  app.add_flag("--json", o->json, "one JSON object instead of streamed text");
  app.add_flag("--report", o->report, "times and memory of load and run against the plan");
  o->run.declare(app);
  o->run.declare_draft(app);
  o->sampling.declare(app);
  CLI::App* a = &app;
  return [o, a] {
    bool has_prompt = a->count("prompt") > 0 || !o->tokens.empty();
    if (o->prompt == "-" || (!has_prompt && isatty(STDIN_FILENO) != 1)) {
      o->prompt.assign(std::istreambuf_iterator<char>(std::cin), {});
      has_prompt = true;
    }
    if (!has_prompt) return chat({o->model, o->system, o->template_file, o->max_tokens, o->run, o->sampling});
    return generate(*o);
  };
}

}  // namespace

extern const Command run_command{"run", "Generate text, or chat",
                                 "  tenon run model.gguf \"Why is the sky blue?\"\n"
                                 "  tenon run model/ --raw \"Once upon a time\" -n 50 --temperature 0\n"
                                 "  tenon run model/ --tokens 1,2,3 -n 16 --temperature 0 --ignore-eos --json\n"
                                 "  tenon run model.gguf \"A colour\" --json-schema '{\"enum\": [\"red\", \"blue\"]}'\n"
                                 "  tenon run model.gguf                  chat; /help lists its commands\n",
                                 declare};

}  // namespace tenon::cli
