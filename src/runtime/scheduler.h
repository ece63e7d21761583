// Which sequences run in the next step. Continuous batching: every step takes one token of each sequence that
// generates, then pieces of prompts up to the step's rows, so that a long prompt never stalls running answers. When the
// KV pool runs out, the least important sequence gives its blocks back and is computed again later. What a sequence
// computes never depends on who else is there.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "runtime/draft_model.h"
#include "runtime/engine.h"
#include "runtime/prompt_lookup.h"
#include "runtime/sampler.h"
#include "runtime/token_mask.h"

namespace tenon::runtime {

using Clock = std::chrono::steady_clock;

// Natural logarithms of probabilities by the model alone (before bias, penalties, temperature).
struct LogProbs {
  float chosen = 0;
  std::span<const std::pair<int32_t, float>> top;  // likeliest first
};

// What is wanted instead of an answer: the hidden state of the last token, or of all.
enum class Embed { none, last, all };

enum class Finish { stop, length, cancelled, deadline };

// Who asked. Called by the thread that steps.
class Listener {
 public:
  virtual ~Listener() = default;
  // A token of the answer; false: the answer is complete with it (a stop string). `logprobs`: null unless asked for.
  virtual bool token(int32_t token, const LogProbs* logprobs) noexcept = 0;
  virtual void prompt_token(int64_t /*position*/, const LogProbs&) noexcept {}
  virtual void hidden(std::span<const float> /*values*/) noexcept {}  // for Embed, in order of positions
  virtual void finished(Finish) noexcept = 0;                         // last call
};

// One sequence to generate. `tokens` has room for prompt and answer, so that steps allocate nothing.
struct Sequence {
  std::vector<int32_t> tokens;  // the prompt, then the answer
  int64_t prompt_length = 0;
  int64_t max_tokens = 1, min_tokens = 0;
  std::vector<int32_t> end_tokens;          // sorted; not generated before min_tokens
  std::vector<int32_t> allowed, forbidden;  // token ids; allowed empty: all
  uint32_t choice = 0;
  int top_logprobs = -1;  // -1: no logprobs
  bool prompt_logprobs = false;
  Embed embed = Embed::none;  // the engine must have the output "final"
  int32_t adapter = -1;       // as in BatchItem
  int priority = 0;           // lower goes first
  std::optional<Clock::time_point> deadline;
  uint64_t after = 0;  // not before this one has its first token: it then shares the prompt's blocks
  TokenMask* mask = nullptr;
  Listener* listener = nullptr;
  std::optional<Sampler> sampler;
  PromptLookup lookup;

  // Filled by the scheduler.
  uint64_t id = 0;
  int64_t slot = -1;   // of the engine; -1: waiting
  int64_t reused = 0;  // prompt tokens that were known when it first began
  int64_t preemptions = 0;
  bool long_regime = false;  // what its slot holds was computed beyond Engine::rope_boundary()
  Clock::time_point submitted, started, first_token;

  std::span<const int32_t> prompt() const { return std::span(tokens).first(static_cast<size_t>(prompt_length)); }
  std::span<const int32_t> output() const { return std::span(tokens).subspan(static_cast<size_t>(prompt_length)); }
};

class Scheduler {
 public:
  // `most` sequences may be known at once, waiting or running. `draft`: may be null.
  Scheduler(Engine& engine, size_t most, DraftModel* draft = nullptr);

  // Takes a sequence, which must outlive its finished(). Precondition: fits(). Returns its id.
  uint64_t submit(Sequence& sequence, Clock::time_point now);
  // Prompt and answer fit into the context and the KV pool, whatever else runs.
  int64_t longest() const { return longest_; }
  // Ends it at once, its blocks free, with finished(cancelled); false: not known (any more).
  bool cancel(uint64_t id) noexcept;

  // Runs one step; false: nothing to do.
  bool step(Clock::time_point now);

  bool idle() const { return waiting_.empty() && running_.empty(); }
  size_t running() const { return running_.size(); }
  size_t waiting() const { return waiting_.size(); }

  struct Totals {
    uint64_t steps = 0, prompt_tokens = 0, reused_tokens = 0, generated_tokens = 0, preemptions = 0;
    uint64_t drafted_tokens = 0, accepted_tokens = 0;
  };
  const Totals& totals() const { return totals_; }

 private:
  struct Item {  // of the batch under way
    Sequence* sequence;
    bool last;            // its last known token is in the step: a new one comes
    int64_t drafted = 0;  // tokens behind it that may come
    int64_t taken = 0;    // new tokens so far
    bool open = true;     // what follows the tokens taken is in the step
  };

  void slice_prefills() noexcept;
  void learn_pace(double busy_s) noexcept;
  template <class Wanted>
  bool end_where(const Wanted& wanted, Finish finish) noexcept;
  void plan_decodes();
  void plan_prefills();
  void admit(Clock::time_point now);
  bool add(Sequence& s, int64_t count);
  void add_draft(Sequence& s);
  bool make_room(Sequence& s, int64_t length) noexcept;
  void preempt(Sequence& s) noexcept;
  void stop_running(Sequence& s) noexcept;
  void insert_waiting(Sequence& s) noexcept;
  bool blocked(const Sequence& s) const noexcept;
  void sample(const StepOutput& out);
  void take_token(Sequence& s, std::span<float> logits, Clock::time_point now);
  void report_prompt(Sequence& s, const StepOutput& out);
  struct Likeliest {
    double shift;  // logit - shift is the log probability
    std::span<const std::pair<int32_t, float>> top;
  };
  Likeliest likeliest(std::span<const float> logits, int top) noexcept;
  int32_t choose(Sequence& s, std::span<float> logits) noexcept;
  void restrict(const Sequence& s, std::span<float> logits) noexcept;
  int64_t regime_length(const Sequence& s) const noexcept;
  int64_t known(const Sequence& s) const { return static_cast<int64_t>(s.tokens.size()); }
  int64_t computed(const Sequence& s) const { return engine_.length(s.slot); }
  bool decoding(const Sequence& s) const { return computed(s) == known(s) - 1; }

  Engine& engine_;
  Drafter drafter_;
  int64_t longest_;
  int32_t final_output_;
  std::vector<Sequence*> waiting_, running_;  // each by priority, then age
  std::vector<int64_t> free_slots_;
  std::vector<BatchItem> batch_;
  std::vector<Item> items_;
  std::vector<int32_t> drafted_;                     // a sequence's last token and the draft behind it
  std::vector<std::pair<Sequence*, Finish>> ended_;  // in this step
  std::span<float> raw_;                             // logits as the model gave them
  std::span<uint32_t> mask_;                         // a bit per token
  std::vector<std::pair<int32_t, float>> top_;
  int64_t rows_left_ = 0;
  double row_s_ = 0;  // what a row of a step with prompts costs, lately; 0: not known
  uint64_t next_id_ = 1;
  Totals totals_;
};

}  // namespace tenon::runtime
