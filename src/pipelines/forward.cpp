#include "pipelines/forward.h"

#include <algorithm>

#include "base/error.h"

namespace tenon::pipelines {

using runtime::BatchItem;

namespace {

void check(const runtime::Engine& engine, std::span<const std::vector<int32_t>> prompts) {
  if (static_cast<int64_t>(prompts.size()) > engine.options().max_sequences)
    fail(ErrorCode::invalid_argument, "{} prompts at once, --max-sequences is {}", prompts.size(),
         engine.options().max_sequences);
  for (const auto& p : prompts) {
    if (p.empty()) fail(ErrorCode::invalid_argument, "input_ids is empty");
    if (static_cast<int64_t>(p.size()) > engine.context())
      fail(ErrorCode::invalid_argument, "input_ids has {} tokens, the context is {}", p.size(), engine.context());
    for (int32_t t : p)
      if (t < 0 || t >= engine.vocab())
        fail(ErrorCode::invalid_argument, "token id {} is outside the vocabulary of {}", t, engine.vocab());
  }
}

}  // namespace

std::vector<std::pair<std::string, int64_t>> forward_outputs(const runtime::Engine& engine) {
  std::vector<std::pair<std::string, int64_t>> out;
  for (const graph::Output& o : engine.graph().outputs)
    out.emplace_back(o.name, engine.graph().nodes[static_cast<size_t>(o.node)].type.features());
  return out;
}

void forward(runtime::Engine& engine, std::span<const std::vector<int32_t>> prompts,
             FunctionRef<void(const ForwardValue&)> sink) {
  check(engine, prompts);
  std::vector<int64_t> done(prompts.size(), 0);
  for (size_t i = 0; i < prompts.size(); ++i) engine.reset(static_cast<int64_t>(i));
  std::vector<BatchItem> batch;
  std::vector<const graph::Output*> body, head;  // hidden states by rows; values that exist for outputs only
  for (const graph::Output& o : engine.graph().outputs) {
    bool rows = engine.graph().nodes[static_cast<size_t>(o.node)].type.shape[0].symbol == graph::Symbol::rows;
    if (o.name != "logits") (rows ? body : head).push_back(&o);
  }
  for (;;) {
    batch.clear();
    int64_t rows = 0;
    for (size_t i = 0; i < prompts.size(); ++i) {
      auto total = static_cast<int64_t>(prompts[i].size());
      int64_t n = std::min({engine.options().prefill_chunk, total - done[i], engine.max_rows() - rows});
      if (n <= 0) continue;
      batch.push_back({static_cast<int64_t>(i),
                       std::span(prompts[i]).subspan(static_cast<size_t>(done[i]), static_cast<size_t>(n)), total,
                       BatchItem::Outputs::all, engine.only_adapter()});
      rows += n;
    }
    if (batch.empty()) return;
    bool ok = engine.step(batch, [&](const runtime::StepOutput& o) {
      auto prompt = static_cast<size_t>(batch[o.item].sequence);
      sink({"logits", prompt, done[prompt] + o.row, o.logits});
      for (const graph::Output* out : head) {
        auto values = engine.hidden(out->node);
        auto n = static_cast<size_t>(engine.graph().nodes[static_cast<size_t>(out->node)].type.features());
        sink({out->name, prompt, done[prompt] + o.row, values.subspan(static_cast<size_t>(o.index) * n, n)});
      }
    });
    if (!ok) fail(ErrorCode::does_not_fit, "the KV pool (--kv-tokens) is too small for these prompts");
    for (const graph::Output* out : body) {
      auto values = engine.hidden(out->node);
      size_t n = values.size() / static_cast<size_t>(rows), row = 0;
      for (const BatchItem& item : batch)
        for (size_t r = 0; r < item.tokens.size(); ++r, ++row) {
          auto prompt = static_cast<size_t>(item.sequence);
          sink({out->name, prompt, done[prompt] + static_cast<int64_t>(r), values.subspan(row * n, n)});
        }
    }
    for (const BatchItem& item : batch)
      done[static_cast<size_t>(item.sequence)] += static_cast<int64_t>(item.tokens.size());
  }
}

}  // namespace tenon::pipelines
