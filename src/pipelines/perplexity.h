// Perplexity of a text under a model.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/function_ref.h"
#include "runtime/engine.h"

namespace tenon::pipelines {

struct Perplexity {
  double nll = 0;      // mean, in nats
  int64_t tokens = 0;  // scored
  double ppl() const;
};

struct PerplexityOptions {
  int64_t window = 512;        // ids per window, no overlap
  bool second_half = false;    // llama-perplexity: score the second half of each full window only
  std::optional<int32_t> bos;  // llama-perplexity: replaces each window's first id
};

// Every id but a window's first is scored (a last, shorter window too unless second_half). `progress` gets tokens done
// so far.
Perplexity perplexity(runtime::Engine& engine, std::span<const int32_t> ids, const PerplexityOptions& options,
                      FunctionRef<void(int64_t done)> progress);

// -log softmax(logits)[id] in f64.
double negative_log_likelihood(std::span<const float> logits, int32_t id);

}  // namespace tenon::pipelines
