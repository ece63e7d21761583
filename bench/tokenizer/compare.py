#!/usr/bin/env python3
"""Tokenizers side by side on one thread: tenon, Hugging Face tokenizers, tiktoken; a Markdown table on standard output.

    python3 -m venv venv && venv/bin/pip install tokenizers tiktoken
    venv/bin/python bench/tokenizer/compare.py build/release/tenon tokenizer.json TEXT...

The file must be a byte-level BPE whose ids are its ranks (Qwen, GPT-2, Llama 3): tiktoken gets its vocabulary and pattern.
"""
import json
import os
import subprocess
import sys
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

RUNS = 5


def median_seconds(f, runs=RUNS):
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        f()
        seconds.append(time.perf_counter() - start)
    return sorted(seconds)[runs // 2]


def bytes_of_letters():
    """The byte alphabet: printable Latin-1 stands for itself, the other bytes for letters from U+0100 on."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(others)}


def find_pattern(step):
    if isinstance(step, dict):
        if "Regex" in step:
            return step["Regex"]
        step = list(step.values())
    return next((p for p in map(find_pattern, step) if p), None) if isinstance(step, list) else None


def tiktoken_encoding(file):
    import tiktoken
    with open(file, encoding="utf-8") as f:
        config = json.load(f)
    alphabet = bytes_of_letters()
    ranks = {bytes(alphabet[c] for c in token): i for token, i in config["model"]["vocab"].items()}
    pattern = find_pattern(config["pre_tokenizer"]) or r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    return tiktoken.Encoding("bench", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})


def measure_tenon(tenon, file, path):
    out = subprocess.run([tenon, "bench", "tokenizer", file, "--file", path, "-t", "1", "--json"], capture_output=True, text=True, check=True)
    r = json.loads(out.stdout)
    return r["encode_mb_per_s"], r["decode_mb_per_s"], r["load_ms"], r["tokens"]


def measure_python(load, encode, decode, text):
    start = time.perf_counter()
    t = load()
    load_ms = (time.perf_counter() - start) * 1e3
    ids = encode(t, text)
    mb = len(text.encode()) / 1e6
    return mb / median_seconds(lambda: encode(t, text)), mb / median_seconds(lambda: decode(t, ids)), load_ms, len(ids)


def main():
    from tokenizers import Tokenizer
    tenon, file, texts = sys.argv[1], sys.argv[2], sys.argv[3:]
    print("| text | tokenizer | encode MB/s | decode MB/s | load ms | tokens |\n|---|---|---:|---:|---:|---:|")
    for path in texts:
        with open(path, encoding="utf-8", newline="") as f:
            text = f.read()
        rows = {
            "tenon": measure_tenon(tenon, file, path),
            "tokenizers": measure_python(lambda: Tokenizer.from_file(file), lambda t, x: t.encode(x, add_special_tokens=False).ids,
                                         lambda t, ids: t.decode(ids, skip_special_tokens=False), text),
            "tiktoken": measure_python(lambda: tiktoken_encoding(file), lambda t, x: t.encode_ordinary(x), lambda t, ids: t.decode(ids), text),
        }
        for name, (encode, decode, load, tokens) in rows.items():
            print(f"| {os.path.basename(path)} | {name} | {encode:.1f} | {decode:.1f} | {load:.0f} | {tokens} |", flush=True)
        print(f"| {os.path.basename(path)} | tenon / tiktoken | {rows['tenon'][0] / rows['tiktoken'][0]:.1f} x | "
              f"{rows['tenon'][1] / rows['tiktoken'][1]:.1f} x | | |", flush=True)


main()
