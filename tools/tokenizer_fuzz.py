#!/usr/bin/env python3
"""Differential fuzzing of tokenizers: random texts through `tenon tokenize` and through Hugging Face tokenizers.

    python -m venv venv && venv/bin/pip install tokenizers==0.23.3
    venv/bin/python tools/tokenizer_fuzz.py build/release/tenon COUNT SEED tokenizer.json...

Prints every text whose ids or decoded text differ; exit code 1 if there is one.
"""
import json
import random
import subprocess
import sys
import unicodedata

from tokenizers import Tokenizer

SCRIPTS = [(0x20, 0x7F), (0x20, 0x7F), (0xA0, 0x250), (0x300, 0x370), (0x370, 0x530), (0x590, 0x6FF), (0x900, 0xDFF), (0xE00, 0xEFF),
           (0x1100, 0x11FF), (0x2000, 0x206F), (0x2070, 0x2BFF), (0x3000, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xFB00, 0xFFFD),
           (0x10000, 0x10FFFF), (0x1F300, 0x1FAFF)]
WORDS = ["Hello", "world", "don't", "I'LL", "  ", "\n\n", "\r\n", "\t", "12345", "3.14", "naïve", "straße", "你好", "한국어", "हिन्दी", "العربية",
         "👩‍👩‍👧", "e\u0301", "ﬁ", "①", "\u00a0", "\u200b", "___", "=====", "<s>", "</s>", "<unk>", "[CLS]", "[MASK]", "<|endoftext|>", "<|im_start|>"]


def text(rng, specials):
    parts = []
    for _ in range(rng.randint(1, 12)):
        k = rng.random()
        if k < 0.35:
            parts.append(rng.choice(WORDS))
        elif k < 0.42 and specials:
            parts.append(rng.choice(specials))
        elif k < 0.6:
            parts.append(" ")
        else:
            low, high = rng.choice(SCRIPTS)
            parts.append("".join(chr(c) for c in (rng.randrange(low, high) for _ in range(rng.randint(1, 8))) if not 0xD800 <= c < 0xE000))
    out = "".join(parts)
    return unicodedata.normalize(rng.choice(["NFC", "NFD"]), out) if rng.random() < 0.2 else out


def ask(tenon, file, rows):
    p = subprocess.run([tenon, "tokenize", file, "--jsonl"], input="".join(json.dumps(r) + "\n" for r in rows), capture_output=True, text=True)
    return [json.loads(line) for line in p.stdout.split("\n") if line]


def compare(tenon, file, count, rng):
    reference = Tokenizer.from_file(file)
    reference.no_padding()
    reference.no_truncation()
    specials = [t.content for t in reference.get_added_tokens_decoder().values()]
    texts = [text(rng, specials) for _ in range(count)]
    got = ask(tenon, file, [{"text": t, "add_special_tokens": True} for t in texts])
    want = [reference.encode(t, add_special_tokens=True).ids for t in texts]
    back = ask(tenon, file, [{"ids": ids} for ids in want])
    wrong = 0
    for t, g, w, b in zip(texts, got, want, back):
        decoded = reference.decode(w, skip_special_tokens=False)
        if g.get("ids") != w or b.get("text") != decoded:
            wrong += 1
            if wrong <= 5:
                print(f"{file}: {t!r}\n  ids {g.get('ids', g)}\n  not {w}\n  text {b.get('text')!r}\n  not  {decoded!r}")
    print(f"{file}: {count - wrong} of {count} agree")
    return wrong


tenon, count, seed, files = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
sys.exit(1 if sum(compare(tenon, f, count, random.Random(seed)) for f in files) else 0)
