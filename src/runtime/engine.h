// A loaded model: planned memory taken, weights placed, steps run. One thread steps; nothing is allocated after
// construction (but panels built by pack_pending, whose memory is in the plan).
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/executor.h"
#include "base/function_ref.h"
#include "runtime/arena.h"
#include "runtime/kv_blocks.h"
#include "runtime/memory_plan.h"
#include "runtime/prefix_tree.h"

namespace tenon::runtime {

// Tokens of one sequence to run in a step, appended to what the sequence holds.
struct BatchItem {
  int64_t sequence = 0;  // slot, below max_sequences
  std::span<const int32_t> tokens;
  int64_t prompt_length = 0;  // of the whole prompt (rope regimes); 0: not known, length after this step
  enum class Outputs { none, last, all } outputs = Outputs::last;
  int32_t adapter = -1;  // index into RunOptions::adapters; the same for all of a sequence's tokens
};

struct StepOutput {
  size_t item = 0;  // index in the batch
  int64_t row = 0;  // index in the item's tokens
  int64_t index =
      0;  // index among the outputs of this call's chunk: the row of hidden() values with an `outputs` dimension
  std::span<float> logits;  // the sink may change them
};

// Time of each phase of the load, in seconds.
struct LoadTimes {
  double map = 0, place = 0;
};

class Engine {
 public:
  // Takes the memory of a plan that fits (plan_fitting), places weights. Throws Error.
  // `threads`: another engine's, of which only one runs at a time; null: its own.
  Engine(std::shared_ptr<const models::Model> model, Layout layout, std::shared_ptr<ThreadPool> threads = nullptr);
  Engine(std::shared_ptr<const models::Model> model, const RunOptions& options)
      : Engine(model, plan_fitting(*model, options)) {}
  ~Engine();

  const models::Model& model() const { return *model_; }
  const Layout& layout() const { return layout_; }
  const MemoryPlan& memory() const { return layout_.memory; }
  const RunOptions& options() const { return layout_.options; }
  int64_t context() const { return layout_.options.context; }
  int64_t max_rows() const { return layout_.bounds.sizes.rows; }
  int64_t vocab() const { return layout_.vocab; }
  const LoadTimes& times() const { return times_; }
  const std::shared_ptr<ThreadPool>& threads() const { return threads_; }

  int64_t length(int64_t sequence) const { return lengths_[static_cast<size_t>(sequence)]; }
  void reset(int64_t sequence) noexcept;  // forgets a sequence and frees its blocks
  // A sequence may not simply grow past this many tokens: longrope changes all frequencies there, so the step that
  // crosses must be a prefill of everything after reset(). 0: no such length.
  int64_t rope_boundary() const { return rope_boundary_; }

  // Forgets a sequence's tokens from `length` on. Precondition: no more than a prefill chunk.
  void truncate(int64_t sequence, int64_t length) noexcept { lengths_[static_cast<size_t>(sequence)] = length; }
  // How many tokens beyond the next one a step may append with the bits of steps of one token each, and take back.
  int64_t draft_limit(int64_t sequence) const noexcept;

  // Makes room for the first `length` tokens of a sequence; false: the KV pool has too few free blocks.
  bool reserve(int64_t sequence, int64_t length) noexcept;
  // With options().prefix_cache: an empty sequence takes over the computed beginning of `tokens` that is known, of at
  // most `limit` tokens; its new length. prompt_length as in BatchItem.
  int64_t adopt_prefix(int64_t sequence, std::span<const int32_t> tokens, int64_t limit, int64_t prompt_length,
                       int32_t adapter) noexcept;
  // Makes what the sequence has computed of `tokens` known; after every step.
  void keep_prefix(int64_t sequence, std::span<const int32_t> tokens, int64_t prompt_length, int32_t adapter) noexcept;
  // Where a command runs the model as it was loaded: its adapter, -1 without one. Throws Error{invalid_argument} where
  // there are several.
  int32_t only_adapter() const;
  // Blocks of 32 tokens, of the layers that keep all positions (else of the first window).
  struct KvUsage {
    int64_t total = 0, used = 0, cached = 0;
    int64_t free() const { return total - used; }  // those only the prefix cache holds included
  };
  KvUsage kv_usage() const noexcept;

  // Runs a batch. Preconditions (checked, Error{internal}): rows within max_rows(), distinct sequences, tokens within
  // the vocabulary, lengths within context(). Returns false, with nothing changed, when the KV pool has too few free
  // blocks. `sink` gets the wanted logits in batch order; the span is valid during the call only.
  bool step(std::span<const BatchItem> batch, FunctionRef<void(const StepOutput&)> sink);

  // Values of the last step's rows for an output like "hidden.3" ([rows, n], batch order); empty when the graph has
  // none.
  std::span<const float> hidden(int32_t output_node) const;
  const graph::Graph& graph() const { return executor_->graph(); }
  double busy_s() const { return busy_s_; }  // time the model itself took in all steps so far
  int64_t last_rows() const { return step_.rows; }

  // Builds the panels that --pack later puts off until the first token is out.
  void pack_pending();

  // Memory that the plan holds for choosing tokens: a sampler's scratch, a copy of the logits, a bit per token.
  std::span<uint64_t> sampler_scratch() { return sampler_memory_.first(2 * static_cast<size_t>(vocab())); }
  std::span<float> raw_logits() {
    return {reinterpret_cast<float*>(sampler_memory_.data() + 2 * vocab()), static_cast<size_t>(vocab())};
  }
  std::span<uint32_t> token_bits() {
    return {reinterpret_cast<uint32_t*>(sampler_memory_.data() + 2 * vocab() + (vocab() + 1) / 2),
            static_cast<size_t>((vocab() + 31) / 32)};
  }

 private:
  void place_weights();
  void place_vector(const WeightPlan& plan);
  void place_converted(const WeightPlan& plan);
  void pack(const WeightPlan& plan);
  void check(std::span<const BatchItem> batch) const;
  uint64_t regime(int64_t prompt_length, int32_t adapter) const noexcept;
  void fill_step(std::span<const BatchItem> batch) noexcept;

  std::shared_ptr<const models::Model> model_;
  Layout layout_;
  LoadTimes times_;
  std::shared_ptr<ThreadPool> threads_;
  std::unique_ptr<backend::Executor> executor_;
  Region weights_, state_, activations_, io_, scratch_;
  std::vector<std::byte*> weight_memory_;  // by layout_.weights
  bool packed_ = false;

  std::span<int32_t> tokens_, positions_, adapters_, output_rows_;
  std::span<uint64_t> sampler_memory_;
  std::vector<BlockPool> pools_;  // by group
  std::unique_ptr<PrefixTree> prefixes_;
  std::vector<int64_t> lengths_;  // by sequence
  std::vector<backend::SequenceRows> rows_;
  std::vector<std::vector<cpu::AttendSequence>> attend_;  // [group][item]
  std::vector<backend::KvView> states_;
  backend::Step step_;
  int64_t rope_boundary_ = 0;
  int64_t dynamic_rope_ = 0;  // prompts longer than this have a rope of their own length; 0: none
  int32_t logits_node_ = -1;
  double busy_s_ = 0;
};

}  // namespace tenon::runtime
