// Groups of flags that several commands share.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/options.h"
#include "runtime/sampler.h"

namespace tenon::cli {

// "1536", "512M", "6G": bytes, K/M/G are powers of 1024. Throws Error{invalid_argument}.
uint64_t parse_size(const std::string& text);
std::vector<int32_t> parse_ids(const std::string& text);  // "1,2,3"

// --threads, --context, --kv, --memory, ...: the same wherever a model runs.
struct RunFlags {
  runtime::RunOptions options;
  std::vector<std::string> adapters;
  std::string kv = "bf16", memory, weights, pack = "later", compute, speculation = "ngram", draft;
  void declare(CLI::App& app);
  void declare_draft(CLI::App& app);    // --draft: where text is generated, and in its plan
  runtime::RunOptions resolve() const;  // throws Error{invalid_argument}
};

struct SamplingFlags {
  std::optional<double> temperature, top_p, min_p, typical_p, repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<int64_t> top_k;
  std::optional<uint64_t> seed;
  std::vector<std::string> logit_bias;  // "ID:VALUE"
  void declare(CLI::App& app);
  runtime::SamplingOptions resolve(runtime::SamplingOptions defaults) const;
};

}  // namespace tenon::cli
