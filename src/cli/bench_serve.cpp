// tenon bench serve: a server under load, closed or open loop; also other servers that speak OpenAI's API.
#include "cli/bench_serve.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <mutex>
#include <random>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/process.h"

namespace tenon::cli {
namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

struct Options {
  std::string url, model, key, html;
  int64_t concurrency = 8, requests = 64, prompt_words = 100, max_tokens = 64, shared_words = 0;
  double rate = 0;  // requests per second; 0: closed loop
  double ttft_limit_ms = 1000, itl_limit_ms = 100;
  uint64_t seed = 1;
  bool json = false;
};

struct Address {
  std::string host, port, path;
};

Address parse_url(std::string url) {
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme))
    fail(ErrorCode::invalid_argument, "'{}': write http://HOST:PORT (https takes a proxy)", printable(url));
  url.erase(0, kScheme.size());
  Address a;
  size_t slash = url.find('/');
  if (slash != std::string::npos) a.path = url.substr(slash);
  url = url.substr(0, slash);
  while (a.path.ends_with('/')) a.path.pop_back();
  if (a.path.ends_with("/v1")) a.path.resize(a.path.size() - 3);
  size_t colon = url.rfind(':');
  a.host = url.substr(0, colon);
  a.port = colon == std::string::npos ? "80" : url.substr(colon + 1);
  return a;
}

