#!/usr/bin/env python3
"""The server under clients that behave badly: chaos.py TENON MODEL.gguf [REQUESTS] [STREAMS] [IDLE]

REQUESTS requests, each whole, streamed, left at a random moment, stalled, cut or garbage: every answer that arrives must be the one of a
quiet server, no KV block may be left, memory must stay within the plan. Then STREAMS streams at once, and IDLE idle connections.
TENON_SANITIZED=1: TENON is a build with a sanitizer, whose own memory is in no plan. Ends with "N passed, N failed"."""
import asyncio, json, os, random, sys, time, urllib.request

from serving import serve

exe, model = sys.argv[1], sys.argv[2]
requests, streams, idle = (int(a) for a in (sys.argv[3:] + ["10000", "500", "1000"][len(sys.argv) - 3:]))
sanitized = "TENON_SANITIZED" in os.environ
passed, failed = 0, []


def check(name, ok, what=""):
    global passed
    if ok:
        passed += 1
    else:
        failed.append(name)
    print(f"{'ok  ' if ok else 'FAIL'} {name} {what}", flush=True)


server, url = serve(exe, model, "--alias", "m", "--context", "256", "--max-sequences", "16", "--max-queue", "600", "--prefault", "--pack", "load")
port = int(url.rsplit(":", 1)[1])


def metrics():
    text = urllib.request.urlopen(url + "/metrics").read().decode()
    rows = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {name.replace('model="m"', "").replace("{}", "").replace("{,", "{"): float(value) for name, value in rows}


def anonymous():
    with open(f"/proc/{server.pid}/status") as f:
        return int(next(line for line in f if line.startswith("RssAnon")).split()[1]) * 1024


def body(i, stream):
    return {"model": "m", "prompt": [1 + (i * 7 + k) % 100 for k in range(5 + i * 9)], "max_tokens": 12 + i, "temperature": 0.8, "seed": i,
            "ignore_eos": True, "stream": stream}


def http(data):
    text = json.dumps(data).encode()
    return b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(text) + text


async def answer(data):
    """(status, text) of a request read to its end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(http(data))
    raw = await reader.read()
    writer.close()
    head, _, rest = raw.partition(b"\r\n\r\n")
    status = int(head.split()[1]) if head else 0
    if status != 200:
        return status, ""
    if not data["stream"]:
        return status, json.loads(rest)["choices"][0]["text"]
    parts = [json.loads(line[6:]) for line in rest.split(b"\n") if line.startswith(b"data: {")]
    return status, "".join(p["choices"][0]["text"] for p in parts if p["choices"])


async def bad(rng, i):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    data = http(body(i, True))
    kind = rng.randrange(5)
    try:
        if kind == 0:  # leaves in the stream, or before it
            writer.write(data)
            await asyncio.sleep(rng.random() * 0.05)
        elif kind == 1:  # half a request
            writer.write(data[: rng.randrange(len(data))])
            await writer.drain()
        elif kind == 2:  # no HTTP
            writer.write(rng.randbytes(rng.randrange(1, 4000)))
            await asyncio.wait_for(reader.read(), 20)
        elif kind == 3:  # a field that is none
            writer.write(http({**body(i, False), "frobnicate": rng.random()}))
            await asyncio.wait_for(reader.read(), 60)
        else:  # reads some, stalls, leaves
            writer.write(data)
            await asyncio.wait_for(reader.read(rng.randrange(1, 2000)), 60)
            await asyncio.sleep(rng.random() * 0.1)
    except (ConnectionError, asyncio.TimeoutError):
        pass
    if rng.random() < 0.5:
        writer.transport.abort()
    else:
        writer.close()


async def worker(rng, count, want, tally):
    for _ in range(count):
        i = rng.randrange(len(want))
        try:
            if rng.random() < 0.5:
                await bad(rng, i)
                tally["bad"] += 1
                continue
            status, text = await answer(body(i, rng.random() < 0.5))
            tally["whole" if status == 200 and text == want[i] else f"status {status}" if status != 200 else "wrong"] += 1
        except (ConnectionError, OSError) as e:
            tally[f"{type(e).__name__}"] += 1


async def settle():
    for _ in range(600):
        m = metrics()
        if m["tenon_requests_running"] + m["tenon_requests_waiting"] == 0:
            return m
        await asyncio.sleep(0.05)
    return metrics()


async def main():
    from collections import Counter
    want = [(await answer(body(i, False)))[1] for i in range(16)]
    tally, start = Counter(), time.time()
    workers = 64
    await asyncio.gather(*[worker(random.Random(w), requests // workers, want, tally) for w in range(workers)])
    m = await settle()
    what = f"({dict(tally)}, {time.time() - start:.0f} s)"
    check("every answer is the quiet server's", tally["wrong"] == 0 and tally["whole"] > requests / 4 and set(tally) <= {"bad", "whole", "status 429"}, what)
    check("no block is left", m["tenon_kv_blocks_used"] == 0, f"(cached {m['tenon_kv_blocks_cached']:.0f} of {m['tenon_kv_blocks_total']:.0f})")
    plan = m['tenon_memory_bytes{category="total",kind="planned"}']
    check("memory within the plan", sanitized or anonymous() <= plan, f"({anonymous() / 2**20:.1f} of {plan / 2**20:.1f} MiB)")

    results = await asyncio.gather(*[answer(body(i % 16, True)) for i in range(streams)], return_exceptions=True)
    check(f"{streams} streams at once", all(r == (200, want[i % 16]) for i, r in enumerate(results)), str([r for i, r in enumerate(results) if r != (200, want[i % 16])][:2]))

    before = anonymous()
    held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(idle)]
    for _, w in held:
        w.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    for r, _ in held:
        await r.readuntil(b"\r\n\r\n")
    grown = anonymous() - before
    check(f"{idle} idle connections take less than 20 MB", sanitized or grown < 20e6, f"({grown / 1e6:.1f} MB)")
    for _, w in held:
        w.close()


asyncio.run(main())
server.terminate()
check("the server ends", server.wait(60) == 0)
print(f"{passed} passed, {len(failed)} failed")
sys.exit(bool(failed))
