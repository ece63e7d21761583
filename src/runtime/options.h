// What decides memory and numerics of a run; the same options wherever a model runs, plan included.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/step.h"
#include "models/adapters.h"
#include "tensor/dtype.h"

namespace tenon::models {
class Model;
}

namespace tenon::runtime {

enum class Pack { off, load, later };

struct RunOptions {
  int threads = 0;      // 0: by the machine
  int64_t context = 0;  // tokens per sequence; 0: the model's, or the largest that fits
  int64_t max_sequences = 1;
  int64_t max_batch_tokens = 512;  // rows of a step
  int64_t prefill_chunk = 0;       // prompt tokens of one sequence in a step; 0: max_batch_tokens
  double prefill_slice_s = 0;      // while others generate, a step's prompts take about this long at most; 0: any time
  int64_t kv_tokens = 0;           // tokens of KV kept in all; 0: max_sequences * context
  cpu::KvType kv = cpu::KvType::bf16;
  std::optional<DType> weights;  // load matrices at this precision
  bool compute_f32 = false;      // weights decoded to f32, activations and KV in f32
  Pack pack = Pack::later;
  bool speculate = false;                      // drafts by prompt lookup, verified in one step: room for their logits
  std::shared_ptr<const models::Model> draft;  // drafts by this model too (runtime::DraftModel); null: none
  bool prefault = false;                       // touch all planned memory at load
  uint64_t memory = 0;                         // limit on the plan's peak; 0: what the machine has free
  bool hidden_states = false;                  // every layer's output is kept
  bool final_hidden = false;                   // the last layer's output is kept (embeddings)
  bool all_logits = false;               // logits of whole prompts are wanted (forward, eval): larger chunks of outputs
  uint64_t tokenizer_bytes = 0;          // heap of a loaded tokenizer, part of the overhead
  uint64_t tokenizer_loading_bytes = 0;  // and its most while it is read, before anything else is touched
  bool prefix_cache = false;             // computed beginnings stay known and are shared between sequences
  bool kv_shrinks = false;  // kv_tokens 0: as many as the limit leaves, if max_sequences * context are too many
  uint64_t host_bytes = 0;  // of what surrounds the engine (a server's connections and queue), part of the overhead
  std::vector<models::AdapterFile> adapters;
  std::string device = "cpu";
};

}  // namespace tenon::runtime
