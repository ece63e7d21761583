#!/usr/bin/env python3
"""What an engine's arithmetic costs in quality: perplexity of a text, and KL divergence from the same file computed in f32.

    bench/quality.py build/release/tenon model.gguf [--text FILE]... [--isa avx2,avx512] [--kv q8,q4] [--llama-cpp]

Windows of --window tokens without overlap, every position counts but each window's first. The reference is tenon with --compute f32 (weights
decoded exactly, activations and KV whole). --llama-cpp adds llama.cpp on the same file with its default KV (f16): the llama-cpp-python package,
or its sources on PYTHONPATH with LLAMA_CPP_LIB_PATH naming the folder of libllama.so. Needs numpy. The default text lies on every Debian."""
import argparse
import ctypes
import json
import os
import pathlib
import subprocess
import tempfile

import numpy as np

TEXTS = ["/usr/share/common-licenses/GPL-3", "/usr/share/common-licenses/Artistic"]


def write_ids(path, ids):
    header = json.dumps({"input_ids": {"dtype": "I64", "shape": [len(ids)], "data_offsets": [0, 8 * len(ids)]}}).encode()
    header += b" " * (-len(header) % 8)
    path.write_bytes(len(header).to_bytes(8, "little") + header + np.asarray(ids, np.int64).tobytes())


def read_logits(path):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    t = json.loads(data[8:8 + size])["logits"]
    begin, end = t["data_offsets"]
    return np.frombuffer(data[8 + size + begin:8 + size + end], np.float32).reshape(t["shape"])


class Tenon:
    def __init__(self, exe, model, threads, flags=(), isa=None):
        self.command = [exe, "forward", model, "-t", str(threads), *flags]
        self.env = {**os.environ, **({"TENON_ISA": isa} if isa else {})}

    def logits(self, ids):
        with tempfile.TemporaryDirectory() as d:
            to, out = pathlib.Path(d, "in.safetensors"), pathlib.Path(d, "out.safetensors")
            write_ids(to, ids)
            subprocess.run([*self.command, "--inputs", to, "--outputs", out], check=True, env=self.env)
            return read_logits(out)


class LlamaCpp:
    def __init__(self, model, threads, window):
        import llama_cpp as lc
        self.lc = lc
        lc.llama_backend_init()
        # ctypes drops a callback that nothing holds
        self.quiet = lc.llama_log_callback(lambda *_: None)
        lc.llama_log_set(self.quiet, ctypes.c_void_p(0))
        self.model = lc.llama_model_load_from_file(str(model).encode(), lc.llama_model_default_params())
        p = lc.llama_context_default_params()
        p.n_ctx = p.n_batch = p.n_ubatch = window
        p.n_threads = p.n_threads_batch = threads
        self.context = lc.llama_init_from_model(self.model, p)
        self.vocab = lc.llama_vocab_n_tokens(lc.llama_model_get_vocab(self.model))

    def logits(self, ids):
        lc, n = self.lc, len(ids)
        lc.llama_memory_clear(lc.llama_get_memory(self.context), True)
        batch = lc.llama_batch_init(n, 0, 1)
        batch.n_tokens = n
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, i, 1, 1
            batch.seq_id[i][0] = 0
        if lc.llama_decode(self.context, batch) != 0:
            raise RuntimeError("llama_decode failed")
        out = np.ctypeslib.as_array(lc.llama_get_logits(self.context), (n, self.vocab)).copy()
        lc.llama_batch_free(batch)
        return out


def log_softmax(x):
    x = x.astype(np.float64)
    x -= x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("tenon")
    a.add_argument("model")
    a.add_argument("--text", action="append", help=f"default: {', '.join(TEXTS)}")
    a.add_argument("--isa", default="", help="also at these levels, comma-separated")
    a.add_argument("--kv", default="", help="also with these KV types, comma-separated")
    a.add_argument("--llama-cpp", action="store_true")
    a.add_argument("--threads", type=int, default=2)
    a.add_argument("--window", type=int, default=512)
    a.add_argument("--windows", type=int, default=12, help="at most so many")
    a = a.parse_args()

    text = "\n".join(pathlib.Path(t).read_text() for t in a.text or TEXTS)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
        f.write(text)
        f.flush()
        ids = json.loads(subprocess.run([a.tenon, "tokenize", a.model, "--file", f.name, "--special", "--json"], check=True,
                                        capture_output=True, text=True).stdout)["ids"]
    windows = [ids[i:i + a.window] for i in range(0, len(ids) - a.window + 1, a.window)][:a.windows]

    make = lambda *flags, isa=None: Tenon(a.tenon, a.model, a.threads, flags, isa)
    reference = make("--compute", "f32")
    engines = {"tenon": make()}
    engines |= {f"tenon, {isa}": make(isa=isa) for isa in a.isa.split(",") if isa}
    engines |= {f"tenon, {kv} KV": make("--kv", kv) for kv in a.kv.split(",") if kv}
    if a.llama_cpp:
        engines["llama.cpp"] = LlamaCpp(a.model, a.threads, a.window)

    nll = {"f32": []} | {name: [] for name in engines}
    kl, same = {name: [] for name in engines}, {name: [] for name in engines}
    for n, window in enumerate(windows):
        print(f"\rwindow {n + 1} of {len(windows)}", end="", flush=True)
        want = log_softmax(reference.logits(window)[:-1])
        next_ids = np.asarray(window[1:])[:, None]
        nll["f32"].append(-np.take_along_axis(want, next_ids, 1))
        for name, engine in engines.items():
            got = log_softmax(engine.logits(window)[:-1, :want.shape[1]])
            nll[name].append(-np.take_along_axis(got, next_ids, 1))
            kl[name].append((np.exp(want) * (want - got)).sum(axis=1))
            same[name].append(want.argmax(1) == got.argmax(1))
    ppl = {name: float(np.exp(np.concatenate(v).mean())) for name, v in nll.items()}
    print(f"\r{pathlib.Path(a.model).name}, {len(windows)} windows of {a.window}; perplexity in f32 {ppl['f32']:.4f}\n")
    print("| | perplexity | against f32 | KL mean | KL 99 % | same top token |\n|---|---|---|---|---|---|")
    for name in engines:
        k = np.concatenate(kl[name])
        print(f"| {name} | {ppl[name]:.4f} | {100 * (ppl[name] / ppl['f32'] - 1):+.3f} % | {k.mean():.6f} | {np.quantile(k, 0.99):.6f} | "
              f"{100 * np.concatenate(same[name]).mean():.2f} % |")


if __name__ == "__main__":
    main()
