// tenon plan: what every byte will be for, before anything is loaded.
#include <cstdio>
#include <iostream>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/process.h"
#include "pipelines/text.h"
#include "runtime/memory_plan.h"

namespace tenon::cli {
namespace {

using runtime::human_bytes;

struct Options {
  std::string model;
  bool json = false;
  RunFlags run;
};

int plan(const Options& o) {
  runtime::RunOptions options = o.run.resolve();
  auto model = models::Model::open(o.model, options.adapters);
  pipelines::plan_tokenizer(o.model, options);
  runtime::Layout layout = runtime::plan_layout(*model, options);
  int64_t largest = runtime::max_context(*model, options);
  const runtime::MemoryPlan& m = layout.memory;
  if (o.json) {
    Json out = {{"devices", {{"cpu", to_json(m)}}},
                {"fits", m.fits()},
                {"max_context", largest},
                {"context", layout.options.context}};
    if (layout.draft) out["draft"] = {{"total", layout.draft->memory.total()}, {"mapped", layout.draft->memory.mapped}};
    std::cout << out.dump() << "\n";
    return 0;
  }
  std::vector<std::vector<std::string>> rows = {
      {"cpu", "bytes", ""},
      {"weights", std::to_string(m.weights), human_bytes(m.weights)},
      {"KV state", std::to_string(m.state), human_bytes(m.state)},
      {"activations", std::to_string(m.activations), human_bytes(m.activations)},
      {"inputs, outputs", std::to_string(m.io), human_bytes(m.io)},
      {"temporary", std::to_string(m.temporary), human_bytes(m.temporary)},
      {"overhead", std::to_string(m.overhead), human_bytes(m.overhead)},
      {"total anonymous", std::to_string(m.total()), human_bytes(m.total())},
      {"mapped file pages", std::to_string(m.mapped), human_bytes(m.mapped)},
      {"peak", std::to_string(m.peak), human_bytes(m.peak)},
      {"limit", std::to_string(m.limit), human_bytes(m.limit)}};
  if (layout.draft) {
    const uint64_t draft = layout.draft->memory.total() + layout.draft->memory.mapped;
    rows.push_back({"(of it the draft)", std::to_string(draft), human_bytes(draft)});
  }
  std::cout << table(rows);
  std::printf(
      "\n%s with a context of %lld tokens, %lld sequence(s); largest context that fits: %lld of the model's %lld\n",
      m.fits() ? "fits" : "DOES NOT FIT", static_cast<long long>(layout.options.context),
      static_cast<long long>(layout.options.max_sequences), static_cast<long long>(largest),
      static_cast<long long>(model->dimensions().context));
  return 0;
}

std::function<int()> declare(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("model", o->model, "model directory, .gguf or .safetensors file")->required();
  app.add_flag("--json", o->json, "for machines");
  o->run.declare(app);
  o->run.declare_draft(app);
  return [o] { return plan(*o); };
}

}  // namespace

extern const Command plan_command{"plan", "What every byte of memory will be for, before loading",
                                  "  tenon plan model.gguf\n"
                                  "  tenon plan model/ --context 4096 --max-sequences 4 --kv q8\n"
                                  "  tenon plan model/ --memory cpu=2G --json\n",
                                  declare};

}  // namespace tenon::cli
