#!/usr/bin/env python3
"""Random-weight models in the true shapes of published ones, for speed measurements: bench_models.py DIR [--quantize LLAMA_QUANTIZE]

Writes DIR/qwen2.5-0.5b and DIR/qwen3-0.6b (Hugging Face directories, BF16) and the same weights as GGUF (BF16 and, with llama.cpp's
llama-quantize, the types below). Needs numpy and gguf from PyPI. The weights are noise: what such a model says is noise too."""
import argparse, json, pathlib, subprocess
import gguf
import numpy as np

SHAPES = {
    "qwen2.5-0.5b": dict(model_type="qwen2", architectures=["Qwen2ForCausalLM"], hidden_size=896, intermediate_size=4864,
                         num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2, head_dim=64, rope_theta=1000000.0),
    "qwen3-0.6b": dict(model_type="qwen3", architectures=["Qwen3ForCausalLM"], hidden_size=1024, intermediate_size=3072,
                       num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8, head_dim=128, rope_theta=1000000.0),
}
COMMON = dict(vocab_size=151936, max_position_embeddings=32768, rms_norm_eps=1e-6, tie_word_embeddings=True, hidden_act="silu",
              torch_dtype="bfloat16", eos_token_id=151645, bos_token_id=151643)
TYPES = {"qwen2.5-0.5b": ["Q8_0", "Q4_0"], "qwen3-0.6b": ["Q4_K_M", "Q5_K_M", "Q6_K", "IQ4_XS", "Q3_K_M"]}


def tensors(config, rng):
    """(Hugging Face name, GGUF name, array): float32 for vectors, BF16 bits for matrices."""
    h, inter, q, kv = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"], config["num_key_value_heads"]
    d, qwen3 = config["head_dim"], config["model_type"] == "qwen3"

    def matrix(rows, cols):
        values = rng.standard_normal((rows, cols), dtype=np.float32) * np.float32(cols ** -0.5)
        return (values.view(np.uint32) >> 16).astype(np.uint16)

    ones = lambda n: (1 + 0.1 * rng.standard_normal(n)).astype(np.float32)
    yield "model.embed_tokens.weight", "token_embd.weight", matrix(config["vocab_size"], h)
    yield "model.norm.weight", "output_norm.weight", ones(h)
    for i in range(config["num_hidden_layers"]):
        hf, gg = f"model.layers.{i}.", f"blk.{i}."
        yield hf + "input_layernorm.weight", gg + "attn_norm.weight", ones(h)
        yield hf + "post_attention_layernorm.weight", gg + "ffn_norm.weight", ones(h)
        for name, short, n in (("q", "q", q), ("k", "k", kv), ("v", "v", kv)):
            yield hf + f"self_attn.{name}_proj.weight", gg + f"attn_{short}.weight", matrix(n * d, h)
            if not qwen3:
                yield hf + f"self_attn.{name}_proj.bias", gg + f"attn_{short}.bias", ones(n * d) - 1
        if qwen3:
            yield hf + "self_attn.q_norm.weight", gg + "attn_q_norm.weight", ones(d)
            yield hf + "self_attn.k_norm.weight", gg + "attn_k_norm.weight", ones(d)
        yield hf + "self_attn.o_proj.weight", gg + "attn_output.weight", matrix(h, q * d)
        yield hf + "mlp.gate_proj.weight", gg + "ffn_gate.weight", matrix(inter, h)
        yield hf + "mlp.up_proj.weight", gg + "ffn_up.weight", matrix(inter, h)
        yield hf + "mlp.down_proj.weight", gg + "ffn_down.weight", matrix(h, inter)


def bf16(array):
    return array if array.dtype == np.uint16 else (array.view(np.uint32) >> 16).astype(np.uint16)


def write_directory(path, config, weights):
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(config, indent=1))
    header, at = {}, 0
    for name, _, array in weights:
        header[name] = {"dtype": "BF16", "shape": list(array.shape), "data_offsets": [at, at + array.size * 2]}
        at += array.size * 2
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path / "model.safetensors", "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for _, _, array in weights:
            f.write(bf16(array).tobytes())


def write_gguf(path, config, weights):
    w = gguf.GGUFWriter(str(path), config["model_type"])
    w.add_context_length(config["max_position_embeddings"])
    w.add_embedding_length(config["hidden_size"])
    w.add_feed_forward_length(config["intermediate_size"])
    w.add_block_count(config["num_hidden_layers"])
    w.add_head_count(config["num_attention_heads"])
    w.add_head_count_kv(config["num_key_value_heads"])
    w.add_key_length(config["head_dim"])
    w.add_value_length(config["head_dim"])
    w.add_rope_freq_base(config["rope_theta"])
    w.add_layer_norm_rms_eps(config["rms_norm_eps"])
    w.add_vocab_size(config["vocab_size"])
    w.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    w.add_tokenizer_model("no_vocab")
    for _, name, array in weights:
        if array.dtype == np.uint16:
            w.add_tensor(name, array.view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
        else:
            w.add_tensor(name, array)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dir", type=pathlib.Path)
    p.add_argument("--quantize", help="llama.cpp's llama-quantize, for the quantised types")
    a = p.parse_args()
    for name, shape in SHAPES.items():
        config = {**COMMON, **shape}
        weights = list(tensors(config, np.random.default_rng(1)))
        write_directory(a.dir / name, config, weights)
        source = a.dir / f"{name}-bf16.gguf"
        write_gguf(source, config, weights)
        for t in TYPES[name] if a.quantize else []:
            subprocess.run([a.quantize, str(source), str(a.dir / f"{name}-{t.lower()}.gguf"), t, "2"], check=True)
        print(name, "written")


if __name__ == "__main__":
    main()
