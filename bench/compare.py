#!/usr/bin/env python3
"""tenon and its peers on the same files with the same threads: a Markdown table of tokens per second, ratios and percent of the limit.

    bench/compare.py build/release/tenon model.gguf... --llama-bench PATH/llama-bench [--prompt 512] [--generate 64] [--depth 0] [--batch 4,16]
    bench/compare.py build/release/tenon model/=model-bf16.gguf --llama-bench PATH/llama-bench --transformers

MODEL=GGUF gives llama.cpp another file than tenon: a directory's weights as GGUF. Programs take turns, each number is the median of
--runs runs. Refuses to measure when other processes use the machine (--busy measures all the same).

llama.cpp: its sources are in the sdist of llama-cpp-python (pip download --no-deps --no-binary :all: llama-cpp-python; vendor/llama.cpp);
cmake with GGML_NATIVE=ON builds llama-bench and llama-batched-bench. With GCC 12 on a machine with AMX it dies of SIGILL unless the
operand of `_tile_loadconfig` in ggml-cpu/amx/mmq.cpp is widened to 64 bytes. For a desktop with AVX2 and no more: GGML_NATIVE=OFF with
GGML_AVX2, GGML_FMA, GGML_F16C and GGML_BMI2 on, and TENON_ISA=avx2 in the environment here.
Transformers: python3 with torch and transformers from PyPI; for directories.
OpenVINO GenAI reads GGUF of the types it knows: python3 with openvino-genai from PyPI (--openvino)."""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

BUSY = 0.15  # cores


def busy_cores(seconds=2.0):
    """Cores that other processes use now."""
    def used():
        with open("/proc/stat") as f:
            ticks = [int(x) for x in f.readline().split()[1:]]
        return sum(ticks) - ticks[3] - ticks[4]
    before = used()
    time.sleep(seconds)
    return (used() - before) / os.sysconf("SC_CLK_TCK") / seconds


def output_of(command):
    r = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(f"{command[0]}: exit {r.returncode}: {(r.stderr or r.stdout).strip()[-300:]}")
    return r.stdout


class Tenon:
    name = "tenon"

    def __init__(self, a):
        self.a = a

    def run(self, model, gguf):
        a = self.a
        command = [a.tenon, "bench", model, "-p", a.prompt, "-n", a.generate, "-t", a.threads, "--repeat", 1, "--json"]
        # The peers' decode starts from an empty context unless a depth is asked for.
        command += ["--depth", max(a.depth, 1)]
        if a.batch:
            command += ["--batch", ",".join(map(str, a.batch))]
        if a.kv:
            command += ["--kv", a.kv]
        r = json.loads(output_of(command))
        out = {"prefill": r["prefill"]["tokens_per_s"], "decode": r["decode"]["tokens_per_s"],
               "prefill %": r["prefill"]["flops_pct"], "decode %": r["decode"]["bandwidth_pct"]}
        for b in r.get("batch", []):
            out[f"batch {b['sequences']}"] = b["tokens_per_s"]
        return out


class LlamaCpp:
    name = "llama.cpp"
    KV = {"bf16": "bf16", "f16": "f16", "f32": "f32", "q8": "q8_0", "q4": "q4_0"}

    def __init__(self, a):
        self.a = a

    def run(self, model, gguf):
        a = self.a
        if gguf is None:
            return None
        kv = ["-ctk", self.KV[a.kv], "-ctv", self.KV[a.kv], "-fa", 1] if a.kv else []
        rows = json.loads(output_of([a.llama_bench, "-m", gguf, "-p", a.prompt, "-n", 0, "-t", a.threads, "-r", 1, "-o", "json", *kv]))
        rows += json.loads(output_of([a.llama_bench, "-m", gguf, "-p", 0, "-n", a.generate, "-d", a.depth, "-t", a.threads, "-r", 1, "-o", "json", *kv]))
        out = {"prefill": rows[0]["avg_ts"], "decode": rows[1]["avg_ts"]}
        if a.batch:
            most = max(a.batch)
            text = output_of([a.llama_bench.with_name("llama-batched-bench"), "-m", gguf, "-t", a.threads, "-npp", 16, "-ntg", a.generate,
                              "-npl", ",".join(map(str, a.batch)), "-c", most * (16 + a.generate), "--output-format", "jsonl"])
            for line in text.splitlines():
                if line.startswith("{"):
                    r = json.loads(line)
                    out[f"batch {r['pl']}"] = r["speed_tg"]
        return out


TRANSFORMERS = """
import json, sys, time, torch
from transformers import AutoModelForCausalLM
model, threads, prompt, generate, depth = sys.argv[1], *map(int, sys.argv[2:])
torch.set_num_threads(threads)
m = AutoModelForCausalLM.from_pretrained(model, torch_dtype=torch.bfloat16)
ids = lambda n: (torch.arange(n) * 7919 + 13).remainder(m.config.vocab_size)[None]
with torch.inference_mode():
    m(ids(8))
    start = time.perf_counter(); m(ids(prompt), logits_to_keep=1); prefill = prompt / (time.perf_counter() - start)
    cache, token = m(ids(max(depth, 1)), logits_to_keep=1).past_key_values, ids(1)
    start = time.perf_counter()
    for _ in range(generate):
        o = m(token, past_key_values=cache); cache, token = o.past_key_values, o.logits[:, -1:].argmax(-1)
    print(json.dumps({"prefill": prefill, "decode": generate / (time.perf_counter() - start)}))
"""