// A connection that reads an answer piece by piece.
class Connection {
 public:
  explicit Connection(const Address& a) {
    addrinfo hints{}, *list = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(a.host.c_str(), a.port.c_str(), &hints, &list) != 0) return;
    for (addrinfo* i = list; i && fd_ < 0; i = i->ai_next) {
      fd_ = socket(i->ai_family, i->ai_socktype, i->ai_protocol);
      if (fd_ >= 0 && connect(fd_, i->ai_addr, i->ai_addrlen) != 0) close(std::exchange(fd_, -1));
    }
    freeaddrinfo(list);
  }
  ~Connection() {
    if (fd_ >= 0) close(fd_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool send(std::string_view data) {
    while (fd_ >= 0 && !data.empty()) {
      ssize_t n = ::send(fd_, data.data(), data.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      data.remove_prefix(static_cast<size_t>(n));
    }
    return fd_ >= 0;
  }
  // The next line without its end; false: the connection ended.
  bool line(std::string& out) {
    for (size_t end; (end = got_.find('\n', at_)) == std::string::npos;) {
      got_.erase(0, std::exchange(at_, 0));
      char piece[16384];
      ssize_t n = fd_ < 0 ? -1 : recv(fd_, piece, sizeof piece, 0);
      if (n <= 0) return false;
      got_.append(piece, static_cast<size_t>(n));
    }
    size_t end = got_.find('\n', at_);
    out = got_.substr(at_, end - at_);
    at_ = end + 1;
    if (out.ends_with('\r')) out.pop_back();
    return true;
  }

  std::string rest() { return got_.substr(at_); }  // after line() gave up

 private:
  int fd_ = -1;
  std::string got_;
  size_t at_ = 0;
};

struct Result {
  bool ok = false;
  std::string error;
  double begin = 0, first = 0, end = 0;  // seconds since the run began
  int64_t tokens = 0, prompt_tokens = 0, cached = 0;
  std::vector<double> gaps;  // between pieces, seconds
};

std::string words(int64_t n, std::mt19937_64& rng) {
  static const char* kWords[] = {"river", "stone",  "light", "number", "garden", "engine", "silver", "window",
                                 "story", "market", "paper", "summer", "signal", "forest", "letter", "harbor"};
  std::string out;
  for (int64_t i = 0; i < n; ++i) out += (i ? " " : "") + std::string(kWords[rng() % 16]);
  return out;
}

std::string request_text(const Options& o, const Address& a, int64_t index) {
  std::mt19937_64 shared(o.seed), own(o.seed * 1000003 + static_cast<uint64_t>(index));
  Json messages = Json::array();
  if (o.shared_words > 0) messages.push_back({{"role", "system"}, {"content", words(o.shared_words, shared)}});
  messages.push_back({{"role", "user"}, {"content", words(o.prompt_words, own)}});
  Json body = {{"model", o.model},  {"messages", messages}, {"max_tokens", o.max_tokens},
               {"temperature", 0},  {"stream", true},       {"stream_options", {{"include_usage", true}}},
               {"ignore_eos", true}};
  std::string text = body.dump();
  return fmt::format(
      "POST {}/v1/chat/completions HTTP/1.1\r\nHost: {}:{}\r\nContent-Type: application/json\r\n{}Connection: "
      "close\r\nContent-Length: {}\r\n\r\n{}",
      a.path, a.host, a.port, o.key.empty() ? "" : "Authorization: Bearer " + o.key + "\r\n", text.size(), text);
}

Result run_one(const Options& o, const Address& a, int64_t index, Clock::time_point start) {
  Result r;
  const std::string request = request_text(o, a, index);
  r.begin = since(start);
  Connection c(a);
  std::string line;
  if (!c.send(request) || !c.line(line)) {
    r.error = "no connection";
    return r;
  }
  const bool good = line.size() > 12 && line.substr(9, 3) == "200";
  if (!good) r.error = line;
  double last = 0;
  bool done = false;
  while (c.line(line)) {
    if (!line.starts_with("data: ")) continue;
    if (line == "data: [DONE]") {
      done = true;
      break;
    }
    Json e = Json::parse(line.begin() + 6, line.end(), nullptr, false);
    if (e.is_discarded()) continue;
    const double now = since(start);
    if (auto u = e.find("usage"); u != e.end() && u->is_object()) {
      r.tokens = u->value("completion_tokens", int64_t{0});
      r.prompt_tokens = u->value("prompt_tokens", int64_t{0});
      if (auto d = u->find("prompt_tokens_details"); d != u->end() && d->is_object())
        r.cached = d->value("cached_tokens", int64_t{0});
    }
    auto choices = e.find("choices");
    if (choices == e.end() || choices->empty()) continue;
    if (r.first == 0)
      r.first = now;
    else if (!(*choices)[0].value("finish_reason", Json()).is_string())
      r.gaps.push_back(now - last);
    last = now;
    r.end = now;
  }
  r.ok = good && done && r.first > 0;
  if (!r.ok && r.error.empty()) r.error = "the stream broke off";
  return r;
}

std::vector<Result> run_load(const Options& o, const Address& a, double& wall) {
  std::vector<Result> results(static_cast<size_t>(o.requests));
  std::vector<double> arrivals(results.size(), 0);
  std::mt19937_64 rng(o.seed);
  std::exponential_distribution<double> gap(o.rate > 0 ? o.rate : 1);
  double t = 0;
  for (double& x : arrivals) x = o.rate > 0 ? (t += gap(rng)) : 0;
  std::atomic<size_t> next{0};
  const auto start = Clock::now();
  const size_t threads = o.rate > 0 ? std::min<size_t>(results.size(), 1024) : static_cast<size_t>(o.concurrency);
  std::vector<std::thread> pool;
  for (size_t i = 0; i < threads; ++i)
    pool.emplace_back([&] {
      for (size_t k; (k = next++) < results.size();) {
        std::this_thread::sleep_until(start + std::chrono::duration<double>(arrivals[k]));
        results[k] = run_one(o, a, static_cast<int64_t>(k), start);
      }
    });
  for (auto& p : pool) p.join();
  wall = since(start);
  return results;
}

double percentile(std::vector<double> v, double q) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  return v[std::min(v.size() - 1, static_cast<size_t>(std::ceil(q * static_cast<double>(v.size()))) - (q > 0))];
}

Json spread(const std::vector<double>& seconds) {
  double sum = 0;
  for (double s : seconds) sum += s;
  auto ms = [&](double q) { return percentile(seconds, q) * 1e3; };
  return {{"mean_ms", seconds.empty() ? 0 : sum / static_cast<double>(seconds.size()) * 1e3},
          {"p50_ms", ms(0.5)},
          {"p90_ms", ms(0.9)},
          {"p99_ms", ms(0.99)},
          {"max_ms", ms(1)}};
}

Json summarise(const Options& o, const std::vector<Result>& results, double wall) {
  std::vector<double> ttft, itl, whole;
  int64_t tokens = 0, prompt = 0, cached = 0, failed = 0, good = 0;
  Json errors = Json::object();
  for (const Result& r : results) {
    if (!r.ok) {
      ++failed;
      errors[printable(r.error)] = errors.value(printable(r.error), 0) + 1;
      continue;
    }
    ttft.push_back(r.first - r.begin);
    whole.push_back(r.end - r.begin);
    itl.insert(itl.end(), r.gaps.begin(), r.gaps.end());
    tokens += r.tokens, prompt += r.prompt_tokens, cached += r.cached;
    good += (r.first - r.begin) * 1e3 <= o.ttft_limit_ms && percentile(r.gaps, 0.99) * 1e3 <= o.itl_limit_ms;
  }
  auto per_s = [&](int64_t n) { return static_cast<double>(n) / wall; };
  return {{"requests", results.size()},
          {"failed", failed},
          {"errors", errors},
          {"wall_s", wall},
          {"loop", o.rate > 0 ? "open" : "closed"},
          {"concurrency", o.concurrency},
          {"rate_per_s", o.rate},
          {"output_tokens", tokens},
          {"output_tokens_per_s", per_s(tokens)},
          {"prompt_tokens", prompt},
          {"cached_tokens", cached},
          {"requests_per_s", per_s(static_cast<int64_t>(whole.size()))},
          {"goodput_per_s", per_s(good)},
          {"goodput_limits", {{"ttft_ms", o.ttft_limit_ms}, {"itl_p99_ms", o.itl_limit_ms}}},
          {"ttft", spread(ttft)},
          {"itl", spread(itl)},
          {"e2e", spread(whole)}};
}

// A distribution as an SVG line: x the value up to its p99.5, y the share of values below.
std::string svg_distribution(const char* title, std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const double most = std::max(1e-6, percentile(seconds, 0.995));
  std::string points;
  for (size_t i = 0; i < seconds.size(); i += std::max<size_t>(1, seconds.size() / 400))
    points += fmt::format("{:.1f},{:.1f} ", 40 + std::min(1.0, seconds[i] / most) * 440,
                          180 - 150.0 * static_cast<double>(i + 1) / static_cast<double>(seconds.size()));
  return fmt::format(
      "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 500 210\"><path d=\"M40 20V180H490\" class=\"axis\"/>"
      "<text x=\"40\" y=\"198\">0</text><text x=\"490\" y=\"198\" text-anchor=\"end\">{:.1f} ms</text>"
      "<text x=\"4\" y=\"34\">100 %</text><text x=\"4\" y=\"182\">0 %</text><polyline points=\"{}\"/></svg></figure>",
      title, most * 1e3, points);
}

// Requests as bars over time: waiting for the first token light, the rest dark.
std::string svg_timeline(const std::vector<Result>& results, double wall) {
  const size_t shown = std::min<size_t>(results.size(), 200);
  const double height = 160.0 / static_cast<double>(std::max<size_t>(1, shown));
  std::string bars;
  for (size_t i = 0; i < shown; ++i) {
    const Result& r = results[i];
    if (!r.ok) continue;
    auto x = [&](double t) { return 10 + t / wall * 480; };
    const double y = 20 + static_cast<double>(i) * height;
    bars += fmt::format(
        "<rect class=\"wait\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.2f}\"/>"
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.2f}\"/>",
        x(r.begin), y, x(r.first) - x(r.begin), height * 0.8, x(r.first), y, x(r.end) - x(r.first), height * 0.8);
  }
  return fmt::format(
      "<figure><figcaption>Requests over {:.1f} s (light: until the first token)</figcaption><svg "
      "viewBox=\"0 0 500 200\">{}</svg></figure>",
      wall, bars);
}

