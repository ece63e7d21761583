// What every byte will be for, computed from headers alone, and the layout the engine then allocates.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/executor.h"
#include "models/source.h"
#include "runtime/options.h"

namespace tenon::runtime {

struct MemoryPlan {
  uint64_t weights = 0;  // panels, converted and small weights
  uint64_t state = 0;    // KV
  uint64_t activations = 0;
  uint64_t io = 0;         // step inputs, sampler
  uint64_t temporary = 0;  // kernels' scratch, load-time excess
  uint64_t overhead = 0;   // program, tokenizer, graph
  uint64_t mapped = 0;     // file pages the run reads
  uint64_t peak = 0;       // most of anonymous and mapped at any moment
  uint64_t limit = 0;
  uint64_t total() const { return weights + state + activations + io + temporary + overhead; }
  bool fits() const { return peak <= limit; }
  // Categories and mapped pages; peaks do not add up.
  MemoryPlan& operator+=(const MemoryPlan& more);
};

// How a weight is held.
struct WeightPlan {
  enum class Kind { mapped, vector_f32, converted, panels, adapters };
  size_t node = 0;
  const formats::TensorInfo* tensor = nullptr;  // null: adapters' or packed
  const formats::PackedWeight* packed = nullptr;
  Kind kind = Kind::mapped;
  DType dtype = DType::f32;  // as held
  bool panels = false;       // of a converted one: packed as it is made
  uint64_t bytes = 0;        // anonymous bytes
};

// Layers that share a block table.
struct KvGroup {
  int64_t window = 0;
  int64_t ring = 0;    // blocks per sequence
  int64_t blocks = 0;  // in the pool
  // Of one block of all layers: the layers' parts lie together, so that a short sequence touches little memory.
  uint64_t block_bytes = 0;
};
uint64_t kv_group_bytes(const KvGroup& group);

struct Layout {
  graph::Graph graph;
  graph::ActivationPlan activations;
  backend::StepBounds bounds;
  RunOptions options;  // with defaults resolved: threads, context, prefill_chunk, kv
  std::vector<WeightPlan> weights;
  std::vector<KvGroup> groups;
  std::vector<size_t> group_of_state;
  std::vector<cpu::KvShape> kv_shapes;  // by state
  std::shared_ptr<const Layout> draft;  // of options.draft
  size_t scratch_bytes = 0;
  int64_t vocab = 0;
  MemoryPlan own;     // what this engine takes
  MemoryPlan memory;  // and with it its draft
};

// Reads headers only. The result may not fit: see memory.fits().
// Throws Error{invalid_argument} for options out of range.
Layout plan_layout(const models::Model& model, const RunOptions& options);

// The largest context, up to the model's own, whose plan fits the limit; 0: none.
int64_t max_context(const models::Model& model, const RunOptions& options);

// Throws Error{does_not_fit} with the cheapest ways to make it fit.
void require_fit(const models::Model& model, const RunOptions& options, const Layout& layout);

// plan_layout(), required to fit.
Layout plan_fitting(const models::Model& model, const RunOptions& options);

// Choosing tokens takes 8-byte entries: two of a sampler, a copy of the logits, a bit per token.
constexpr uint64_t sampler_entries(int64_t vocab) {
  const auto n = static_cast<uint64_t>(vocab);
  return 2 * n + (n + 1) / 2 + (n + 63) / 64;
}

std::string human_bytes(uint64_t bytes);  // "1.5 GiB"

}  // namespace tenon::runtime
