#!/usr/bin/env python3
"""The full kit: kit.py KIT_FOLDER   every case in it whose family or format the registry claims, through the check scripts that lie
beside it; the rest is listed."""
import json, os, subprocess, sys
from pathlib import Path

kit = Path(sys.argv[1])
checks = kit.parent / "check"
tenon = os.environ.get("TENON", "build/release/tenon")
info = json.loads(subprocess.run([tenon, "info", "--json", "--no-measure"], capture_output=True, text=True, check=True).stdout)
types = info["models"].split(", ")
failed, left_out = [], []


def run(script, *args):
    print(f"-- {script} {' '.join(map(str, args[1:]))}", flush=True)
    if subprocess.run([sys.executable, checks / script, *map(str, args)], env={**os.environ, "TENON": tenon}).returncode:
        failed.append(script)


def runnable(folder, model):
    """Whether the program claims this case's network; what it says of itself decides."""
    out = subprocess.run([tenon, "inspect", model, "--json"], capture_output=True, text=True)
    return out.returncode == 0 and "runnable" not in json.loads(out.stdout)


run("files.py", kit / "formats")
for root in (kit / "llm", kit / "formats/gguf_models", kit / "formats/hf_quant"):
    cases = []
    for f in sorted(root.glob("*/case.json")):
        case = json.loads(f.read_text())
        files = case.get("files") or []
        model = f.parent / files[0] if files and files[0].endswith(".gguf") else f.parent
        claimed = case.get("kind", "causal") in ("causal",) and runnable(f.parent, model)
        (cases if claimed else left_out).append(f.parent.name)
    # A name matches by containing: what it must not match is excluded by name.
    names = [n for n in cases]
    others = [f"!{n}" for n in left_out if any(c in n for c in cases)]
    run("llm.py", root, *names, *others)
# One of the snippets in jinja_features prints a Python object's address, which no engine can match; tests/text has all the others.
run("text.py", kit, "tokenizers", "chat_templates", "!jinja_features")
print("not claimed by this build: " + ", ".join(left_out))
print(f"kit: {'all passed' if not failed else 'FAILED in ' + ', '.join(failed)}")
sys.exit(1 if failed else 0)
