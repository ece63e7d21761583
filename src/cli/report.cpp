#include "cli/report.h"

#include <fmt/format.h>

namespace tenon::cli {

using runtime::human_bytes;

namespace {
double decode_rate(const pipelines::GenerateResult& r) {
  auto n = static_cast<double>(r.tokens.size()) - 1;
  return r.decode_s > 0 && n > 0 ? n / r.decode_s : 0;
}
}  // namespace

Json RunReport::timings() const {
  const runtime::LoadTimes& t = pipeline.engine().times();
  return {{"plan_ms", pipeline.plan_s() * 1e3},
          {"map_ms", t.map * 1e3},
          {"place_ms", t.place * 1e3},
          {"tokenizer_ms", pipeline.tokenizer_s() * 1e3},
          {"prompt_tokens", request.prompt.size()},
          {"prefill_ms", result.prefill_s * 1e3},
          {"prefill_tokens_per_s", result.prefill_s > 0 ? static_cast<double>(result.prefilled) / result.prefill_s : 0},
          {"first_token_ms", first_token * 1e3},
          {"decode_ms", result.decode_s * 1e3},
          {"decode_tokens_per_s", decode_rate(result)},
          {"drafted_tokens", result.drafted},
          {"accepted_tokens", result.accepted}};
}

Json RunReport::memory_json() const {
  Json planned = to_json(pipeline.engine().memory());
  return {{"planned", planned},
          {"measured", {{"anonymous", memory.highest_anonymous()}, {"file", memory.highest_file()}}}};
}

std::string RunReport::text() const {
  const runtime::LoadTimes& t = pipeline.engine().times();
  const runtime::MemoryPlan& m = pipeline.engine().memory();
  auto ms = [](double s) { return fmt::format("{:.1f} ms", s * 1e3); };
  std::vector<std::vector<std::string>> rows = {
      {"phase", "time"},
      {"config, network, plan", ms(pipeline.plan_s())},
      {"memory taken", ms(t.map)},
      {"weights placed", ms(t.place)},
      {"tokenizer", ms(pipeline.tokenizer_s())},
      {fmt::format("prefill of {} tokens", result.prefilled), ms(result.prefill_s)},
      {"first token, from process start", ms(first_token)},
      {fmt::format("{} more tokens", result.tokens.size() - 1),
       fmt::format("{} ({:.1f}/s)", ms(result.decode_s), decode_rate(result))}};
  std::string out = "\n" + table(rows);
  rows = {{"moment", "at", "anonymous", "file pages"}};
  for (const auto& e : memory.entries())
    rows.push_back({e.moment, ms(e.seconds), human_bytes(e.anonymous), human_bytes(e.file)});
  out += "\n" + table(rows);
  rows = {{"planned", "bytes"},
          {"weights", human_bytes(m.weights)},
          {"KV state", human_bytes(m.state)},
          {"activations", human_bytes(m.activations)},
          {"inputs, outputs", human_bytes(m.io)},
          {"temporary", human_bytes(m.temporary)},
          {"overhead", human_bytes(m.overhead)},
          {"total anonymous", human_bytes(m.total())},
          {"mapped", human_bytes(m.mapped)},
          {"peak", human_bytes(m.peak)},
          {"limit", human_bytes(m.limit)}};
  out += "\n" + table(rows);
  out += fmt::format("\nhighest anonymous {} of {} planned for a context of {}\n",
                     human_bytes(memory.highest_anonymous()), human_bytes(m.total()), pipeline.engine().context());
  return out;
}

}  // namespace tenon::cli
