// Gemma 2 and 3: norms before and after each block with (1 + weight), scaled embeddings, alternating windows, soft caps
// (2), per-head q/k norms and two rope sets (3). Reference: transformers models/gemma2, gemma3.
#include <cmath>

#include "base/error.h"
#include "models/parts/decoder.h"
#include "models/parts/rope.h"

namespace tenon::models {
namespace {

struct Gemma {
  Dimensions d;
  float eps, offset, score_scale, attention_cap, logit_cap;
  graph::RopeSpec global_rope, local_rope;
  std::vector<int64_t> window;
  graph::Activation act;

  Gemma(const Config& c, const graph::WeightSource& weights)
      : d(decoder_dimensions(c)),
        eps(static_cast<float>(c.real_or("rms_norm_eps", 1e-6))),
        offset(c.dialect().norms_stored_plus_one ? 0.0f : 1.0f),
        score_scale(1.0f /
                    std::sqrt(static_cast<float>(c.real_or("query_pre_attn_scalar", static_cast<double>(d.head_dim))))),
        attention_cap(static_cast<float>(c.real_or("attn_logit_softcapping", 0))),
        logit_cap(static_cast<float>(c.real_or("final_logit_softcapping", 0))),
        global_rope(rope_spec(c, weights, d.head_dim, "full_attention")),
        local_rope(global_rope),
        window(windows(c, d.layers)),
        act(activation(c, "hidden_activation", "gelu_pytorch_tanh")) {
    if (c.flag_or("use_bidirectional_attention", false))
      fail(ErrorCode::unsupported, "{}: bidirectional attention is not supported for this family", c.source());
    if (c.string("model_type") == "gemma3_text")
      local_rope = c.has("rope_parameters") ? rope_spec(c, weights, d.head_dim, "sliding_attention")
                                            : plain_rope(c.real_or("rope_local_base_freq", 10000.0), d.head_dim);
  }

  Value attention(Scope s, Value x, Step& step, int64_t layer) const {
    auto i = static_cast<size_t>(layer);
    Value table = step.rope_table(window[i] ? local_rope : global_rope);
    auto project = [&](const char* name, const char* norm, int64_t n) {
      Value y = s.linear(name, x).heads(n);
      if (s.has(std::string(norm) + ".weight")) y = s.rms_norm(norm, y, eps, offset);
      return rope(y, table, false);
    };
    Value q = project("q_proj", "q_norm", d.heads);
    Value k = project("k_proj", "k_norm", d.kv_heads);
    Value v = s.linear("v_proj", x).heads(d.kv_heads);
    int32_t state = step.kv({d.kv_heads, d.head_dim, window[i]});
    Value y = q.builder->apply(graph::Attend{state, score_scale, attention_cap}, {q, k, v});
    return s.linear("o_proj", y.merge_heads());
  }

  Value mlp(Scope s, Value x) const {
    Value gate = s.linear("gate_proj", x), up = s.linear("up_proj", x);
    return s.linear("down_proj", activate(act, gate) * up);
  }

  Value block(Scope s, Value x, Step& step, int64_t layer) const {
    auto norm = [&](const char* name, Value v) { return s.rms_norm(name, v, eps, offset); };
    x = x + norm("post_attention_layernorm", attention(s / "self_attn", norm("input_layernorm", x), step, layer));
    return x + norm("post_feedforward_layernorm", mlp(s / "mlp", norm("pre_feedforward_layernorm", x)));
  }

  Value operator()(Scope root, Step& step) const {
    Scope model = root / "model";
    Value x = model.embedding("embed_tokens", step.tokens) * std::sqrt(static_cast<float>(d.hidden));
    step.hidden(0, x);
    for (int64_t i = 0; i < d.layers; ++i) {
      x = block(model / "layers" / i, x, step, i);
      step.hidden(i + 1, x);
    }
    x = model.rms_norm("norm", step.select_outputs(x), eps, offset);
    step.final_hidden(x);
    Value logits = head(root, model, "embed_tokens", x);
    return logit_cap > 0 ? softcap(logits, logit_cap) : logits;
  }
};

}  // namespace

extern const Family gemma{
    .name = "gemma",
    .model_types = {"gemma2", "gemma3_text"},
    .load =
        [](const Config& c, const graph::WeightSource& w) {
          Gemma m(c, w);
          return Network{m.d, m};
        },
};

}  // namespace tenon::models
