// Llama-shaped decoders: pre-norm, rotary positions, grouped-query attention, gated MLP.
// Reference: transformers models/llama, mistral, qwen2, qwen3, smollm3. Weight names are Hugging Face's.
#include <cmath>

#include "base/error.h"
#include "models/parts/decoder.h"
#include "models/parts/rope.h"

namespace tenon::models {
namespace {

// SmolLM3 leaves rotary positions out of some layers (NoPE): no_rope_layers is 0 there, or every interval-th layer.
std::vector<bool> rope_layers(const Config& c, int64_t layers) {
  std::vector<bool> out(static_cast<size_t>(layers), true);
  if (c.string("model_type") != "smollm3") return out;
  if (c.has("no_rope_layers")) {
    auto flags = c.reals("no_rope_layers");
    if (static_cast<int64_t>(flags.size()) != layers)
      fail(ErrorCode::invalid_file, "{}: no_rope_layers lists {} layers of {}", c.source(), flags.size(), layers);
    for (size_t i = 0; i < out.size(); ++i) out[i] = flags[i] != 0;
  } else {
    int64_t interval = c.integer_or("no_rope_layer_interval", 4);
    if (interval < 1) fail(ErrorCode::invalid_file, "{}: no_rope_layer_interval is {}", c.source(), interval);
    for (size_t i = 0; i < out.size(); ++i) out[i] = (static_cast<int64_t>(i) + 1) % interval != 0;
  }
  return out;
}

struct Llama {
  Dimensions d;
  float eps;
  graph::RopeSpec rope_spec_;
  std::vector<int64_t> window;
  std::vector<bool> has_rope;
  graph::Activation act;
  bool interleaved;

  Llama(const Config& c, const graph::WeightSource& weights)
      : d(decoder_dimensions(c)),
        eps(static_cast<float>(c.real_or("rms_norm_eps", 1e-6))),
        rope_spec_(rope_spec(c, weights, d.head_dim)),
        window(windows(c, d.layers)),
        has_rope(rope_layers(c, d.layers)),
        act(activation(c, "hidden_act", "silu")),
        interleaved(c.dialect().rope_interleaved) {
    // Dynamic scaling stretches the context by its factor; the other scalings say the stretched one in the config.
    if (rope_spec_.kind == graph::RopeSpec::Kind::dynamic)
      d.context = static_cast<int64_t>(static_cast<double>(d.context) * rope_spec_.factor);
  }

  Value attention(Scope s, Value x, Step& step, int64_t layer) const {
    auto project = [&](const char* name, const char* norm, int64_t n) {
      Value y = s.linear(name, x).heads(n);
      return s.has(std::string(norm) + ".weight") ? s.rms_norm(norm, y, eps) : y;  // Qwen3 normalises each head
    };
    auto i = static_cast<size_t>(layer);
    Value q = project("q_proj", "q_norm", d.heads);
    Value k = project("k_proj", "k_norm", d.kv_heads);
    Value v = s.linear("v_proj", x).heads(d.kv_heads);
    if (has_rope[i]) {
      Value table = step.rope_table(rope_spec_);
      q = rope(q, table, interleaved);
      k = rope(k, table, interleaved);
    }
    int32_t state = step.kv({d.kv_heads, d.head_dim, window[i]});
    float scale = 1.0f / std::sqrt(static_cast<float>(d.head_dim));
    Value y = q.builder->apply(graph::Attend{state, scale, 0}, {q, k, v});
    return s.linear("o_proj", y.merge_heads());
  }

  Value mlp(Scope s, Value x) const {
    Value gate = s.linear("gate_proj", x), up = s.linear("up_proj", x);
    return s.linear("down_proj", activate(act, gate) * up);
  }

  Value operator()(Scope root, Step& step) const { return pre_norm_decoder(*this, root, step); }
};

}  // namespace

extern const Family llama{
    .name = "llama",
    .model_types = {"llama", "mistral", "qwen2", "qwen3", "smollm3"},
    .load =
        [](const Config& c, const graph::WeightSource& w) {
          Llama m(c, w);
          return Network{m.d, m};
        },
};

}  // namespace tenon::models
