#!/usr/bin/env python3
"""What a machine shared with others costs: tenon alone, and with one core taken by another process all the time.

    bench/crowded.py build/release/tenon model.gguf [-t THREADS]

Alternating runs, medians. Of N cores one is lost, so (N - 1) / N of the speed is what can be had; a barrier that spins for a thread
which is not running gives far less."""
import argparse
import json
import os
import statistics
import subprocess


def speeds(a):
    out = subprocess.run([a.tenon, "bench", a.model, "-p", "256", "-n", "64", "--depth", "1", "-t", str(a.threads), "--repeat", "3", "--json"],
                         capture_output=True, text=True, check=True).stdout
    r = json.loads(out)
    return r["prefill"]["tokens_per_s"], r["decode"]["tokens_per_s"]


def main():
    cores = sorted(os.sched_getaffinity(0))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("tenon")
    p.add_argument("model")
    p.add_argument("-t", "--threads", type=int, default=len(cores))
    p.add_argument("--runs", type=int, default=5)
    a = p.parse_args()
    alone, crowded = [], []
    for _ in range(a.runs):
        alone.append(speeds(a))
        neighbour = subprocess.Popen(["taskset", "-c", str(cores[-1]), "sh", "-c", "while :; do :; done"])
        try:
            crowded.append(speeds(a))
        finally:
            neighbour.kill()
            neighbour.wait()
    print(f"| {a.threads} threads, {len(cores)} cores | alone | one core taken | ratio |\n|---|---:|---:|---:|")
    for i, name in enumerate(("prefill", "decode")):
        x, y = (statistics.median(r[i] for r in rows) for rows in (alone, crowded))
        print(f"| {name} tok/s | {x:.1f} | {y:.1f} | {y / x:.2f} |")


main()
