// Whole prompts through the network, several together: logits and hidden states of every position.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "runtime/engine.h"

namespace tenon::pipelines {

// One value of one position: `output` is "logits", "hidden.3" or "final"; `prompt` and `row` say whose.
struct ForwardValue {
  std::string_view output;
  size_t prompt = 0;
  int64_t row = 0;
  std::span<const float> values;
};

// Sequence i of the engine runs prompt i (reset first): chunks of all unfinished prompts together in each step.
// Throws Error{invalid_argument} for empty prompts, ids outside the vocabulary, more prompts than sequences or longer
// than the context.
void forward(runtime::Engine& engine, std::span<const std::vector<int32_t>> prompts,
             FunctionRef<void(const ForwardValue&)> sink);

// Outputs forward() will deliver, with their row sizes.
std::vector<std::pair<std::string, int64_t>> forward_outputs(const runtime::Engine& engine);

}  // namespace tenon::pipelines
