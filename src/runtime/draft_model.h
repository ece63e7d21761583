// Speculation with a second, smaller model of the same vocabulary: it says what comes next, the first one verifies it
// in one step (Leviathan et al. 2023; here the sampler's random number decides for both, so a draft is right or wrong).
// Which tokens come out never depends on it.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/function_ref.h"
#include "runtime/draft_account.h"
#include "runtime/engine.h"
#include "runtime/prompt_lookup.h"

namespace tenon::runtime {

class DraftModel {
 public:
  // Takes the memory that `target`'s plan holds for its draft (RunOptions::draft), and shares its threads. Throws
  // Error.
  explicit DraftModel(const Engine& target);

  // Chooses a token as the target would, by these logits, behind what `tokens` holds at that moment.
  using Choose = FunctionRef<int32_t(std::span<float> logits)>;

  // What may follow `tokens`, at most `most` tokens; empty where drafts do not pay now, or while this model is still
  // reading what is new to it, a step's worth at a call. `tokens` has room for them and is the same afterwards.
  std::span<const int32_t> draft(std::vector<int32_t>& tokens, int64_t most, Choose choose);
  // After a step of the target's: how many tokens of the last draft it had, how many of them were right, its time.
  void learn(int64_t drafted, int64_t right, double seconds) noexcept;

  void pack_pending() { engine_.pack_pending(); }
  double busy_s() const { return engine_.busy_s(); }

 private:
  struct Guess {
    int32_t token;
    double sure;  // the likeliest token's probability
  };
  void run(std::span<const int32_t> more, BatchItem::Outputs outputs, FunctionRef<void(const StepOutput&)> sink);
  bool catch_up(std::span<const int32_t> tokens);
  Guess step(std::span<const int32_t> tokens, Choose choose);

  Engine engine_;
  int64_t vocab_;               // the target's
  std::vector<int32_t> held_;   // what sequence 0 holds
  std::vector<int32_t> draft_;  // the last one
  std::vector<double> sure_;    // of its tokens
  // How often the target takes a token that this model is not sure of: models of a family agree more often than their
  // probabilities say.
  double trust_ = 0.3;
  DraftAccount account_;
  double token_s_ = 0, spent_s_ = 0;  // for one token; for the last draft
};

// A sequence's drafts: from the text itself where it repeats, else from a model if there is one.
class Drafter {
 public:
  explicit Drafter(DraftModel* model) : model_(model) {}
  std::span<const int32_t> draft(const PromptLookup& lookup, std::vector<int32_t>& tokens, int64_t most,
                                 DraftModel::Choose choose) {
    std::span<const int32_t> found = lookup.draft(tokens, most);
    by_model_ = found.empty() && model_;
    return by_model_ ? model_->draft(tokens, most, choose) : found;
  }
  void learn(PromptLookup& lookup, int64_t drafted, int64_t right, double seconds) noexcept {
    if (!by_model_ || drafted == 0) lookup.learn(drafted, right, seconds);
    if (by_model_) model_->learn(drafted, right, seconds);
  }

 private:
  DraftModel* model_;
  bool by_model_ = false;
};

}  // namespace tenon::runtime
