// A family: which models it claims and how it writes their network down.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/config.h"
#include "graph/builder.h"

namespace tenon::models {

using formats::Config;
using graph::Builder;
using graph::Scope;
using graph::Value;

// What a causal language model's network reads from a step besides weights.
class Step {
 public:
  Step(Builder& builder, bool hidden_states);

  Value tokens;     // i32 [rows]
  Value positions;  // i32 [rows]

  Value rope_table(const graph::RopeSpec& spec);  // one node per distinct spec
  int32_t kv(const graph::KvState& state);        // state of one attention layer
  Value select_outputs(Value x);                  // the rows whose logits are wanted
  void hidden(int64_t index, Value x);            // output of layer `index` (0: the embedding), when asked for
  void final_hidden(Value selected);              // after the final norm, when asked for

 private:
  Builder& builder_;
  bool hidden_states_;
  Value output_rows_;
  std::vector<std::pair<graph::RopeSpec, Value>> tables_;
};

// Facts for `inspect` and the planner that no op states.
struct Dimensions {
  int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, vocab = 0, context = 0;
};

struct Network {
  Dimensions dimensions;
  std::function<Value(Scope root, Step& step)> logits;  // [outputs, vocab]
};

struct Family {
  const char* name;
  std::vector<std::string> model_types;
  std::function<Network(const Config&, const graph::WeightSource&)> load;  // throws Error for fields it cannot honour
};

std::span<const Family* const> all_families();
// Throws Error{unsupported} naming the model type and the nearest supported ones.
const Family& family_of(const Config& config);

}  // namespace tenon::models
