// GPT-2: learned positions, LayerNorm, fused qkv stored [in, out]. Reference: transformers models/gpt2.
#include <cmath>

#include "models/parts/decoder.h"

namespace tenon::models {
namespace {

struct Gpt2 {
  Dimensions d;
  float eps;
  graph::Activation act;
  bool scale_scores, scale_by_layer, in_out;

  explicit Gpt2(const Config& c)
      : eps(static_cast<float>(c.real_or("layer_norm_epsilon", 1e-5))),
        act(activation(c, "activation_function", "gelu_new")),
        scale_scores(c.flag_or("scale_attn_weights", true)),
        scale_by_layer(c.flag_or("scale_attn_by_inverse_layer_idx", false)),
        in_out(c.dialect().matrices_in_out) {
    d.layers = c.integer("n_layer");
    d.hidden = c.integer("n_embd");
    d.heads = d.kv_heads = c.integer("n_head");
    d.head_dim = d.heads > 0 ? d.hidden / d.heads : 0;
    d.vocab = c.integer_or("vocab_size", 0);
    d.context = c.integer_or("n_positions", 1024);
    check_dimensions(c, d);
  }

  Value attention(Scope s, Value x, Step& step, int64_t layer) const {
    Value qkv = s.linear("c_attn", x, in_out);
    auto part = [&](int64_t i) { return qkv.columns(i * d.hidden, d.hidden).heads(d.heads); };
    float scale = scale_scores ? 1.0f / std::sqrt(static_cast<float>(d.head_dim)) : 1.0f;
    if (scale_by_layer) scale /= static_cast<float>(layer + 1);
    int32_t state = step.kv({d.kv_heads, d.head_dim, 0});
    Value y = x.builder->apply(graph::Attend{state, scale, 0}, {part(0), part(1), part(2)});
    return s.linear("c_proj", y.merge_heads(), in_out);
  }

  Value mlp(Scope s, Value x) const { return s.linear("c_proj", activate(act, s.linear("c_fc", x, in_out)), in_out); }

  Value block(Scope s, Value x, Step& step, int64_t layer) const {
    x = x + attention(s / "attn", s.layer_norm("ln_1", x, eps), step, layer);
    return x + mlp(s / "mlp", s.layer_norm("ln_2", x, eps));
  }

  Value operator()(Scope root, Step& step) const {
    Scope model = root / "transformer";
    Value x = model.embedding("wte", step.tokens) + model.embedding("wpe", step.positions);
    step.hidden(0, x);
    for (int64_t i = 0; i < d.layers; ++i) {
      x = block(model / "h" / i, x, step, i);
      step.hidden(i + 1, x);
    }
    x = model.layer_norm("ln_f", step.select_outputs(x), eps);
    step.final_hidden(x);
    return head(root, model, "wte", x);
  }
};

}  // namespace

extern const Family gpt2{
    .name = "gpt2",
    .model_types = {"gpt2"},
    .load =
        [](const Config& c, const graph::WeightSource&) {
          Gpt2 m(c);
          return Network{m.d, m};
        },
};

}  // namespace tenon::models
