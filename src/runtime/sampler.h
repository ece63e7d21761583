// Choosing the next token. Order: logit bias; repetition, presence, frequency penalties; temperature; top-k, top-p,
// min-p, typical-p, each on what the one before left, renormalised. Candidates are sorted by logit, then lower id; sums
// are f64 in that order.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tenon::runtime {

struct SamplingOptions {
  double temperature = 1;  // 0: greedy
  int64_t top_k = 0;       // 0: off
  double top_p = 1;
  double min_p = 0;
  double typical_p = 1;
  double repetition_penalty = 1;                       // prompt and output (Keskar et al. 2019)
  double presence_penalty = 0, frequency_penalty = 0;  // output only
  std::vector<std::pair<int32_t, float>> logit_bias;
  uint64_t seed = 0;

  // Throws Error{invalid_argument} naming the parameter.
  void check() const;
  void check(int64_t vocab) const;  // token ids too
};

class Sampler {
 public:
  // `scratch`: 2 * vocab entries, kept; samplers of one thread may share them.
  Sampler(SamplingOptions options, int64_t vocab, std::span<uint64_t> scratch);

  // `logits` is changed. `prompt` and `output` are the tokens so far; the draw is keyed by (seed, choice, output
  // length).
  int32_t next(std::span<float> logits, std::span<const int32_t> prompt, std::span<const int32_t> output,
               uint32_t choice = 0);

 private:
  void penalise(std::span<float> logits, std::span<const int32_t> prompt, std::span<const int32_t> output);
  size_t sort_candidates(std::span<const float> logits);

  SamplingOptions options_;
  std::span<uint64_t> keys_, spare_;  // sortable (logit, id) pairs
  std::span<double> probabilities_;
  std::span<uint64_t> counts_;  // by id, for the penalties
};

}  // namespace tenon::runtime
