// Phi-3: Llama with fused qkv and gate/up projections and LongRoPE. Reference: transformers models/phi3.
#include <cmath>

#include "models/parts/decoder.h"
#include "models/parts/rope.h"

namespace tenon::models {
namespace {

struct Phi3 {
  Dimensions d;
  float eps;
  graph::RopeSpec rope_spec_;
  std::vector<int64_t> window;
  graph::Activation act;

  Phi3(const Config& c, const graph::WeightSource& weights)
      : d(decoder_dimensions(c)),
        eps(static_cast<float>(c.real_or("rms_norm_eps", 1e-5))),
        rope_spec_(rope_spec(c, weights, d.head_dim)),
        window(windows(c, d.layers)),
        act(activation(c, "hidden_act", "silu")) {}

  Value attention(Scope s, Value x, Step& step, int64_t layer) const {
    int64_t q_size = d.heads * d.head_dim, kv_size = d.kv_heads * d.head_dim;
    Value qkv = s.linear("qkv_proj", x);
    Value table = step.rope_table(rope_spec_);
    Value q = rope(qkv.columns(0, q_size).heads(d.heads), table, false);
    Value k = rope(qkv.columns(q_size, kv_size).heads(d.kv_heads), table, false);
    Value v = qkv.columns(q_size + kv_size, kv_size).heads(d.kv_heads);
    int32_t state = step.kv({d.kv_heads, d.head_dim, window[static_cast<size_t>(layer)]});
    Value y = q.builder->apply(graph::Attend{state, 1.0f / std::sqrt(static_cast<float>(d.head_dim)), 0}, {q, k, v});
    return s.linear("o_proj", y.merge_heads());
  }

  Value mlp(Scope s, Value x) const {
    Value gate_up = s.linear("gate_up_proj", x);
    int64_t n = gate_up.type().last() / 2;
    Value gate = gate_up.columns(0, n), up = gate_up.columns(n, n);
    return s.linear("down_proj", activate(act, gate) * up);
  }

  Value operator()(Scope root, Step& step) const { return pre_norm_decoder(*this, root, step); }
};

}  // namespace

extern const Family phi3{
    .name = "phi3",
    .model_types = {"phi3"},
    .load =
        [](const Config& c, const graph::WeightSource& w) {
          Phi3 m(c, w);
          return Network{m.d, m};
        },
};

}  // namespace tenon::models
