// What decoder configs have in common: sizes checked once, window per layer, activation by name.
#pragma once
#include <vector>

#include "models/family.h"

namespace tenon::models {

// From num_hidden_layers, hidden_size, ...; every size is checked to be positive and sane.
Dimensions decoder_dimensions(const Config& config);
void check_dimensions(const Config& config, const Dimensions& d);

// Attention window of each layer (0: none), from layer_types, *sliding_window_pattern, use_sliding_window +
// max_window_layers, or sliding_window alone (all layers).
std::vector<int64_t> windows(const Config& config, int64_t layers);

// "silu", "gelu", "gelu_new", "gelu_pytorch_tanh", ...; throws Error{unsupported} naming the field.
graph::Activation activation(const Config& config, std::string_view key, std::string_view fallback);

// The output head: lm_head where the checkpoint has one, else the embedding table.
Value head(Scope root, Scope embeddings, std::string_view embedding, Value x);

}  // namespace tenon::models
