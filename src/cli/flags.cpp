#include "cli/flags.h"

#include <charconv>
#include <cmath>

#include "backend/kv_type.h"
#include "base/error.h"
#include "models/source.h"
#include "tensor/quant.h"

namespace tenon::cli {

uint64_t parse_size(const std::string& text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string unit(end, text.data() + text.size());
  double factor = unit.empty() || unit == "B"                    ? 1
                  : unit == "K" || unit == "KB" || unit == "KiB" ? 0x1p10
                  : unit == "M" || unit == "MB" || unit == "MiB" ? 0x1p20
                  : unit == "G" || unit == "GB" || unit == "GiB" ? 0x1p30
                                                                 : 0;
  if (error != std::errc() || factor == 0 || !(value >= 0) || value * factor > 0x1p60)
    fail(ErrorCode::invalid_argument, "'{}' is no size; write bytes or 512K, 800M, 6G", printable(text));
  return static_cast<uint64_t>(value * factor);
}

std::vector<int32_t> parse_ids(const std::string& text) {
  std::vector<int32_t> out;
  const char *p = text.data(), *end = p + text.size();
  while (p < end) {
    while (p < end && (*p == ' ' || *p == ',')) ++p;
    if (p == end) break;
    int32_t id = 0;
    auto [next, error] = std::from_chars(p, end, id);
    if (error != std::errc() || id < 0 || (next < end && *next != ',' && *next != ' '))
      fail(ErrorCode::invalid_argument, "'{}' is no list of token ids; write 1,2,3", printable(text, 40));
    out.push_back(id);
    p = next;
  }
  return out;
}

void RunFlags::declare(CLI::App& app) {
  auto* g = app.add_option_group("Memory and compute", "the same wherever a model runs");
  g->add_option("-t,--threads", options.threads,
                "threads; default: what affinity, cgroup quota and physical cores allow");
  g->add_option("--context", options.context,
                "tokens per sequence; default: the model's own, or the largest that fits");
  g->add_option("--max-sequences", options.max_sequences, "sequences that run together");
  g->add_option("--max-batch-tokens", options.max_batch_tokens, "tokens of one step; bounds the activations");
  g->add_option("--prefill-chunk", options.prefill_chunk,
                "prompt tokens of one sequence in a step; default --max-batch-tokens");
  g->add_option("--kv-tokens", options.kv_tokens, "tokens of KV kept in all; default max-sequences x context");
  g->add_option("--kv", kv, "KV type: bf16, f16, f32, q8, q4")
      ->check(CLI::IsMember({"bf16", "f16", "f32", "q8", "q4"}));
  g->add_option("--memory", memory, "limit on all memory of the run, e.g. cpu=6G; default: what the machine has free");
  g->add_option("--weights,--dtype", weights,
                "load matrices at this precision: f32, f16, bf16, q8, q5, q4; default: as published");
  g->add_option("--lora", adapters,
                "[NAME=]FOLDER: an adapter as PEFT writes it; serve takes several, as models of those names");
  g->add_option("--pack", pack,
                "weights packed for speed instead of mapped: off, load, later (after the first token, if it fits)")
      ->check(CLI::IsMember({"off", "load", "later"}));
  g->add_option("--compute", compute, "f32: weights decoded to f32, activations and KV in f32 (reference numerics)")
      ->check(CLI::IsMember({"f32"}));
  g->add_option("--speculation", speculation,
                "ngram: text that repeats is drafted from what came before, the tokens stay the same; or off")
      ->check(CLI::IsMember({"ngram", "off"}));
  g->add_option("--device", options.device, "cpu, or reference (plain loops)");
  g->add_flag("--prefault", options.prefault, "touch all planned memory at load");
}

void RunFlags::declare_draft(CLI::App& app) {
  app.add_option("--draft", draft,
                 "a smaller model of the same vocabulary that drafts where the text does not repeat; the tokens stay "
                 "the same");
}

runtime::RunOptions RunFlags::resolve() const {
  runtime::RunOptions o = options;
  o.kv = *cpu::kv_type_named(kv);
  o.pack = pack == "off" ? runtime::Pack::off : pack == "load" ? runtime::Pack::load : runtime::Pack::later;
  o.compute_f32 = compute == "f32";
  o.speculate = speculation == "ngram";
  if (!draft.empty()) {
    if (!o.speculate) fail(ErrorCode::invalid_argument, "--draft and --speculation off contradict each other");
    o.draft = models::Model::open(draft);
  }
  if (!weights.empty() && !(o.weights = load_precision(weights)))
    fail(ErrorCode::invalid_argument, "--weights '{}': use one of {}", printable(weights), kLoadPrecisions);
  for (const std::string& a : adapters) {
    const size_t eq = a.find('=');
    const std::filesystem::path path = eq == std::string::npos ? a : a.substr(eq + 1);
    o.adapters.push_back({eq == std::string::npos ? models::id_of(path) : a.substr(0, eq), path});
  }
  if (!memory.empty()) {
    if (!memory.starts_with("cpu="))
      fail(ErrorCode::invalid_argument, "--memory '{}': write cpu=6G", printable(memory));
    o.memory = parse_size(memory.substr(4));
    if (o.memory == 0) fail(ErrorCode::invalid_argument, "--memory cpu=0 leaves nothing to run in");
  }
  return o;
}

void SamplingFlags::declare(CLI::App& app) {
  auto* g = app.add_option_group("Sampling", "default: generation_config.json's values, else temperature 1");
  g->add_option("--temperature,--temp", temperature, "0 is greedy");
  g->add_option("--top-k", top_k, "keep the k likeliest tokens; 0: off");
  g->add_option("--top-p", top_p, "keep the likeliest tokens that make up this probability");
  g->add_option("--min-p", min_p, "drop tokens less likely than this share of the likeliest");
  g->add_option("--typical-p", typical_p, "locally typical sampling");
  g->add_option("--repetition-penalty", repetition_penalty, "over prompt and output; 1: off");
  g->add_option("--presence-penalty", presence_penalty, "for tokens the output holds");
  g->add_option("--frequency-penalty", frequency_penalty, "per occurrence in the output");
  g->add_option("--logit-bias", logit_bias, "ID:VALUE, may be repeated");
  g->add_option("--seed", seed, "same seed, same answer");
}

runtime::SamplingOptions SamplingFlags::resolve(runtime::SamplingOptions s) const {
  auto set = [](auto& to, const auto& from) {
    if (from) to = *from;
  };
  set(s.temperature, temperature);
  set(s.top_k, top_k);
  set(s.top_p, top_p);
  set(s.min_p, min_p);
  set(s.typical_p, typical_p);
  set(s.repetition_penalty, repetition_penalty);
  set(s.presence_penalty, presence_penalty);
  set(s.frequency_penalty, frequency_penalty);
  set(s.seed, seed);
  for (const std::string& entry : logit_bias) {
    size_t colon = entry.find(':');
    char* end = nullptr;
    auto ids = parse_ids(entry.substr(0, colon));
    double value = colon == std::string::npos ? NAN : std::strtod(entry.c_str() + colon + 1, &end);
    if (ids.size() != 1 || !end || *end || std::isnan(value))
      fail(ErrorCode::invalid_argument, "--logit-bias '{}': write ID:VALUE", printable(entry));
    s.logit_bias.emplace_back(ids[0], static_cast<float>(value));
  }
  s.check();
  return s;
}

}  // namespace tenon::cli
