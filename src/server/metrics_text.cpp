#include "server/metrics_text.h"

#include <fmt/format.h>

#include "base/machine.h"
#include "server/app.h"

namespace tenon::server {
namespace {

std::string label_text(const MetricsText::Labels& labels) {
  std::string out;
  for (const auto& [name, value] : labels) {
    out += fmt::format("{}{}=\"", out.empty() ? "" : ",", name);
    for (char c : value) out += c == '\\' ? "\\\\" : c == '"' ? "\\\"" : c == '\n' ? "\\n" : std::string(1, c);
    out += '"';
  }
  return out;
}

}  // namespace

void MetricsText::metric(const char* name, const char* type, const char* help) {
  name_ = name;
  text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void MetricsText::sample(const std::string& suffix, const std::string& labels, double v) {
  text_ += name_ + suffix;
  if (!labels.empty()) text_ += "{" + labels + "}";
  text_ += fmt::format(" {}\n", v);
}

void MetricsText::value(Labels labels, double v) { sample("", label_text(labels), v); }

void MetricsText::histogram(const Labels& labels, const Histogram& h) {
  const std::string base = label_text(labels), comma = base.empty() ? "" : ",";
  double total = 0;
  for (size_t i = 0; i < h.counts().size(); ++i) {
    total += static_cast<double>(h.counts()[i]);
    std::string bound = i < Histogram::kBounds.size() ? fmt::format("{}", Histogram::kBounds[i]) : "+Inf";
    sample("_bucket", base + comma + "le=\"" + bound + "\"", total);
  }
  sample("_sum", base, h.sum());
  sample("_count", base, total);
}

namespace {

struct Loaded {
  std::string model;
  pipelines::ServiceStats stats;
  runtime::MemoryPlan plan;
};

void write_counts(MetricsText& t, const std::vector<Loaded>& all) {
  using S = pipelines::ServiceStats;
  struct Row {
    const char *name, *type, *help;
    double (*value)(const S&);
  };
  static const Row kRows[] = {
      {"tenon_requests_running", "gauge", "Sequences that run in the next step.",
       [](const S& s) { return static_cast<double>(s.running); }},
      {"tenon_requests_waiting", "gauge", "Sequences that wait for a place.",
       [](const S& s) { return static_cast<double>(s.waiting); }},
      {"tenon_prompt_tokens_total", "counter", "Prompt tokens of requests that began.",
       [](const S& s) { return static_cast<double>(s.totals.prompt_tokens); }},
      {"tenon_prompt_tokens_cached_total", "counter", "Of those, taken from the prefix cache.",
       [](const S& s) { return static_cast<double>(s.totals.reused_tokens); }},
      {"tenon_generation_tokens_total", "counter", "Tokens generated.",
       [](const S& s) { return static_cast<double>(s.totals.generated_tokens); }},
      {"tenon_drafted_tokens_total", "counter", "Tokens drafted by prompt lookup and draft models.",
       [](const S& s) { return static_cast<double>(s.totals.drafted_tokens); }},
      {"tenon_accepted_draft_tokens_total", "counter", "Of those, the ones that were right.",
       [](const S& s) { return static_cast<double>(s.totals.accepted_tokens); }},
      {"tenon_preemptions_total", "counter", "Sequences that gave their KV blocks back and were computed again.",
       [](const S& s) { return static_cast<double>(s.totals.preemptions); }},
      {"tenon_steps_total", "counter", "Steps of the model.",
       [](const S& s) { return static_cast<double>(s.totals.steps); }},
      {"tenon_step_seconds_total", "counter", "Time of all steps.", [](const S& s) { return s.step_s; }},
      {"tenon_step_host_seconds_total", "counter", "Of that, outside the model: scheduling, sampling, text.",
       [](const S& s) { return s.host_s; }},
      {"tenon_kv_blocks_total", "gauge", "KV blocks of 32 tokens.",
       [](const S& s) { return static_cast<double>(s.kv.total); }},
      {"tenon_kv_blocks_used", "gauge", "KV blocks that running sequences read.",
       [](const S& s) { return static_cast<double>(s.kv.used); }},
      {"tenon_kv_blocks_cached", "gauge", "KV blocks only the prefix cache holds.",
       [](const S& s) { return static_cast<double>(s.kv.cached); }},
  };
  for (const Row& row : kRows) {
    t.metric(row.name, row.type, row.help);
    for (const Loaded& m : all) t.value({{"model", m.model}}, row.value(m.stats));
  }
}

void write_histograms(MetricsText& t, const std::vector<Loaded>& all) {
  using S = pipelines::ServiceStats;
  struct Row {
    const char *name, *help;
    Histogram S::*histogram;
  };
  static const Row kRows[] = {
      {"tenon_time_to_first_token_seconds", "From the request's arrival at the socket to its first token.",
       &S::first_token},
      {"tenon_inter_token_seconds", "Between tokens of one answer.", &S::inter_token},
      {"tenon_request_seconds", "From arrival to the last token.", &S::end_to_end},
      {"tenon_request_queue_seconds", "From arrival to the first step.", &S::queue},
      {"tenon_request_prefill_seconds", "From the first step to the first token.", &S::prefill},
      {"tenon_request_decode_seconds", "From the first token to the last.", &S::decode},
      {"tenon_step_seconds", "One step.", &S::step},
  };
  for (const Row& row : kRows) {
    t.metric(row.name, "histogram", row.help);
    for (const Loaded& m : all) t.histogram({{"model", m.model}}, m.stats.*row.histogram);
  }
}

void write_memory(MetricsText& t, const std::vector<Loaded>& all) {
  runtime::MemoryPlan sum;
  for (const Loaded& m : all) sum += m.plan;
  t.metric("tenon_memory_bytes", "gauge", "Memory by category, as planned and as measured for the whole process.");
  const std::pair<const char*, uint64_t> planned[] = {{"weights", sum.weights},         {"state", sum.state},
                                                      {"activations", sum.activations}, {"io", sum.io},
                                                      {"temporary", sum.temporary},     {"overhead", sum.overhead},
                                                      {"total", sum.total()},           {"mapped", sum.mapped}};
  for (const auto& [category, bytes] : planned)
    t.value({{"category", category}, {"kind", "planned"}}, static_cast<double>(bytes));
  const Resident r = resident();
  t.value({{"category", "total"}, {"kind", "measured"}}, static_cast<double>(r.anonymous));
  t.value({{"category", "mapped"}, {"kind", "measured"}}, static_cast<double>(r.file));
}

}  // namespace

std::string App::metrics_text() const {
  std::vector<Loaded> all;
  for (const auto& e : pool_.entries())
    if (e->service) all.push_back({e->id, e->service->stats(), e->service->pipeline().engine().memory()});
  MetricsText t;
  write_counts(t, all);
  t.metric("tenon_requests_total", "counter", "Answers (choices) by why they ended.");
  for (const Loaded& m : all)
    for (const auto& [reason, n] : m.stats.finished)
      t.value({{"model", m.model}, {"finish_reason", reason}}, static_cast<double>(n));
  write_histograms(t, all);
  write_memory(t, all);
  t.metric("tenon_startup_seconds", "gauge", "Time of each phase of the start.");
  t.value({{"phase", "process"}}, options_.start_s);
  for (const auto& e : pool_.entries())
    if (e->service) {
      auto& p = e->service->pipeline();
      t.value({{"phase", "plan"}, {"model", e->id}}, p.plan_s());
      t.value({{"phase", "tokenizer"}, {"model", e->id}}, p.tokenizer_s());
      t.value({{"phase", "map"}, {"model", e->id}}, p.engine().times().map);
      t.value({{"phase", "place"}, {"model", e->id}}, p.engine().times().place);
    }
  t.metric("tenon_build_info", "gauge", "1, with the version.");
  t.value({{"version", options_.version}}, 1);
  return t.text();
}

}  // namespace tenon::server
