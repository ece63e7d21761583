// The chat page: conversation in localStorage, answers streamed from /v1/chat/completions; a second tab draws /metrics.
"use strict";

const $ = (id) => document.getElementById(id);
const make = (tag, className, text) => {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
};

// ---- Markdown: built as nodes, never as HTML text, so that nothing a model writes is markup.

const KEYWORDS = new Set(("abstract and as async await auto bool break case catch char class const constexpr continue " +
  "def default del delete do double elif else enum except export extends false finally float fn for from func function " +
  "go if impl import in int interface is lambda let long loop match mod module mut namespace new nil none not null " +
  "None or override package pass private protected pub public raise return self short sizeof static string struct " +
  "super switch template this throw trait True False true try type typename typeof union unsigned use using var virtual " +
  "void volatile where while with yield SELECT FROM WHERE INSERT UPDATE DELETE JOIN GROUP ORDER BY").split(" "));

function highlight(code) {
  const out = document.createDocumentFragment();
  const rule = /(\/\/[^\n]*|#[^\n]*|--[^\n]*|\/\*[\s\S]*?\*\/)|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)|(\b\d[\w.]*\b)|([A-Za-z_]\w*)/g;
  let at = 0;
  for (const m of code.matchAll(rule)) {
    const kind = m[1] ? "com" : m[2] ? "str" : m[3] ? "num" : KEYWORDS.has(m[4]) ? "key" : "";
    if (!kind) continue;
    out.append(code.slice(at, m.index), make("span", kind, m[0]));
    at = m.index + m[0].length;
  }
  out.append(code.slice(at));
  return out;
}

function inline(text, into) {
  const rule = /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*|\[([^\]]+)\]\((https?:\/\/[^\s)]+)\)/g;
  let at = 0;
  for (const m of text.matchAll(rule)) {
    into.append(text.slice(at, m.index));
    if (m[1] !== undefined) into.append(make("code", "", m[1]));
    else if (m[2] !== undefined) inline(m[2], into.appendChild(make("strong")));
    else if (m[3] !== undefined) inline(m[3], into.appendChild(make("em")));
    else {
      const a = make("a", "", m[4]);
      a.href = m[5];
      a.rel = "noreferrer noopener";
      a.target = "_blank";
      into.append(a);
    }
    at = m.index + m[0].length;
  }
  into.append(text.slice(at));
}

function codeBlock(lines) {
  const pre = make("pre"), code = pre.appendChild(make("code")), copy = pre.appendChild(make("button", "copy", "Copy"));
  const text = lines.join("\n");
  code.append(highlight(text));
  copy.onclick = () => navigator.clipboard.writeText(text);
  return pre;
}

