// tenon bench: speed of one model against what the machine can do.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>

#include "backend/cpu/elementwise.h"
#include "base/error.h"
#include "cli/bench_serve.h"
#include "cli/bench_tokenizer.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/process.h"
#include "pipelines/text.h"
#include "runtime/machine_speed.h"

namespace tenon::cli {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

struct Options {
  std::string model;
  int64_t prompt = 512, generate = 128, repeat = 3;
  std::optional<int64_t> depth;  // tokens of context before the decode; default: the prompt
  std::vector<int64_t> batch;
  bool json = false;
  RunFlags run;
};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

std::vector<int32_t> some_tokens(int64_t n, int64_t vocab) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < n; ++i) ids.push_back(static_cast<int32_t>((i * 7919 + 13) % vocab));
  return ids;
}

// Seconds for a prompt from an empty sequence.
double time_prefill(runtime::Engine& e, int64_t sequence, const std::vector<int32_t>& ids) {
  e.reset(sequence);
  auto start = Clock::now();
  for (size_t from = 0; from < ids.size();) {
    auto n =
        std::min<size_t>(ids.size() - from, static_cast<size_t>(std::min(e.options().prefill_chunk, e.max_rows())));
    runtime::BatchItem item{
        sequence, std::span(ids).subspan(from, n), static_cast<int64_t>(ids.size()),
        from + n == ids.size() ? runtime::BatchItem::Outputs::last : runtime::BatchItem::Outputs::none,
        e.only_adapter()};
    e.step({&item, 1}, [](const runtime::StepOutput&) {});
    from += n;
  }
  return seconds_since(start);
}

// Seconds for n greedy tokens of each of the first `sequences`, all of them together in a step.
double time_decode(runtime::Engine& e, int64_t sequences, int64_t n) {
  std::vector<int32_t> tokens(static_cast<size_t>(sequences), 1);
  std::vector<runtime::BatchItem> items;
  for (int64_t i = 0; i < sequences; ++i)
    items.push_back({i, {&tokens[static_cast<size_t>(i)], 1}, 0, runtime::BatchItem::Outputs::last, e.only_adapter()});
  auto start = Clock::now();
  for (int64_t i = 0; i < n; ++i)
    e.step(items, [&](const runtime::StepOutput& o) {
      tokens[o.item] = static_cast<int32_t>(cpu::argmax(o.logits.data(), static_cast<int64_t>(o.logits.size())));
    });
  return seconds_since(start);
}

// Tokens per second of all sequences together, median of the runs.
double batch_speed(runtime::Engine& e, int64_t sequences, const std::vector<int32_t>& context, const Options& o) {
  std::vector<double> speed;
  for (int64_t r = 0; r < o.repeat; ++r) {
    for (int64_t i = 0; i < sequences; ++i) time_prefill(e, i, context);
    speed.push_back(static_cast<double>(sequences * o.generate) / time_decode(e, sequences, o.generate));
  }
  for (int64_t i = 0; i < sequences; ++i) e.reset(i);
  return median(speed);
}

