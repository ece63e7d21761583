// GGUF metadata -> the fields of config.json, one table per architecture.
#include <map>

#include "base/error.h"
#include "formats/config.h"
#include "formats/gguf.h"

namespace tenon::formats {
namespace {

struct Field {
  const char* gguf;  // after "ARCH."
  const char* json;
};

constexpr Field kCommon[] = {
    {"context_length", "max_position_embeddings"},
    {"embedding_length", "hidden_size"},
    {"block_count", "num_hidden_layers"},
    {"feed_forward_length", "intermediate_size"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    {"attention.layer_norm_epsilon", "layer_norm_epsilon"},
    {"attention.key_length", "head_dim"},
    {"attention.sliding_window", "sliding_window"},
    {"attn_logit_softcapping", "attn_logit_softcapping"},
    {"final_logit_softcapping", "final_logit_softcapping"},
    {"rope.freq_base", "rope_theta"},
    {"rope.freq_base_swa", "rope_local_base_freq"},
    {"expert_count", "num_local_experts"},
    {"expert_used_count", "num_experts_per_tok"},
    {"vocab_size", "vocab_size"},
};

constexpr Field kGpt2[] = {
    {"context_length", "n_positions"},  {"embedding_length", "n_embd"},     {"block_count", "n_layer"},
    {"feed_forward_length", "n_inner"}, {"attention.head_count", "n_head"},
};

struct Architecture {
  const char* name;
  const char* model_type;
  Dialect dialect;
  Json defaults;  // what the architecture implies and GGUF does not say
};

const std::vector<Architecture>& architectures() {
  static const std::vector<Architecture> table = {
      {"llama", "llama", {.rope_interleaved = true}, Json::object()},
      {"qwen2", "qwen2", {}, Json::object()},
      {"qwen3", "qwen3", {}, Json::object()},
      {"smollm3", "smollm3", {.rope_interleaved = true}, {{"no_rope_layer_interval", 4}}},
      {"gemma2",
       "gemma2",
       {.norms_stored_plus_one = true},
       {{"sliding_window_pattern", 2}, {"hidden_activation", "gelu_pytorch_tanh"}}},
      {"gemma3",
       "gemma3_text",
       {.norms_stored_plus_one = true},
       {{"sliding_window_pattern", 6}, {"rope_local_base_freq", 10000.0}, {"hidden_activation", "gelu_pytorch_tanh"}}},
      {"phi3", "phi3", {}, Json::object()},
      {"gpt2", "gpt2", {.matrices_in_out = false}, {{"activation_function", "gelu_new"}}},
  };
  return table;
}

Json to_json(const GgufValue& v) {
  if (auto s = v.string()) return std::string(*s);
  if (v.type == GgufType::boolean) return v.flag().value_or(false);
  if (v.type == GgufType::f32 || v.type == GgufType::f64) return v.real().value_or(0);
  if (auto i = v.integer()) return *i;
  if (auto list = v.integers()) return *list;
  if (auto list = v.reals()) return *list;
  return nullptr;
}

// llama.cpp's rope.scaling.* keys as config.json's rope_scaling.
void add_rope_scaling(const Gguf& gguf, const std::string& prefix, Json& json) {
  auto type = gguf.string(prefix + "rope.scaling.type");
  if (!type || *type == "none") return;
  Json s = {{"rope_type", std::string(*type)}};
  auto copy = [&](const char* from, const char* to) {
    if (auto v = gguf.real(prefix + from)) s[to] = *v;
  };
  copy("rope.scaling.factor", "factor");
  copy("rope.scaling.attn_factor", "attention_factor");
  copy("rope.scaling.yarn_beta_fast", "beta_fast");
  copy("rope.scaling.yarn_beta_slow", "beta_slow");
  if (auto n = gguf.integer(prefix + "rope.scaling.original_context_length"))
    s["original_max_position_embeddings"] = *n;
  json["rope_scaling"] = std::move(s);
}

}  // namespace

Config Config::from_gguf(const Gguf& gguf) {
  std::string file = gguf.file().name();
  auto arch = gguf.string("general.architecture");
  if (!arch)
    fail(ErrorCode::invalid_file, "{}: general.architecture is missing; this GGUF file describes no model", file);
  const Architecture* a = nullptr;
  std::string known;
  for (const Architecture& candidate : architectures()) {
    known += (known.empty() ? "" : ", ") + std::string(candidate.name);
    if (*arch == candidate.name) a = &candidate;
  }
  if (!a)
    fail(ErrorCode::unsupported, "{}: architecture '{}' is not supported yet (GGUF architectures: {})", file,
         printable(*arch), known);

  std::string prefix = std::string(*arch) + ".";
  Json json = a->defaults;
  json["model_type"] = a->model_type;
  auto copy = [&](const Field& f) {
    if (const GgufValue* v = gguf.find(prefix + f.gguf)) {
      Json value = to_json(*v);
      if (!value.is_null()) json[f.json] = std::move(value);
    }
  };
  for (const Field& f : kCommon) copy(f);
  if (*arch == "gpt2")
    for (const Field& f : kGpt2) copy(f);
  if (!json.contains("vocab_size"))
    if (const GgufValue* tokens = gguf.find("tokenizer.ggml.tokens"); tokens && tokens->type == GgufType::array)
      json["vocab_size"] = tokens->count;
  // Zero stands for "none" here; a head size that equals hidden/heads is often left out.
  if (json.contains("sliding_window") && json["sliding_window"] == 0) json.erase("sliding_window");
  if (auto n = gguf.integer(prefix + "attention.sliding_window_pattern")) json["sliding_window_pattern"] = *n;
  if (auto n = gguf.integer(prefix + "rope.scaling.original_context_length"))
    json["original_max_position_embeddings"] = *n;
  // Mixtral was published under the architecture "llama".
  if (json.contains("num_local_experts") && json["num_local_experts"] != 0 && *arch == "llama")
    json["model_type"] = "mixtral";
  if (auto n = gguf.integer(prefix + "rope.dimension_count")) json["rope_dimension_count"] = *n;
  add_rope_scaling(gguf, prefix, json);
  return Config(std::move(json), file, a->dialect);
}

namespace {

struct Rename {
  const char* hugging_face;
  const char* gguf;
};

constexpr Rename kOuter[] = {
    {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
    {"transformer.wte", "token_embd"},
    {"transformer.wpe", "position_embd"},
    {"transformer.ln_f", "output_norm"},
    {"rope_freqs", "rope_freqs"},
    {"rope_factors_long", "rope_factors_long"},
    {"rope_factors_short", "rope_factors_short"},
};

constexpr Rename kLayer[] = {
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"input_layernorm", "attn_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"mlp.gate_up_proj", "ffn_up"},
    {"ln_1", "attn_norm"},
    {"attn.c_attn", "attn_qkv"},
    {"attn.c_proj", "attn_output"},
    {"ln_2", "ffn_norm"},
    {"mlp.c_fc", "ffn_up"},
    {"mlp.c_proj", "ffn_down"},
};

constexpr Rename kPreNorm[] = {{"post_attention_layernorm", "ffn_norm"}};
constexpr Rename kSandwichNorm[] = {{"post_attention_layernorm", "post_attention_norm"},
                                    {"pre_feedforward_layernorm", "ffn_norm"},
                                    {"post_feedforward_layernorm", "post_ffw_norm"}};

template <size_t N>
const char* look_up(const Rename (&table)[N], std::string_view name) {
  for (const Rename& r : table)
    if (name == r.hugging_face) return r.gguf;
  return nullptr;
}

}  // namespace

std::optional<std::string> gguf_name(std::string_view architecture, std::string_view hugging_face_name) {
  size_t dot = hugging_face_name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  std::string_view stem = hugging_face_name.substr(0, dot), leaf = hugging_face_name.substr(dot);
  if (const char* outer = look_up(kOuter, stem)) return outer + std::string(leaf);
  for (std::string_view prefix : {"model.layers.", "transformer.h."}) {
    if (!stem.starts_with(prefix)) continue;
    std::string_view rest = stem.substr(prefix.size());
    size_t end = rest.find('.');
    if (end == std::string_view::npos) return std::nullopt;
    std::string_view part = rest.substr(end + 1);
    bool sandwich = architecture == "gemma2" || architecture == "gemma3";
    const char* layer = look_up(kLayer, part);
    if (!layer) layer = sandwich ? look_up(kSandwichNorm, part) : look_up(kPreNorm, part);
    if (!layer) return std::nullopt;
    return "blk." + std::string(rest.substr(0, end)) + "." + layer + std::string(leaf);
  }
  return std::nullopt;
}

}  // namespace tenon::formats
