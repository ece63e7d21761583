// Text generation on one loaded model: prompt in, tokens and text out, streamed.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/json.h"
#include "pipelines/constraints.h"
#include "runtime/draft_model.h"
#include "runtime/engine.h"
#include "runtime/prompt_lookup.h"
#include "runtime/sampler.h"
#include "text/tokenizer.h"

namespace tenon::pipelines {

struct GenerateRequest {
  std::vector<int32_t> prompt;
  int64_t max_tokens = 0;  // 0: until an end token or the context is full
  bool ignore_eos = false;
  bool skip_special_tokens = true;  // in the text
  std::vector<std::string> stop;
  runtime::SamplingOptions sampling;
  Constraints::Compiled constraint;  // that the answer keeps; null: every token may come
};

struct GenerateResult {
  std::vector<int32_t> tokens;                            // new ones; an end token that stopped it is the last
  std::optional<std::string> text;                        // nullopt without a tokenizer
  std::string finish_reason;                              // "stop", "length", "cancelled"
  double prefill_s = 0, first_token_s = 0, decode_s = 0;  // first_token_s: from the call to the first token
  int64_t prefilled = 0;                                  // prompt tokens computed (the rest was still in the sequence)
  int64_t drafted = 0, accepted = 0;                      // tokens
};

class TextPipeline {
 public:
  // Throws Error; Error{does_not_fit} before tokenizer or weights are read.
  TextPipeline(const std::filesystem::path& path, runtime::RunOptions options);

  // `piece` gets text as it becomes certain; returning false ends the answer. Without a tokenizer it gets "".
  GenerateResult generate(const GenerateRequest& request, FunctionRef<bool(std::string_view piece)> piece);

  const models::Model& model() const { return engine_->model(); }
  runtime::Engine& engine() { return *engine_; }
  const runtime::Engine& engine() const { return *engine_; }
  runtime::DraftModel* draft() { return draft_.get(); }  // null: none
  void pack_pending();                                   // as Engine's, of the draft too
  double busy_s() const { return engine_->busy_s() + (draft_ ? draft_->busy_s() : 0); }
  const text::Tokenizer* tokenizer() const { return tokenizer_.get(); }  // null: the model has none
  const std::shared_ptr<const text::Tokenizer>& shared_tokenizer() const { return tokenizer_; }
  const text::Tokenizer& require_tokenizer() const;  // throws Error{not_found}
  const std::vector<int32_t>& end_tokens() const { return end_tokens_; }
  // generation_config.json's sampling values over the defaults.
  const runtime::SamplingOptions& default_sampling() const { return sampling_; }
  double plan_s() const { return plan_s_; }
  double tokenizer_s() const { return tokenizer_s_; }

 private:
  int64_t reuse_prefix(std::span<const int32_t> prompt);
  using Choose = FunctionRef<int32_t(std::span<float> logits)>;
  // Runs tokens[from..] in chunks; the token chosen from the last logits.
  int32_t prefill(std::span<const int32_t> tokens, int64_t from, Choose choose);
  // Runs the last token of `tokens` and a draft of what follows it; `choose` gets the logits behind each as long as its
  // answers are the draft's; `guess` those of a draft model. False: the KV pool is used up.
  bool decode(std::vector<int32_t>& tokens, int64_t prompt_length, int64_t most, Choose choose, Choose guess,
              GenerateResult& result);

  std::shared_ptr<const text::Tokenizer> tokenizer_;
  double plan_s_ = 0, tokenizer_s_ = 0;
  std::unique_ptr<runtime::Engine> engine_;
  std::vector<int32_t> end_tokens_;
  runtime::SamplingOptions sampling_;
  std::vector<int32_t> held_;  // tokens sequence 0 holds
  std::vector<int32_t> step_;  // the last token and a draft of what follows
  std::unique_ptr<runtime::DraftModel> draft_;
  runtime::Drafter drafter_{nullptr};
  runtime::PromptLookup lookup_;
};

// The tokenizer of a model directory or GGUF file; null when it has none. Throws Error when it has a broken one.
std::shared_ptr<const text::Tokenizer> load_tokenizer(const std::filesystem::path& path);

// Sets the options' tokenizer memory from file sizes and counts alone; false: the model has no tokenizer.
bool plan_tokenizer(const std::filesystem::path& path, runtime::RunOptions& options);

}  // namespace tenon::pipelines
