#!/usr/bin/env python3
"""Commands end to end on the golden models: outputs, exit codes, one-line errors, JSON on stdout and nothing else."""
import json, os, re, shutil, signal, struct, subprocess, sys, tempfile, time, urllib.request
from pathlib import Path

from serving import serve

ROOT = Path(__file__).resolve().parents[2]
TENON = os.environ.get("TENON", str(ROOT / "build/release/tenon"))
MODELS = ROOT / "tests/golden/models"
failures, checks = [], 0


def tenon(*args, stdin=None, env=None):
    p = subprocess.run([TENON, *map(str, args)], input=stdin, capture_output=True, text=True, timeout=120, env={**os.environ, **(env or {})})
    return p.returncode, p.stdout, p.stderr


def expect(ok, what):
    global checks
    checks += 1
    if not ok:
        failures.append(what)
        print(f"FAIL {what}", flush=True)


def model(name):
    folder = MODELS / name
    files = sorted(folder.glob("*.gguf"))
    return files[0] if files else folder


def save_ids(path, ids):
    header = json.dumps({"input_ids": {"dtype": "I64", "shape": [len(ids)], "data_offsets": [0, 8 * len(ids)]}}).encode()
    header += b" " * (-len(header) % 8)
    path.write_bytes(struct.pack("<Q", len(header)) + header + struct.pack(f"<{len(ids)}q", *ids))


def greedy():
    for folder in sorted(MODELS.iterdir()):
        case = json.loads((folder / "case.json").read_text())
        tolerance = case.get("tolerance", 2e-4)
        for prompt, want, margins in zip(case["prompts"], case["greedy"], case["greedy_margins"]):
            margins = margins if isinstance(margins, list) else []
            sure = next((i for i, m in enumerate(margins) if m < 2 * tolerance), len(want))
            rc, out, err = tenon("run", model(folder.name), "--tokens", ",".join(map(str, prompt)), "--max-tokens", len(want), "--temperature", 0,
                                 "--ignore-eos", "--compute", "f32", "--json")
            got = json.loads(out)["tokens"] if rc == 0 else err
            expect(rc == 0 and got[:sure] == want[:sure] and len(got) == len(want), f"greedy {folder.name}: {got} wanted {want}")


def exit_codes():
    llama = model("llama-s-q4_0")
    for code, args in [
        (0, ["--version"]), (0, ["--help"]), (2, []), (2, ["run"]), (2, ["no-such-command"]), (2, ["run", llama, "x", "--no-such-flag"]),
        (1, ["run", "no/such/model", "x"]), (1, ["inspect", "no/such/file"]), (2, ["run", llama, "--tokens", "1,x"]),
        (2, ["run", llama, "--tokens", "1,99999999"]), (2, ["run", llama, "--tokens", "1", "--context", "1000000"]),
        (2, ["run", llama, "--tokens", "1", "--temperature", "-1"]), (3, ["run", llama, "--tokens", "1", "--memory", "cpu=1M"]),
        (2, ["run", llama, "--tokens", "1", "--memory", "gpu=1M"]), (2, ["run", llama, "--tokens", "1", "--device", "abacus"]),
        (0, ["plan", llama]), (0, ["plan", llama, "--memory", "cpu=1M"]), (0, ["info", "--no-measure"]),
    ]:
        rc, out, err = tenon(*args)
        expect(rc == code, f"exit {rc} of {args}, wanted {code}: {err.strip()[-200:]}")
        if rc in (1, 3):
            expect(err.strip().count("\n") == 0 and err.startswith("error: "), f"one line of error for {args}: {err!r}")
    rc, _, err = tenon("plan", llama, env={"TENON_ISA": "quantum"})
    expect(rc == 2 and "TENON_ISA" in err and "baseline" in err, f"unknown TENON_ISA: {rc} {err!r}")


def forward():
    with tempfile.TemporaryDirectory() as d:
        d = Path(d)
        save_ids(d / "a", [1, 2, 3, 4, 5])
        save_ids(d / "b", [9, 8, 7])
        pair = ["--inputs", d / "a", "--outputs", d / "ao", "--inputs", d / "b", "--outputs", d / "bo"]
        rc, out, err = tenon("forward", model("qwen3"), *pair, "--hidden-states")
        expect(rc == 0 and out == "", f"forward: {rc} {out!r} {err!r}")
        rc2, _, _ = tenon("forward", model("qwen3"), "--inputs", d / "b", "--outputs", d / "bo2", "--hidden-states")
        expect(rc2 == 0 and (d / "bo").read_bytes() == (d / "bo2").read_bytes(), "a prompt in a batch has the bytes it has alone")
        rc, out, _ = tenon("inspect", d / "ao", "--tensors", "--json")
        shapes = {t["name"]: t["shape"] for t in json.loads(out)["tensors"]}
        expect(shapes.get("logits") == [5, 112] and shapes.get("hidden.0") == [5, 64] and shapes.get("final") == [5, 64], f"forward's outputs: {shapes}")
        (d / "bad").write_bytes(b"x" * 100)
        rc, _, err = tenon("forward", model("qwen3"), "--inputs", d / "bad", "--outputs", d / "o")
        expect(rc == 1 and "bad" in err, f"a malformed input file: {rc} {err!r}")


def plan_and_inspect():
    rc, out, _ = tenon("plan", model("gemma3"), "--json")
    plan = json.loads(out)
    cpu = plan["devices"]["cpu"]
    parts = ("weights", "state", "activations", "io", "temporary", "overhead")
    expect(rc == 0 and sum(cpu[k] for k in parts) == cpu["total"] <= cpu["peak"] and plan["fits"] and plan["max_context"] == 256, f"plan: {plan}")
    rc, out, _ = tenon("inspect", model("gpt2"), "--json")
    facts = json.loads(out)
    expect(facts["architecture"] == "gpt2" and facts["dtypes"].keys() == {"F16"} and facts["parameters"] == sum_elements(model("gpt2")), f"inspect: {facts}")
    rc, out, _ = tenon("inspect", model("llama-s-q4_0"))
    expect(rc == 0 and "llama" in out and "Q4_0" in out, f"inspect for people: {out}")