function markdown(text) {
  const out = document.createDocumentFragment(), lines = text.split("\n");
  const list = /^(\s*)([-*+]|\d+[.)])\s+(.*)$/;
  for (let i = 0; i < lines.length;) {
    const line = lines[i];
    let m;
    if ((m = line.match(/^\s*```/))) {
      const body = [];
      for (++i; i < lines.length && !/^\s*```\s*$/.test(lines[i]); ++i) body.push(lines[i]);
      ++i;
      out.append(codeBlock(body));
    } else if ((m = line.match(/^(#{1,6})\s+(.*)$/))) {
      inline(m[2], out.appendChild(make("h" + Math.min(6, m[1].length + 1))));
      ++i;
    } else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
      out.append(make("hr"));
      ++i;
    } else if (list.test(line)) {
      const ordered = /^\s*\d/.test(line), box = out.appendChild(make(ordered ? "ol" : "ul"));
      if (ordered) box.start = parseInt(line.trim(), 10);
      for (; i < lines.length && (m = lines[i].match(list)); ++i) {
        const item = box.appendChild(make("li"));
        item.style.marginLeft = m[1].length * 0.5 + "em";
        inline(m[3], item);
      }
    } else if (/^>\s?/.test(line)) {
      const quote = [];
      for (; i < lines.length && /^>\s?/.test(lines[i]); ++i) quote.push(lines[i].replace(/^>\s?/, ""));
      out.appendChild(make("blockquote")).append(markdown(quote.join("\n")));
    } else if (line.includes("|") && /^\s*\|?\s*:?-+/.test(lines[i + 1] || "") && lines[i + 1].includes("|")) {
      const table = out.appendChild(make("table"));
      const row = (text, tag) => {
        const tr = table.appendChild(make("tr"));
        for (const cell of text.trim().replace(/^\||\|$/g, "").split("|")) inline(cell.trim(), tr.appendChild(make(tag)));
      };
      row(line, "th");
      for (i += 2; i < lines.length && lines[i].includes("|"); ++i) row(lines[i], "td");
    } else if (line.trim() === "") {
      ++i;
    } else {
      const words = [];
      for (; i < lines.length && lines[i].trim() !== "" && !/^\s*```|^#{1,6}\s|^>\s?/.test(lines[i]) && !list.test(lines[i]); ++i)
        words.push(lines[i]);
      inline(words.join("\n"), out.appendChild(make("p")));
    }
  }
  return out;
}

// ---- Conversation

const SETTINGS = ["system", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_tokens", "seed", "key"];
let messages = JSON.parse(localStorage.getItem("tenon.messages") || "[]");
let running = null;  // AbortController of the answer under way

function save() {
  const store = (list) => localStorage.setItem("tenon.messages", JSON.stringify(list));
  try {
    store(messages);
  } catch (e) {  // the browser's room is used up: the words stay, the pictures do not
    try {
      store(messages.map(({ images, ...rest }) => rest));
    } catch (e) { /* a conversation beyond that room is kept while the page is open */ }
  }
}
addEventListener("pagehide", save);

function headers() {
  const h = { "Content-Type": "application/json" };
  if ($("key").value) h.Authorization = "Bearer " + $("key").value;
  return h;
}

function picture(url) {
  const image = make("img");
  image.src = url;
  image.alt = "an image of this conversation";
  return image;
}

// What the model thought, folded, and what it said.
function fill(box, message) {
  const body = box.querySelector(".bubble");
  body.replaceChildren(markdown(message.content));
  if (!message.reasoning) return;
  let thoughts = box.querySelector(".thoughts");
  if (!thoughts) {
    thoughts = make("details", "thoughts");
    thoughts.append(make("summary", "", "Reasoning"), make("div"));
    thoughts.open = !message.content;
    box.insertBefore(thoughts, body);
  }
  thoughts.lastChild.textContent = message.reasoning;
}

function bubble(message, index) {
  const box = make("div", "message " + message.role), body = box.appendChild(make("div", "bubble"));
  if (message.role === "user") {
    for (const url of message.images || []) body.append(picture(url));
    body.append(message.content);
  } else {
    fill(box, message);
  }
  if (message.error) body.append(make("p", "error", message.error));
  const tools = box.appendChild(make("div", "tools"));
  const tool = (name, action) => {
    const b = tools.appendChild(make("button", "", name));
    b.onclick = action;
  };
  if (message.note) tools.append(make("span", "", message.note));
  if (!running) {
    if (message.role === "user") {
      tool("Edit", () => {
        $("input").value = message.content;
        attach(message.images || []);
        messages = messages.slice(0, index);
        save();
        draw();
        $("input").focus();
      });
    } else {
      tool("Regenerate", () => {
        messages = messages.slice(0, index);
        answer();
      });
      tool("Copy", () => navigator.clipboard.writeText(message.content));
    }
  }
  return box;
}

function draw() {
  const list = $("messages");
  list.replaceChildren(...messages.map(bubble));
  if (!messages.length) list.append(make("p", "empty", "Ask something."));
  list.scrollTop = list.scrollHeight;
  $("stop").hidden = !running;
  $("send").hidden = !!running;
}

function request() {
  const body = { model: $("model").value, stream: true, stream_options: { include_usage: true }, messages: [] };
  if ($("system").value) body.messages.push({ role: "system", content: $("system").value });
  for (const m of messages) {
    if (m.role === "assistant" && !m.content) continue;  // an answer that failed
    const parts = (m.images || []).map((url) => ({ type: "image_url", image_url: { url } }));
    body.messages.push({ role: m.role, content: parts.length ? [...parts, { type: "text", text: m.content }] : m.content });
  }
  for (const name of SETTINGS)
    if (!["system", "key"].includes(name) && $(name).value !== "") body[name] = Number($(name).value);
  return body;
}

async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const p of parts)
      if (p.startsWith("data: ") && p !== "data: [DONE]") yield JSON.parse(p.slice(6));
  }
}

async function answer() {
  const body = request(), reply = { role: "assistant", content: "" };
  messages.push(reply);
  running = new AbortController();
  draw();
  const box = $("messages").lastChild;
  const started = performance.now();
  let first = 0, pending = false;
  const show = () => {
    pending = false;
    const list = $("messages"), low = list.scrollHeight - list.scrollTop - list.clientHeight < 80;
    fill(box, reply);
    if (low) list.scrollTop = list.scrollHeight;
  };
  try {
    const response = await fetch("v1/chat/completions",
      { method: "POST", headers: headers(), body: JSON.stringify(body), signal: running.signal });
    if (!response.ok) throw new Error((await response.json()).error.message);
    for await (const e of events(response)) {
      if (e.error) throw new Error(e.error.message);
      const delta = e.choices.length ? e.choices[0].delta : {};
      if (delta.content || delta.reasoning_content) {
        first = first || performance.now();
        reply.content += delta.content || "";
        if (delta.reasoning_content) reply.reasoning = (reply.reasoning || "") + delta.reasoning_content;
        if (!pending) pending = !!requestAnimationFrame(show);
      }
      if (e.usage) {
        const n = e.usage.completion_tokens, s = (performance.now() - first) / 1000;
        reply.note = `${n} tokens` +
          (first ? `, ${(n / Math.max(s, 1e-3)).toFixed(1)}/s, first after ${Math.round(first - started)} ms` : "") +
          (e.usage.prompt_tokens_details.cached_tokens ? `, ${e.usage.prompt_tokens_details.cached_tokens} prompt tokens cached` : "");
      }
    }
  } catch (e) {
    if (e.name !== "AbortError") reply.error = e.message;
    else reply.note = "stopped";
  }
  running = null;
  save();
  draw();
}

$("form").onsubmit = (e) => {
  e.preventDefault();
  const text = $("input").value.trim();
  if ((!text && !images.length) || running) return;
  messages.push({ role: "user", content: text, ...(images.length ? { images } : {}) });
  $("input").value = "";
  attach([]);
  fit();
  save();
  answer();
};
function fit() {
  $("input").style.height = "auto";
  $("input").style.height = $("input").scrollHeight + 2 + "px";
}
$("input").oninput = fit;
$("input").onkeydown = (e) => {
  if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
    e.preventDefault();
    $("form").requestSubmit();
  }
};
$("stop").onclick = () => running && running.abort();
$("new-chat").onclick = () => {
  if (running) running.abort();
  messages = [];
  save();
  draw();
};
$("open-settings").onclick = () => { $("settings").hidden = !$("settings").hidden; };

// ---- Images, where the model takes them

let images = [];  // data URLs for the next message
const kLongestSide = 1568;
let known = [];  // models

function attach(list) {
  images = list;
  $("images").hidden = !list.length;
  $("images").replaceChildren(...list.map((url, i) => {
    const remove = make("button");
    remove.type = "button";
    remove.title = "Remove this image";
    remove.append(picture(url));
    remove.onclick = () => attach(images.filter((_, k) => k !== i));
    return remove;
  }));
}

// As a JPEG of at most kLongestSide pixels a side: what is larger is made smaller by every model anyway.
async function readImage(file) {
  const bitmap = await createImageBitmap(file), scale = Math.min(1, kLongestSide / Math.max(bitmap.width, bitmap.height));
  const canvas = make("canvas");
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  const c = canvas.getContext("2d");
  c.fillStyle = "#fff";
  c.fillRect(0, 0, canvas.width, canvas.height);
  c.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/jpeg", 0.92);
}
const takesImages = () => known.some((m) => m.id === $("model").value && (m.input_modalities || []).includes("image"));
async function addFiles(files) {
  for (const file of files)
    if (file.type.startsWith("image/"))
      try {
        attach([...images, await readImage(file)]);
      } catch (e) { alert(`${file.name} is no image that this browser reads`); }
}
$("attach").onclick = () => $("file").click();
$("file").onchange = async () => {
  await addFiles($("file").files);
  $("file").value = "";
};
addEventListener("paste", (e) => {
  if (takesImages() && e.clipboardData.files.length) addFiles(e.clipboardData.files);
});
function modelChosen() {
  $("attach").hidden = !takesImages();
  if (!takesImages()) attach([]);
}

async function models() {
  try {
    const response = await fetch("v1/models", { headers: headers() });
    if (!response.ok) return;
    known = (await response.json()).data;
    $("model").replaceChildren(...known.map((m) => new Option(m.id, m.id)));
    const last = localStorage.getItem("tenon.model");
    if (known.some((m) => m.id === last)) $("model").value = last;
    modelChosen();
  } catch (e) { /* the server is gone: the next message says so */ }
}
$("model").onchange = () => {
  localStorage.setItem("tenon.model", $("model").value);
  modelChosen();
};
for (const name of SETTINGS) {
  const store = name === "key" ? sessionStorage : localStorage;
  $(name).value = store.getItem("tenon." + name) || "";
  $(name).onchange = () => {
    store.setItem("tenon." + name, $(name).value);
    if (name === "key") models();
  };
}

// ---- Load: /metrics every second, rates and quantiles of the last minutes.

const COLOURS = ["#1f6feb", "#d9730d", "#2da44e", "#a0288a"];
const history = [];

function parse(text) {
  const sums = {}, buckets = {};
  for (const line of text.split("\n")) {
    const m = line.match(/^(\w+)(\{[^}]*\})? (\S+)$/);
    if (!m) continue;
    const labels = m[2] || "", value = Number(m[3]);
    const le = labels.match(/le="([^"]+)"/);
    if (le) {
      const b = buckets[m[1]] = buckets[m[1]] || {};
      b[le[1]] = (b[le[1]] || 0) + value;
    } else if (m[1] === "tenon_memory_bytes") {
      const category = labels.match(/category="(\w+)"/)[1], kind = labels.match(/kind="(\w+)"/)[1];
      sums[`memory.${category}.${kind}`] = value;
    } else {
      sums[m[1]] = (sums[m[1]] || 0) + value;
    }
  }
  return { time: performance.now() / 1000, sums, buckets };
}

// The quantile of what fell into the buckets between two samples, linear inside a bucket.
function quantile(a, b, name, q) {
  const now = b.buckets[name + "_bucket"] || {}, then = a.buckets[name + "_bucket"] || {};
  const bounds = Object.keys(now).sort((x, y) => (x === "+Inf") - (y === "+Inf") || x - y);
  const total = bounds.length ? now["+Inf"] - (then["+Inf"] || 0) : 0;
  if (!total) return null;
  let low = 0, before = 0;
  for (const bound of bounds) {
    const count = now[bound] - (then[bound] || 0);
    if (count >= q * total) {
      const high = bound === "+Inf" ? low * 2 : Number(bound);
      return low + (high - low) * (q * total - before) / Math.max(1, count - before);
    }
    low = Number(bound);
    before = count;
  }
  return low;
}

const rate = (name) => (a, b) => ((b.sums[name] || 0) - (a.sums[name] || 0)) / Math.max(1e-3, b.time - a.time);
const level = (name, scale = 1) => (a, b) => (b.sums[name] || 0) * scale;
const time = (name, q) => (a, b) => { const v = quantile(a, b, name, q); return v === null ? null : v * 1000; };
const CHARTS = [
  { title: "Requests", lines: [["running", level("tenon_requests_running")], ["waiting", level("tenon_requests_waiting")]] },
  { title: "Tokens per second", lines: [["generated", rate("tenon_generation_tokens_total")], ["prompt", rate("tenon_prompt_tokens_total")]] },
  { title: "Time to first token, ms", lines: [["p50", time("tenon_time_to_first_token_seconds", 0.5)], ["p99", time("tenon_time_to_first_token_seconds", 0.99)]] },
  { title: "Between tokens, ms", lines: [["p50", time("tenon_inter_token_seconds", 0.5)], ["p99", time("tenon_inter_token_seconds", 0.99)]] },
  { title: "KV blocks", lines: [["used", level("tenon_kv_blocks_used")], ["cached", level("tenon_kv_blocks_cached")]] },
  { title: "Memory, MiB", lines: [["measured", level("memory.total.measured", 1 / 1048576)], ["planned", level("memory.total.planned", 1 / 1048576)]] },
];

function chart(spec) {
  const box = $("charts").appendChild(make("div", "chart"));
  box.append(make("h2", "", spec.title));
  spec.canvas = box.appendChild(make("canvas"));
  const legend = box.appendChild(make("div", "legend"));
  spec.values = spec.lines.map(([name], i) => {
    const entry = legend.appendChild(make("span")), mark = entry.appendChild(make("i"));
    mark.style.background = COLOURS[i];
    entry.append(name + " ");
    return entry.appendChild(make("b"));
  });
}
CHARTS.forEach(chart);

function short(v) {
  return v === null || v === undefined ? "–" : v >= 1e6 ? (v / 1e6).toFixed(1) + "M" : v >= 1e4 ? (v / 1e3).toFixed(1) + "k" : v >= 100 ? v.toFixed(0) : v.toFixed(1).replace(/\.0$/, "");
}

function plot(spec) {
  const canvas = spec.canvas, dots = devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
  canvas.width = w * dots;
  canvas.height = h * dots;
  const c = canvas.getContext("2d");
  c.scale(dots, dots);
  const series = spec.lines.map(([, f]) => history.slice(1).map((b, i) => f(history[Math.max(0, i - 4)], b)));
  const top = (Math.max(0, ...series.flat().filter((v) => v !== null)) || 1) * 1.1;
  const style = getComputedStyle(document.body);
  c.strokeStyle = style.getPropertyValue("--line");
  c.fillStyle = style.getPropertyValue("--dim");
  c.font = "11px system-ui";
  for (const part of [0, 0.5, 1]) {
    const y = h - 4 - part * (h - 18);
    c.beginPath();
    c.moveTo(0, y);
    c.lineTo(w, y);
    c.stroke();
    c.fillText(short(top * part), 2, y - 3);
  }
  series.forEach((values, i) => {
    c.strokeStyle = COLOURS[i];
    c.lineWidth = 2;
    c.beginPath();
    let open = false;
    values.forEach((v, k) => {
      if (v === null) { open = false; return; }
      const x = w - (values.length - 1 - k) * (w / 180), y = h - 4 - v / top * (h - 18);
      open ? c.lineTo(x, y) : c.moveTo(x, y);
      open = true;
    });
    c.stroke();
    spec.values[i].textContent = short(values.length ? values[values.length - 1] : null);
  });
}

function figures() {
  const s = history[history.length - 1].sums, read = s.tenon_prompt_tokens_total || 0;
  const rows = [
    ["tokens generated", short(s.tenon_generation_tokens_total || 0)],
    ["prompt tokens", short(read)],
    ["of them cached", read ? Math.round(100 * s.tenon_prompt_tokens_cached_total / read) + " %" : "–"],
    ["requests", short(s.tenon_requests_total || 0)],
    ["preemptions", short(s.tenon_preemptions_total || 0)],
    ["KV in use", s.tenon_kv_blocks_total ? (100 * s.tenon_kv_blocks_used / s.tenon_kv_blocks_total).toFixed(1) + " %" : "–"],
    ["host time of steps", s.tenon_step_seconds_total ? (100 * s.tenon_step_host_seconds_total / s.tenon_step_seconds_total).toFixed(2) + " %" : "–"],
  ];
  $("figures").replaceChildren(...rows.map(([name, value]) => {
    const f = make("div", "figure");
    f.append(make("b", "", value), make("span", "", name));
    return f;
  }));
}

async function poll() {
  if ($("load").hidden || document.hidden) return;
  try {
    history.push(parse(await (await fetch("metrics")).text()));
    if (history.length > 181) history.shift();
    figures();
    CHARTS.forEach(plot);
  } catch (e) { /* the next second may work */ }
}
setInterval(poll, 1000);

function tab(name) {
  for (const t of ["chat", "load"]) {
    $(t).hidden = t !== name;
    $("tab-" + t).classList.toggle("on", t === name);
  }
  poll();
}
$("tab-chat").onclick = () => tab("chat");
$("tab-load").onclick = () => tab("load");

models();
draw();