std::string html_report(const Options& o, const Json& summary, const std::vector<Result>& results) {
  std::vector<double> ttft, itl, whole;
  for (const Result& r : results)
    if (r.ok) {
      ttft.push_back(r.first - r.begin), whole.push_back(r.end - r.begin);
      itl.insert(itl.end(), r.gaps.begin(), r.gaps.end());
    }
  std::string rows;
  for (const auto& [name, value] : summary.items())
    rows += fmt::format("<tr><th>{}</th><td>{}</td></tr>", name, printable(value.dump(), 400));
  return fmt::format(
      "<!doctype html><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>Load "
      "test</title><style>:root{{color-scheme:light dark}}body{{font:15px/1.5 system-ui;max-width:64rem;margin:2rem "
      "auto;padding:0 1rem}}figure{{display:inline-block;width:min(30rem,100%);margin:0 1rem 1rem "
      "0}}svg{{width:100%;border:1px solid #8884}}text{{font-size:11px;fill:currentColor}}.axis{{stroke:currentColor;"
      "fill:none;opacity:.4}}polyline{{fill:none;stroke:#1f6feb;stroke-width:2}}rect{{fill:#1f6feb}}.wait{{fill:"
      "#1f6feb66}}th{{text-align:left;padding-right:1rem}}</style><h1>Load test of {}</h1>{}{}{}{}<table>{}</table>\n",
      printable(o.url, 200), svg_distribution("Time to first token", ttft), svg_distribution("Between tokens", itl),
      svg_distribution("Whole request", whole), svg_timeline(results, summary["wall_s"].get<double>()), rows);
}

