#!/usr/bin/env python3
"""The server's page in headless Chromium: page.py TENON MODEL.gguf [FOLDER for screenshots]   (PyPI: playwright; Debian: chromium)

First against the server itself; then against a double in front of it, whose answers are scripted: Markdown, markup that must not work,
reasoning, slow streams, a model that takes images. Ends with "N passed, N failed"."""
import base64, http.server, json, os, sys, threading, time, urllib.request

from playwright.sync_api import sync_playwright

from serving import serve

exe, model = sys.argv[1], sys.argv[2]
pictures = sys.argv[3] if len(sys.argv) > 3 else None
passed, failed = 0, []


def check(name, ok):
    global passed
    if ok:
        passed += 1
    else:
        failed.append(name)
        print(f"FAIL {name}", flush=True)


MARKDOWN = """# Title

A **bold** word, `code`, and [a link](https://example.org).

- one
- two

| a | b |
|---|---|
| 1 | 2 |

```python
def f(x):  # twice
    return "<b>" + x
```

<img src=x onerror="window.broken = 1"><script>window.broken = 1</script> [bad](javascript:window.broken=1)
"""
PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
asked = []  # bodies of requests for answers


class Double(http.server.BaseHTTPRequestHandler):
    """Everything is the server's, but for answers and what its models take."""

    def log_message(self, *a):
        pass

    def do_GET(self):
        with urllib.request.urlopen(url + self.path) as r:
            body, kind = r.read(), r.headers["Content-Type"]
        if self.path == "/v1/models":
            models = json.loads(body)
            models["data"].append({**models["data"][0], "id": "sees", "input_modalities": ["text", "image"]})
            body = json.dumps(models).encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked.append(body)
        content = body["messages"][-1]["content"]
        text = content if isinstance(content, str) else content[-1]["text"]
        if text == "refuse":
            self.send_response(400)
            message = json.dumps({"error": {"message": "no such thing"}}).encode()
            self.send_header("Content-Length", str(len(message)))
            self.end_headers()
            self.wfile.write(message)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            if text == "think":
                self.delta(reasoning_content="I wonder. ")
                time.sleep(0.3)
                self.delta(content="So it is.")
            elif text == "markdown":
                for i in range(0, len(MARKDOWN), 7):
                    self.delta(content=MARKDOWN[i : i + 7])
            elif text == "break":
                self.delta(content="half")
                self.event({"error": {"message": "it broke"}})
            elif text == "slow":
                for i in range(200):
                    self.delta(content=f"word{i} ")
                    time.sleep(0.05)
            else:
                self.delta(content=f"You said {text!r}.")
            self.event({"choices": [], "usage": {"completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 0}}})
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            Double.cut = text

    def delta(self, **d):
        self.event({"choices": [{"delta": d}]})

    def event(self, e):
        self.wfile.write(b"data: " + json.dumps(e).encode() + b"\n\n")
        self.wfile.flush()


def say(page, text):
    page.fill("#input", text)
    page.press("#input", "Enter")


def done(page):
    page.wait_for_selector("#send:not([hidden])", timeout=20000)


def shot(page, name):
    if pictures:
        os.makedirs(pictures, exist_ok=True)
        page.screenshot(path=f"{pictures}/{name}.png")


def last(page):
    return page.locator(".message.assistant .bubble").last.inner_text()


def with_server(page, url):
    page.goto(url)
    page.wait_for_selector("#model option", state="attached")
    check("the model's name is in the picker", page.locator("#model option").all_inner_texts() == ["small"])
    page.click("#open-settings")
    page.fill("#max_tokens", "12")
    page.fill("#seed", "5")
    page.fill("#system", "Be brief.")
    shot(page, "settings")
    page.click("#open-settings")
    say(page, "The harbour at")
    done(page)
    first = last(page)
    note = page.locator(".message.assistant .tools span").inner_text()
    check("an answer and its figures", note.startswith("12 tokens, ") and len(first) > 0)
    page.click(".message.assistant button:text('Regenerate')")
    done(page)
    check("the same seed, the same answer", last(page) == first and page.locator(".message").count() == 2)
    page.reload()
    check("the conversation is kept", page.locator(".message").count() == 2 and last(page) == first)
    check("settings are kept", page.input_value("#seed") == "5" and page.input_value("#system") == "Be brief.")
    page.click(".message.user button:text('Edit')")
    check("an edited question takes the place of the old one", page.input_value("#input") == "The harbour at" and page.locator(".message").count() == 0)
    say(page, "She wrote down")
    done(page)
    check("another question, another answer", page.locator(".message").count() == 2 and "She wrote down" in page.locator(".user .bubble").inner_text())
    page.click("#tab-load")
    for _ in range(3):
        say_direct(url)
        page.wait_for_timeout(1100)
    check("charts are drawn", page.locator(".chart canvas").count() == 6 and page.evaluate("""() => [...document.querySelectorAll('canvas')].every(
        (c) => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((v) => v))"""))
    names = page.locator(".figure span").all_inner_texts()
    values = dict(zip(names, page.locator(".figure b").all_inner_texts()))
    check(f"figures count what was served: {values}", int(values["tokens generated"]) >= 36 + 30 and int(values["requests"]) >= 6)
    planned = page.locator(".chart:has-text('Memory') .legend b").all_inner_texts()
    check(f"memory, measured and planned: {planned}", all(float(v) > 1 for v in planned))
    shot(page, "load")
    page.click("#tab-chat")
    page.click("#new-chat")
    page.click("#open-settings")
    page.fill("#top_p", "7")
    page.click("#open-settings")
    say(page, "x")
    done(page)
    check("what the server refuses is said", "top_p" in page.locator(".error").inner_text())


def say_direct(url):
    body = json.dumps({"prompt": "The", "max_tokens": 10, "ignore_eos": True}).encode()
    urllib.request.urlopen(urllib.request.Request(url + "/v1/completions", body, {"Content-Type": "application/json"})).read()


def with_double(page, url):
    page.goto(url)
    page.wait_for_selector("#model option", state="attached")
    say(page, "markdown")
    done(page)
    bubble = page.locator(".assistant .bubble")
    html = bubble.inner_html()
    check("headings, lists, tables, emphasis", all(f"<{t}" in html for t in ("h2", "ul", "li", "table", "th", "td", "strong", "code")))
    check("highlighted code", bubble.locator("pre .key").all_inner_texts() == ["def", "return"] and bubble.locator("pre .str").inner_text() == '"<b>"')
    check("links to the web alone", bubble.locator("a").evaluate_all("(all) => all.map((a) => a.href)") == ["https://example.org/"])
    check("what a model writes is no markup", page.evaluate("window.broken") is None and "<img src=x" in bubble.inner_text() and bubble.locator("img, script").count() == 0)
    shot(page, "markdown")

    say(page, "slow")
    page.wait_for_function("document.querySelector('#messages').innerText.includes('word2')")
    check("the answer streams", page.is_visible("#stop") and "word150" not in last(page))
    page.click("#stop")
    done(page)
    check("stopped where it was", "word" in last(page) and "word150" not in last(page) and page.locator(".assistant .tools span").last.inner_text() == "stopped")
    for _ in range(40):
        if getattr(Double, "cut", None):
            break
        time.sleep(0.1)
    check("the server sees the connection close", getattr(Double, "cut", None) == "slow")

    say(page, "slow")
    page.wait_for_function("[...document.querySelectorAll('.assistant .bubble')].pop().innerText.includes('word2')")
    page.reload()
    check("a reload keeps what was said so far", "word2" in last(page))

    say(page, "think")
    done(page)
    thoughts = page.locator(".thoughts").last
    check("reasoning is folded above the answer", "I wonder." in thoughts.text_content() and last(page) == "So it is." and not thoughts.evaluate("(e) => e.open"))
    check("reasoning is not sent back", "wonder" not in json.dumps(asked))
    say(page, "break")
    done(page)
    check("an error in the middle of a stream", "half" in last(page) and "it broke" in last(page))
    say(page, "refuse")
    done(page)
    say(page, "again")
    done(page)
    check("an answer that failed is not sent back", all(m["content"] for m in asked[-1]["messages"]))

    page.click("#new-chat")
    check("no images for a model of text", page.is_hidden("#attach"))
    page.select_option("#model", "sees")
    check("images for a model that sees", page.is_visible("#attach"))
    page.set_input_files("#file", {"name": "dot.png", "mimeType": "image/png", "buffer": PIXEL})
    page.wait_for_selector("#images img")
    say(page, "what is this?")
    done(page)
    parts = asked[-1]["messages"][-1]["content"]
    check(f"the image goes along: {str(parts)[:120]}", asked[-1]["model"] == "sees" and [p["type"] for p in parts] == ["image_url", "text"]
          and base64.b64decode(parts[0]["image_url"]["url"].removeprefix("data:image/jpeg;base64,"))[:3] == b"\xff\xd8\xff")
    check("and stays in the conversation", page.locator(".user .bubble img").count() == 1 and page.is_hidden("#images"))
    page.reload()
    check("also when the page is loaded again", page.locator(".user .bubble img").count() == 1)


def on_a_phone(browser, url, dark):
    context = browser.new_context(viewport={"width": 375, "height": 667}, has_touch=True, is_mobile=True, device_scale_factor=2,
                                  color_scheme="dark" if dark else "light")
    page = context.new_page()
    page.goto(url)
    say(page, "markdown")
    done(page)
    check("no sideways scrolling", page.evaluate("document.documentElement.scrollWidth <= innerWidth"))
    check("the field for a message is in view", page.evaluate("document.querySelector('#form').getBoundingClientRect().bottom <= innerHeight"))
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    check(f"{'dark' if dark else 'light'}: {colour}", (sum(map(int, colour[4:-1].split(","))) < 200) == dark)
    shot(page, "phone-dark" if dark else "phone")
    page.click("#tab-load")
    page.wait_for_timeout(1200)
    check("charts fit", page.evaluate("document.documentElement.scrollWidth <= innerWidth"))
    shot(page, "phone-load-dark" if dark else "phone-load")
    context.close()


server, url = serve(exe, model, "--alias", "small")
double = None
try:
    threading.Thread(target=server.stderr.read, daemon=True).start()
    double = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Double)
    threading.Thread(target=double.serve_forever, daemon=True).start()
    front = f"http://127.0.0.1:{double.server_port}/"
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for test, where in ((with_server, url), (with_double, front)):
            page = browser.new_page()
            problems, foreign = [], []
            page.on("pageerror", lambda e: problems.append(str(e)))
            page.on("request", lambda r: foreign.append(r.url) if not r.url.startswith((url, front, "data:", "blob:")) else None)
            test(page, where)
            check(f"no errors in the page: {problems}", not problems)
            check(f"nothing is fetched from elsewhere: {foreign}", not foreign)
        for dark in (False, True):
            on_a_phone(browser, front, dark)
        browser.close()
finally:
    if double:
        double.shutdown()
    server.terminate()
    server.wait(20)
print(f"{passed} passed, {len(failed)} failed")
sys.exit(1 if failed else 0)
