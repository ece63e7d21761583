// Rotary frequencies from a config, in both of its dialects (rope_parameters; rope_theta + rope_scaling).
// Reference: transformers modeling_rope_utils.py; each scaling's paper is named at its function.
#pragma once
#include <string_view>

#include "graph/builder.h"
#include "models/family.h"

namespace tenon::models {

// `layer_type`: the set for layers of this type where the config has one per type ("sliding_attention"), else "".
// Divisors that a GGUF file stores as tensors (rope_freqs, rope_factors_*) are applied.
graph::RopeSpec rope_spec(const Config& config, const graph::WeightSource& weights, int64_t head_dim,
                          std::string_view layer_type = "");

// The plain set for another base.
graph::RopeSpec plain_rope(double theta, int64_t rotary);

}  // namespace tenon::models