// The server's first model, where none is named.
std::string first_model(const Options& o, const Address& a) {
  Connection c(a);
  c.send(fmt::format("GET {}/v1/models HTTP/1.1\r\nHost: {}\r\n{}Connection: close\r\n\r\n", a.path, a.host,
                     o.key.empty() ? "" : "Authorization: Bearer " + o.key + "\r\n"));
  std::string line, all;
  while (c.line(line)) all += line;
  size_t at = all.find('{');
  all += c.rest();
  size_t id = all.find("\"id\":", at);
  if (id == std::string::npos) return "";
  size_t from = all.find('"', id + 5) + 1;
  return all.substr(from, all.find('"', from) - from);
}

int bench_serve(Options o) {
  if (o.concurrency < 1 || o.concurrency > 4096 || o.requests < 1)
    fail(ErrorCode::invalid_argument, "--concurrency is 1 to 4096 and --requests 1 or more");
  const Address a = parse_url(o.url);
  if (o.model.empty()) o.model = first_model(o, a);
  double wall = 0;
  std::vector<Result> results = run_load(o, a, wall);
  Json s = summarise(o, results, wall);
  s["model"] = o.model;
  if (!o.html.empty()) write_file(o.html, html_report(o, s, results));
  if (o.json) {
    std::cout << s.dump() << "\n";
  } else {
    auto row = [&](const char* name, const Json& d) {
      std::vector<std::string> cells = {name};
      for (const char* key : {"mean_ms", "p50_ms", "p90_ms", "p99_ms", "max_ms"})
        cells.push_back(fmt::format("{:.1f}", d[key].get<double>()));
      return cells;
    };
    std::cout << table({{"ms", "mean", "p50", "p90", "p99", "max"},
                        row("first token", s["ttft"]),
                        row("between tokens", s["itl"]),
                        row("request", s["e2e"])});
    std::printf("\n%.1f output tokens/s, %.2f requests/s (%.2f within the limits), %lld of %lld failed, %.1f s\n",
                s["output_tokens_per_s"].get<double>(), s["requests_per_s"].get<double>(),
                s["goodput_per_s"].get<double>(), static_cast<long long>(s["failed"].get<int64_t>()),
                static_cast<long long>(o.requests), wall);
    for (const auto& [error, count] : s["errors"].items()) std::cout << count << " x " << error << "\n";
  }
  return s["failed"] == 0 ? 0 : 1;
}

}  // namespace

std::function<int()> declare_bench_serve(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("url", o->url, "http://HOST:PORT of a server that speaks OpenAI's API")->required();
  app.add_option("--model", o->model, "default: the server's first");
  app.add_option("--api-key", o->key, "sent as a bearer token");
  app.add_option("-c,--concurrency", o->concurrency, "closed loop: requests under way at any moment");
  app.add_option("-r,--requests", o->requests, "requests in all");
  app.add_option("--rate", o->rate, "open loop: requests per second, Poisson arrivals");
  app.add_option("--prompt-words", o->prompt_words, "words of each user message");
  app.add_option("--shared-words", o->shared_words, "words of a system message all requests share");
  app.add_option("-n,--max-tokens", o->max_tokens, "tokens of each answer");
  app.add_option("--ttft-limit", o->ttft_limit_ms, "goodput: milliseconds to the first token");
  app.add_option("--itl-limit", o->itl_limit_ms, "goodput: milliseconds between tokens, at the request's p99");
  app.add_option("--seed", o->seed, "of prompts and arrivals");
  app.add_option("--html", o->html, "write a report with plots to this file");
  app.add_flag("--json", o->json, "for machines");
  return [o] { return bench_serve(*o); };
}

}  // namespace tenon::cli