OPENVINO = """
import json, sys, time, openvino_genai as ov, numpy as np, openvino
model, threads, prompt, generate, depth = sys.argv[1], *map(int, sys.argv[2:])
p = ov.LLMPipeline(model, "CPU", INFERENCE_NUM_THREADS=threads)
ids = lambda n: openvino.Tensor(((np.arange(n) * 7919 + 13) % 32000)[None].astype(np.int64))
def run(n, new):
    r = p.generate(ids(n), max_new_tokens=new, min_new_tokens=new, do_sample=False, ignore_eos=True)
    return r.perf_metrics
run(8, 2)
first = run(prompt, 1).get_ttft().mean / 1e3
step = run(max(depth, 1), generate).get_tpot().mean / 1e3
print(json.dumps({"prefill": prompt / first, "decode": 1 / step}))
"""


class Script:
    """A peer that is a Python package: measured in a process of its own."""

    def __init__(self, a, name, source, takes):
        self.a, self.name, self.source, self.takes = a, name, source, takes

    def run(self, model, gguf):
        a = self.a
        file = self.takes(model, gguf)
        if file is None:
            return None
        return json.loads(output_of([sys.executable, "-c", self.source, file, a.threads, a.prompt, a.generate, a.depth]).splitlines()[-1])


def numbers(text):
    return [int(x) for x in text.split(",")]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("tenon", type=pathlib.Path)
    p.add_argument("models", nargs="+", metavar="MODEL[=GGUF]")
    p.add_argument("--llama-bench", type=pathlib.Path)
    p.add_argument("--transformers", action="store_true")
    p.add_argument("--openvino", action="store_true")
    p.add_argument("-t", "--threads", type=int, default=2)
    p.add_argument("-p", "--prompt", type=int, default=512)
    p.add_argument("-n", "--generate", type=int, default=64)
    p.add_argument("--depth", type=int, default=0, help="tokens of context before the decode")
    p.add_argument("--batch", type=numbers, default=[], help="sequences that decode together, e.g. 4,16")
    p.add_argument("--kv", choices=sorted(LlamaCpp.KV), help="KV type of tenon and llama.cpp; default: each one's own")
    p.add_argument("--runs", type=int, default=5)
    p.add_argument("--busy", action="store_true", help="measure although the machine is busy")
    a = p.parse_args()
    if a.runs < 5:
        p.error("--runs: medians of fewer than 5 runs say little")
    peers = [Tenon(a)]
    if a.llama_bench:
        peers.append(LlamaCpp(a))
    if a.transformers:
        peers.append(Script(a, "Transformers", TRANSFORMERS, lambda model, gguf: model if os.path.isdir(model) else None))
    if a.openvino:
        peers.append(Script(a, "OpenVINO GenAI", OPENVINO, lambda model, gguf: gguf))
    columns = ["prefill", "decode"] + [f"batch {n}" for n in a.batch]
    print(f"Threads {a.threads}; prefill {a.prompt}, decode {a.generate} from {a.depth} tokens; medians of {a.runs} alternating runs"
          + (f"; TENON_ISA={os.environ['TENON_ISA']}" if "TENON_ISA" in os.environ else "") + ".\n")
    print("| model | program | " + " | ".join(f"{c} tok/s" for c in columns) + " | of the limit |")
    print("|---|---|" + "---:|" * len(columns) + "---|", flush=True)
    for pair in a.models:
        model, _, gguf = pair.partition("=")
        gguf = gguf or (model if model.endswith(".gguf") else None)
        results = {peer.name: [] for peer in peers}
        for _ in range(a.runs):
            for peer in peers:
                if not a.busy and (busy := busy_cores()) > BUSY:
                    sys.exit(f"other processes use {busy:.2f} cores: measure when the machine is idle, or pass --busy")
                try:
                    r = peer.run(model, gguf)
                except RuntimeError as e:
                    print(f"{peer.name} on {model}: {e}", file=sys.stderr)
                    r = None
                if r:
                    results[peer.name].append(r)
        name = re.sub(r"\.gguf$", "", os.path.basename(os.path.normpath(model)))
        middle = {n: {k: statistics.median(r[k] for r in rows if k in r) for k in rows[0]} for n, rows in results.items() if rows}
        for n, m in middle.items():
            limit = f"{m['prefill %']:.0f} % of f32 FLOPs, {m['decode %']:.0f} % of bandwidth" if "decode %" in m else ""
            print(f"| {name} | {n} | " + " | ".join(f"{m[c]:.1f}" if c in m else "" for c in columns) + f" | {limit} |")
        ours = middle.get("tenon")
        for n, m in middle.items():
            if ours and n != "tenon":
                print(f"| {name} | tenon / {n} | " + " | ".join(f"{ours[c] / m[c]:.2f} x" if c in m else "" for c in columns) + " | |")
        sys.stdout.flush()


main()