int bench(const Options& o) {
  if (o.model.empty())
    fail(ErrorCode::invalid_argument, "bench needs a MODEL (or: bench serve URL, bench tokenizer MODEL --file TEXT)");
  if (o.prompt < 1 || o.generate < 1 || o.repeat < 1)
    fail(ErrorCode::invalid_argument, "-p, -n and --repeat must be 1 or more");
  if (o.depth && *o.depth < 1) fail(ErrorCode::invalid_argument, "--depth must be 1 or more");
  for (int64_t n : o.batch)
    if (n < 1 || n > 4096) fail(ErrorCode::invalid_argument, "--batch {}: sequences are 1 to 4096", n);
  // A batch decodes from a short context unless a depth is asked for.
  const int64_t depth = o.depth.value_or(o.prompt), batch_depth = o.depth.value_or(16);
  auto start = Clock::now();
  runtime::RunOptions options = o.run.resolve();
  auto model = models::Model::open(o.model, options.adapters);
  int64_t longest = std::max(o.prompt, depth + o.generate);
  if (!o.batch.empty()) {
    longest = std::max(longest, batch_depth + o.generate);
    options.max_sequences = std::max(options.max_sequences, *std::max_element(o.batch.begin(), o.batch.end()));
    options.max_batch_tokens = std::max(options.max_batch_tokens, options.max_sequences);
    // The pool holds one sequence at full length or all of a batch at theirs.
    if (options.kv_tokens == 0)
      options.kv_tokens = std::max(longest, options.max_sequences * (batch_depth + o.generate + cpu::kKvBlock));
  }
  if (options.context == 0) options.context = std::min(longest, model->dimensions().context);
  runtime::Engine engine(model, options);
  double load = seconds_since(start);
  if (longest > engine.context())
    fail(ErrorCode::invalid_argument, "-p {}, --depth {} and -n {} need a context of {}, it is {}", o.prompt, depth,
         o.generate, longest, engine.context());

  std::vector<int32_t> ids = some_tokens(o.prompt, engine.vocab());
  std::vector<int32_t> before = some_tokens(depth, engine.vocab());
  time_prefill(engine, 0, some_tokens(std::min<int64_t>(8, o.prompt), engine.vocab()));  // pages of weights and KV
  engine.pack_pending();
  std::vector<double> prefill, decode;
  Progress progress("bench", o.repeat);
  for (int64_t i = 0; i < o.repeat; ++i) {
    prefill.push_back(static_cast<double>(o.prompt) / time_prefill(engine, 0, ids));
    if (depth != o.prompt) time_prefill(engine, 0, before);
    decode.push_back(static_cast<double>(o.generate) / time_decode(engine, 1, o.generate));
    progress.update(i + 1);
  }
  engine.reset(0);
  std::vector<double> batch;
  for (int64_t n : o.batch) batch.push_back(batch_speed(engine, n, some_tokens(batch_depth, engine.vocab()), o));
  runtime::MachineSpeed speed = runtime::measure_machine(*engine.threads());
  runtime::StepCost cost = runtime::step_cost(engine);
  double p = median(prefill), d = median(decode);
  double flops_pct = 100 * p * cost.flops_per_token / speed.f32_flops;
  double bandwidth_pct = 100 * d * cost.bytes_per_step / speed.read_bytes_per_s;
  if (o.json) {
    Json out = {
        {"model", model->id()},
        {"threads", engine.options().threads},
        {"prefill", {{"tokens", o.prompt}, {"tokens_per_s", p}, {"flops_pct", flops_pct}}},
        {"decode", {{"tokens", o.generate}, {"depth", depth}, {"tokens_per_s", d}, {"bandwidth_pct", bandwidth_pct}}},
        {"load_ms", load * 1e3},
        {"machine", {{"read_gb_per_s", speed.read_bytes_per_s / 1e9}, {"f32_gflops", speed.f32_flops / 1e9}}}};
    for (size_t i = 0; i < batch.size(); ++i)
      out["batch"].push_back({{"sequences", o.batch[i]}, {"tokens_per_s", batch[i]}});
    std::cout << out.dump() << "\n";
    return 0;
  }
  std::vector<std::vector<std::string>> rows = {
      {"", "tokens/s", "of the machine"},
      {fmt::format("prefill {}", o.prompt), fmt::format("{:.1f}", p), fmt::format("{:.0f} % of f32 FLOPs", flops_pct)},
      {fmt::format("decode {} at {}", o.generate, depth), fmt::format("{:.1f}", d),
       fmt::format("{:.0f} % of bandwidth", bandwidth_pct)}};
  for (size_t i = 0; i < batch.size(); ++i)
    rows.push_back({fmt::format("decode, {} together", o.batch[i]), fmt::format("{:.1f}", batch[i]),
                    fmt::format("{:.2f} x one", batch[i] / d)});
  std::cout << table(rows);
  std::printf("\nload %.1f ms; %d threads read %.1f GB/s and do %.0f GFLOP/s f32; medians of %lld\n", load * 1e3,
              engine.options().threads, speed.read_bytes_per_s / 1e9, speed.f32_flops / 1e9,
              static_cast<long long>(o.repeat));
  return 0;
}

std::function<int()> declare(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("model", o->model, "model directory, .gguf or .safetensors file");
  app.add_option("-p,--prompt-tokens", o->prompt, "tokens of the prefill");
  app.add_option("-n,--max-tokens", o->generate, "tokens decoded after it");
  app.add_option("--depth", o->depth, "tokens of context that the decode starts from; default: those of the prefill");
  app.add_option("--batch", o->batch, "decode of several sequences together, e.g. 1,4,16")->delimiter(',');
  app.add_option("--repeat", o->repeat, "runs; the median counts");
  app.add_flag("--json", o->json, "for machines");
  o->run.declare(app);
  CLI::App* serve = app.add_subcommand("serve", "Load on a server: tenon bench serve URL");
  CLI::App* tokenizer = app.add_subcommand("tokenizer", "Speed of text to tokens and back");
  auto bench_serve = declare_bench_serve(*serve), bench_tokenizer = declare_bench_tokenizer(*tokenizer);
  return [=] { return serve->parsed() ? bench_serve() : tokenizer->parsed() ? bench_tokenizer() : bench(*o); };
}

}  // namespace

extern const Command bench_command{"bench", "Speed against the machine's limits",
                                   "  tenon bench model.gguf -p 512 -n 128 -t 2\n"
                                   "  tenon bench model.gguf --batch 1,4,16 -n 64\n"
                                   "  tenon bench tokenizer model/ --file text.txt -t 1\n"
                                   "  tenon bench serve http://127.0.0.1:8080 -c 16 -r 64 --html report.html\n",
                                   declare};

}  // namespace tenon::cli
