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

// Embedding, then layers of x + attention(norm(x)), x + mlp(norm(x)), norm and head. Model has d, eps and
// attention(scope, x, step, layer), mlp(scope, x).
template <class Model>
Value pre_norm_decoder(const Model& m, Scope root, Step& step) {
  Scope model = root / "model";
  Value x = model.embedding("embed_tokens", step.tokens);
  step.hidden(0, x);
  for (int64_t i = 0; i < m.d.layers; ++i) {
    Scope layer = model / "layers" / i;
    x = x + m.attention(layer / "self_attn", layer.rms_norm("input_layernorm", x, m.eps), step, i);
    x = x + m.mlp(layer / "mlp", layer.rms_norm("post_attention_layernorm", x, m.eps));
    step.hidden(i + 1, x);
  }
  x = model.rms_norm("norm", step.select_outputs(x), m.eps);
  step.final_hidden(x);
  return head(root, model, "embed_tokens", x);
}

}  // namespace tenon::models