def sum_elements(folder):
    _, out, _ = tenon("inspect", folder, "--tensors", "--json")
    n = 0
    for t in json.loads(out)["tensors"]:
        size = 1
        for d in t["shape"]:
            size *= d
        n += size
    return n


def text():
    llama = model("llama-s-q4_0")
    case = json.loads((MODELS / "llama-s-q4_0/case.json").read_text())
    rows = [{"text": t["text"], "add_special_tokens": True} for t in case["tokenize"]] + [{"ids": [1, 2, 3]}, {"stream": case["prompts"][2]}, {"nothing": 1}]
    rc, out, err = tenon("tokenize", llama, "--jsonl", stdin="".join(json.dumps(r) + "\n" for r in rows))
    got = [json.loads(l) for l in out.splitlines()]
    for t, g in zip(case["tokenize"], got):
        expect(g.get("ids") == t["ids"], f"tokenize {t['text']!r}: {g}")
    expect(len(got) == len(rows) and "text" in got[-3] and "pieces" in got[-2] and "error" in got[-1], f"tokenize rows: {got[-3:]}")
    rc, out, _ = tenon("run", llama, "The harbour at", "--raw", "--temperature", "0", "-n", "5", "--json")
    answer = json.loads(out)
    expect(rc == 0 and len(answer["tokens"]) == 5 and isinstance(answer["text"], str) and answer["memory"]["planned"]["total"] > 0, f"run: {answer}")
    seeds = [json.loads(tenon("run", llama, "The harbour at", "--raw", "--seed", s, "-n", "20", "--ignore-eos", "--json")[1])["tokens"] for s in (1, 1, 2)]
    expect(seeds[0] == seeds[1] != seeds[2], f"seeds: {seeds}")
    drafted = {d: json.loads(tenon("run", llama, "The harbour at", "--raw", "--seed", 1, "-n", "40", "--ignore-eos", "--json", *d)[1])
               for d in ((), ("--draft", llama), ("--speculation", "off"))}
    expect(len({tuple(d["tokens"]) for d in drafted.values()}) == 1, f"drafts change nothing: {drafted}")
    own, both = (json.loads(tenon("plan", llama, *d, "--json")[1]) for d in ((), ("--draft", llama)))
    grown = both["devices"]["cpu"]["total"] - own["devices"]["cpu"]["total"]
    expect(0 < grown <= both["draft"]["total"] and "draft" not in own, f"a draft's plan: {own} {both}")
    rc, out, err = tenon("run", llama, "x", "--draft", model("gpt2"))
    expect(rc == 2 and "vocabulary" in err and err.count("\n") == 1, f"a draft of another vocabulary: {rc} {err!r}")
    rc, out, err = tenon("run", model("gemma3-s-q8_0"), "The harbour", "-n", "3", "--temperature", "0")
    expect(rc == 0 and "no chat template" in err, f"a model without template says so: {err!r}")
    rows = [{"template": "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}", "messages": [{"role": "user", "content": "hi"}]},
            {"template": "{{ 1 + 1 }}", "context": {}}, {"template": "{% if %}", "context": {}}]
    rc, out, _ = tenon("template", "-", "--jsonl", stdin="".join(json.dumps(r) + "\n" for r in rows))
    got = [json.loads(l) for l in out.splitlines()]
    expect(got[0] == {"text": "<user>hi"} and got[1] == {"text": "2"} and "error" in got[2], f"template: {got}")
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
        f.write("The harbour at Saltwick was grey. She wrote down the height of the water. " * 8)
        f.flush()
        rc, out, err = tenon("eval", "perplexity", llama, "--file", f.name, "--ctx", "64", "--json")
        result = json.loads(out) if rc == 0 else err
        expect(rc == 0 and result["tokens"] > 100 and 0 < result["nll"] < 20, f"perplexity: {result}")


def access_log():
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder) / "logs"
        logs.mkdir()
        server, url = serve(TENON, model("llama-s-q4_0"), "--access-log", logs / "access")

        def requests_of(file):  # once the line of the last one is there
            for _ in range(100):
                urllib.request.urlopen(url + "/version").read()
                if file.exists() and file.read_text().endswith("}\n"):
                    return [json.loads(line) for line in file.read_text().splitlines()]
                time.sleep(0.05)
            return []

        lines = requests_of(logs / "access")
        expect(lines and lines[0]["path"] == "/version" and lines[0]["status"] == 200 and lines[0]["method"] == "GET", f"access log: {lines}")
        (logs / "access").rename(logs / "old")
        server.send_signal(signal.SIGHUP)
        expect(requests_of(logs / "access"), "the access log is written anew behind SIGHUP")
        old = (logs / "old").read_text()
        requests_of(logs / "access")
        expect((logs / "old").read_text() == old, "the log that was moved away is left alone")
        shutil.rmtree(logs)
        server.send_signal(signal.SIGHUP)
        for line in server.stderr:
            if "cannot be written" in line:
                break
        expect(urllib.request.urlopen(url + "/version").status == 200, "a log that cannot be opened ends no server")
        server.send_signal(signal.SIGTERM)
        expect(server.wait(20) == 0, "SIGTERM ends it")


for check in (greedy, exit_codes, forward, plan_and_inspect, text, access_log):
    check()
print(f"{checks - len(failures)} passed, {len(failures)} failed")
sys.exit(1 if failures else 0)
