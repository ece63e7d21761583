#include "models/parts/decoder.h"

#include "base/error.h"

namespace tenon::models {

Dimensions decoder_dimensions(const Config& c) {
  Dimensions d;
  d.layers = c.integer("num_hidden_layers");
  d.hidden = c.integer("hidden_size");
  d.heads = c.integer("num_attention_heads");
  d.kv_heads = c.integer_or("num_key_value_heads", d.heads);
  d.head_dim = c.integer_or("head_dim", d.heads > 0 ? d.hidden / d.heads : 0);
  d.vocab = c.integer_or("vocab_size", 0);
  d.context = c.integer_or("max_position_embeddings", 2048);
  check_dimensions(c, d);
  return d;
}

void check_dimensions(const Config& c, const Dimensions& d) {
  auto check = [&](const char* what, int64_t n, int64_t most) {
    if (n < 1 || n > most) fail(ErrorCode::invalid_file, "{}: {} is {}, wanted 1 to {}", c.source(), what, n, most);
  };
  check("the number of layers", d.layers, 4096);
  check("the hidden size", d.hidden, 1 << 20);
  check("the number of heads", d.heads, 4096);
  check("the number of key/value heads", d.kv_heads, d.heads);
  check("the head size", d.head_dim, 4096);
  check("the context", d.context, 1 << 30);
}

std::vector<int64_t> windows(const Config& c, int64_t layers) {
  std::vector<int64_t> out(static_cast<size_t>(layers), 0);
  int64_t window = c.maybe_integer("sliding_window").value_or(0);
  auto set_where = [&](auto&& sliding) {
    for (int64_t i = 0; i < layers; ++i)
      if (sliding(i)) out[static_cast<size_t>(i)] = window;
  };
  if (c.has("layer_types")) {
    const Json& types = c.json().at("layer_types");
    if (!types.is_array() || static_cast<int64_t>(types.size()) != layers)
      fail(ErrorCode::invalid_file, "{}: layer_types does not list {} layers", c.source(), layers);
    for (const Json& t : types)
      if (t != "sliding_attention" && t != "full_attention")
        fail(ErrorCode::unsupported, "{}: layer type {} is not supported", c.source(), printable(t.dump(), 40));
    if (window <= 0)
      for (const Json& t : types)
        if (t == "sliding_attention")
          fail(ErrorCode::invalid_file, "{}: sliding layers without sliding_window", c.source());
    set_where([&](int64_t i) { return types[static_cast<size_t>(i)] == "sliding_attention"; });
    return out;
  }
  if (window <= 0) return out;
  auto pattern = c.maybe_integer("sliding_window_pattern");
  if (!pattern) pattern = c.maybe_integer("_sliding_window_pattern");
  if (pattern) {
    if (*pattern < 1) fail(ErrorCode::invalid_file, "{}: sliding_window_pattern is {}", c.source(), *pattern);
    set_where([&](int64_t i) { return (i + 1) % *pattern != 0; });
  } else if (c.has("use_sliding_window")) {
    int64_t first = c.integer_or("max_window_layers", 0);
    if (c.flag_or("use_sliding_window", false)) set_where([&](int64_t i) { return i >= first; });
  } else {
    set_where([](int64_t) { return true; });
  }
  return out;
}

graph::Activation activation(const Config& c, std::string_view key, std::string_view fallback) {
  using graph::Activation;
  std::string name = c.string_or(key, std::string(fallback));
  static const std::pair<const char*, Activation> names[] = {{"silu", Activation::silu},
                                                             {"swish", Activation::silu},
                                                             {"gelu", Activation::gelu},
                                                             {"gelu_new", Activation::gelu_tanh},
                                                             {"gelu_fast", Activation::gelu_tanh},
                                                             {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                                             {"relu", Activation::relu},
                                                             {"relu2", Activation::relu2},
                                                             {"quick_gelu", Activation::quick_gelu},
                                                             {"tanh", Activation::tanh}};
  for (const auto& [known, f] : names)
    if (name == known) return f;
  fail(ErrorCode::unsupported, "{}: {} is '{}', which is not supported", c.source(), key, printable(name));
}

Value head(Scope root, Scope embeddings, std::string_view embedding, Value x) {
  if (root.has("lm_head.weight")) return root.linear("lm_head", x);
  return embeddings.tied_head(embedding, x);
}

}  // namespace tenon::models
