#!/usr/bin/env python3
"""Differential fuzzing of tokenizers: random texts through `tenon tokenize` and through Hugging Face tokenizers.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3
    venv/bin/python tools/tokenizer_fuzz.py build/release/tenon COUNT SEED tokenizer.json...

COUNT texts for each file: Unicode blocks, combining marks, digits, ideographs, emoji sequences, letters with odd cases, texts of
special tokens, all kinds of white space, long runs, and mutated texts of cases.jsonl files beside the tokenizer. Ids and the text
decoded from them must be the same. Prints the first texts that differ, shortened; exit code 1 if there is one.
"""
import json
import os
import random
import subprocess
import sys
import unicodedata

from tokenizers import Tokenizer

BLOCKS = [(0x20, 0x7F), (0x20, 0x7F), (0x20, 0x7F), (0, 0x20), (0x80, 0x250), (0x250, 0x300), (0x300, 0x370), (0x370, 0x530), (0x530, 0x600),
          (0x600, 0x700), (0x900, 0xE00), (0xE00, 0x1000), (0x1000, 0x1200), (0x1200, 0x1E00), (0x1E00, 0x2000), (0x2000, 0x2070), (0x2070, 0x2C00),
          (0x2C00, 0x2E80), (0x2E80, 0x3100), (0x3100, 0x3400), (0x3400, 0x4E00), (0x4E00, 0xA000), (0x4E00, 0xA000), (0xA000, 0xAC00),
          (0xAC00, 0xD7A4), (0xE000, 0xF900), (0xF900, 0xFB00), (0xFB00, 0xFE00), (0xFE00, 0xFF00), (0xFF00, 0x10000), (0x10000, 0x11000),
          (0x11000, 0x1D000), (0x1D000, 0x1F000), (0x1F000, 0x1FB00), (0x20000, 0x32000), (0xE0000, 0xE0200), (0x10FF00, 0x110000)]
WORDS = ["Hello", "world", "don't", "I'LL", "'s", "'S", "'\u017f", "it's", "HTTPServer", "camelCase", "12345", "3.14", "1,000", "naïve", "straße", "İI\u0131i",
         "ǅǆ", "ŉ", "ẞ", "ς", "Σίσυφος", "你好", "中国", "的", "한국어", "हिन्दी", "العربية", "ไทย", "日本語", "カタカナ", "ﾊﾟ", "e\u0301", "ﬁ", "①", "Ⅷ", "½", "㎏", "___", "=====",
         "👩\u200d👩\u200d👧", "👍🏽", "🇩🇪🇫🇷", "❤\ufe0f", "\u1112\u1161\u11ab", "<0x41>", "<0xE4>", "▁", "▁the", "##ing", "Ġ", "Ċ", "</w>", "http://a.b/c?d=e", "\\n", "{\"a\": 1}"]
SPACES = [" ", " ", " ", "  ", "    ", "\n", "\n\n", "\r\n", "\t", "\u00a0", "\u2003", "\u3000", "\u200b", "\u2028", "\u0085", "\u180e", "\ufeff", "\x0b", "\x1c", "\u2060"]
SPECIALS = ["<s>", "</s>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "[UNK]", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<mask>", "<pad>"]


def run(rng):
    return rng.choice(["a", " ", "\n", "0", "=", "é", "中", "😀", "ab", "\u0301", "A", "\t", "-", "한", "'"]) * int(2 ** rng.uniform(0, 9))


def mutated(rng, seeds):
    s = rng.choice(seeds)
    a = rng.randrange(len(s) + 1)
    s = s[a : a + rng.randint(1, 60)]
    b = rng.randrange(len(s) + 1)
    return rng.choice([s, s[:b] + chr(rng.randrange(0x20, 0x2000)) + s[b:], s[:b] + s[b + 1 :], s[::-1], s.upper(), s.swapcase(), s + s])


def part(rng, seeds, specials):
    k = rng.random()
    if k < 0.25:
        return rng.choice(WORDS)
    if k < 0.5:
        return rng.choice(SPACES)
    if k < 0.55:
        return rng.choice(specials)
    if k < 0.57:
        return run(rng)
    if k < 0.67 and seeds:
        return mutated(rng, seeds)
    low, high = rng.choice(BLOCKS)
    return "".join(map(chr, (rng.randrange(low, high) for _ in range(rng.randint(1, 8)))))


def text(rng, seeds, specials):
    out = "".join(part(rng, seeds, specials) for _ in range(rng.randint(1, 9)))
    return unicodedata.normalize(rng.choice(["NFC", "NFD", "NFKD"]), out) if rng.random() < 0.1 else out


def ask(tenon, file, rows):
    p = subprocess.run([tenon, "tokenize", file, "--jsonl"], input="".join(json.dumps(r) + "\n" for r in rows), capture_output=True, text=True)
    return [json.loads(line) for line in p.stdout.split("\n") if line]


def kit_texts(file):
    path = os.path.join(os.path.dirname(file), "cases.jsonl")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as f:
        return [t for t in (json.loads(line)["text"] for line in f.read().split("\n") if line) if t and len(t) < 2000]


def encoded(reference, t):
    try:
        return reference.encode(t, add_special_tokens=True).ids
    except Exception:  # refused
        return None


def compare_some(tenon, file, reference, texts):
    """The texts that differ, with what was given and wanted."""
    want = [encoded(reference, t) for t in texts]
    got = ask(tenon, file, [{"text": t, "add_special_tokens": True} for t in texts])
    back = ask(tenon, file, [{"ids": w or []} for w in want])
    for t, g, w, b in zip(texts, got, want, back, strict=True):
        if g.get("ids") != w:
            yield t, "ids", g.get("ids", g.get("error")), w
        elif w is not None and b.get("text") != (decoded := reference.decode(w, skip_special_tokens=False)):
            yield t, "text", b.get("text"), decoded


def compare(tenon, file, count, seed):
    reference = Tokenizer.from_file(file)
    reference.no_padding()
    reference.no_truncation()
    rng = random.Random(f"{seed} {file}")
    seeds = kit_texts(file)
    specials = SPECIALS + [t.content for t in reference.get_added_tokens_decoder().values()]
    wrong = 0
    for done in range(0, count, 20000):
        texts = [text(rng, seeds, specials) for _ in range(min(20000, count - done))]
        for t, what, got, want in compare_some(tenon, file, reference, texts):
            wrong += 1
            if wrong <= 10:
                print(f"{file}: {t[:300]!a}\n  {what} {str(got)[:300]!a}\n  not {str(want)[:300]!a}", flush=True)
    print(f"{file}: {count - wrong} of {count} agree", flush=True)
    return wrong


def main():
    tenon, count, seed, files = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    sys.exit(1 if sum(compare(tenon, f, count, seed) for f in files) else 0)


main()
