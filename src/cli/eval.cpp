// tenon eval: how well a model predicts a text.
#include <cstdio>
#include <iostream>

#include "base/error.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/process.h"
#include "pipelines/perplexity.h"
#include "pipelines/text.h"

namespace tenon::cli {
namespace {

struct Options {
  std::string model, file;
  int64_t window = 512;
  bool json = false, llama_perplexity = false;
  RunFlags run;
};

int perplexity(const Options& o) {
  auto tokenizer = pipelines::load_tokenizer(o.model);
  if (!tokenizer) fail(ErrorCode::not_found, "{}: the model has no tokenizer", printable(o.model, 200));
  std::vector<int32_t> ids =
      tokenizer->encode(read_file(o.file, 1 << 30), {.add_special_tokens = true, .parse_special = true}).ids;
  runtime::RunOptions options = o.run.resolve();
  options.all_logits = true;
  auto model = models::Model::open(o.model, options.adapters);
  if (options.context == 0) options.context = std::min(o.window, model->dimensions().context);
  pipelines::plan_tokenizer(o.model, options);
  runtime::Engine engine(model, options);

  pipelines::PerplexityOptions p;
  p.window = o.window;
  p.second_half = o.llama_perplexity;
  if (o.llama_perplexity && tokenizer->adds_bos()) p.bos = tokenizer->bos_id();
  Progress progress("scoring", static_cast<int64_t>(ids.size()));
  auto result = pipelines::perplexity(engine, ids, p, [&](int64_t done) { progress.update(done); });
  if (o.json) {
    std::cout << Json{{"nll", result.nll}, {"ppl", result.ppl()}, {"tokens", result.tokens}}.dump() << "\n";
  } else {
    std::printf("perplexity %.4f (mean NLL %.5f nats over %lld tokens, windows of %lld)\n", result.ppl(), result.nll,
                static_cast<long long>(result.tokens), static_cast<long long>(o.window));
  }
  return 0;
}

std::function<int()> declare(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.require_subcommand(1);
  CLI::App* p = app.add_subcommand("perplexity", "perplexity of a text file, in windows without overlap");
  p->add_option("model", o->model, "model directory or .gguf file")->required();
  p->add_option("--file", o->file, "the text")->required();
  p->add_option("--ctx", o->window, "ids per window");
  p->add_flag("--llama-perplexity", o->llama_perplexity,
              "score the second half of each window, as llama-perplexity does");
  p->add_flag("--json", o->json, "for machines");
  o->run.declare(*p);
  return [o] { return perplexity(*o); };
}

}  // namespace

extern const Command eval_command{"eval", "How well a model predicts a text",
                                  "  tenon eval perplexity model.gguf --file text.txt --ctx 512\n", declare};

}  // namespace tenon::cli
