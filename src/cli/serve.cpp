// tenon serve: models behind HTTP, until SIGTERM.
#include <fmt/format.h>

#include <cstdio>
#include <ctime>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/process.h"
#include "runtime/arena.h"
#include "server/app.h"
#include "text/tool_calls.h"

namespace tenon::cli {
namespace {

struct Options {
  std::vector<std::string> models, aliases, keys;
  std::string key_file, access_log, cors, template_file, tool_format, max_body = "16M";
  server::HttpOptions http;
  size_t max_queue = 512;
  int64_t drain = 30;
  double prefill_slice = 60;
  bool no_prefix_cache = false, embeddings = false;
  RunFlags run;
};

// One JSON object a line; reopened on SIGHUP, so that the file may be moved away.
class AccessLog {
 public:
  explicit AccessLog(std::string path) : path_(std::move(path)) { open(); }
  ~AccessLog() { close(); }
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  // Of a server that runs: what cannot be opened any more is no reason to end it.
  void reopen() {
    try {
      open();
    } catch (const Error& e) {
      log_warn("{}; nothing is logged until the next SIGHUP", e.what());
    }
  }
  void write(const server::HttpRequest& r, const server::Exchange& e) {
    if (!file_) return;
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - r.accepted).count();
    Json line = {{"time", static_cast<double>(time(nullptr))},
                 {"peer", r.peer},
                 {"method", r.method},
                 {"path", r.path},
                 {"status", e.closed() && !e.begun() ? 499 : e.status()},
                 {"bytes", e.bytes()},
                 {"ms", ms},
                 {"disconnected", e.closed()}};
    std::fputs((line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n").c_str(), file_);
    std::fflush(file_);
  }

 private:
  void open() {
    close();
    if (path_.empty()) return;
    file_ = path_ == "-" ? stderr : std::fopen(path_.c_str(), "a");
    if (!file_) fail(ErrorCode::io, "--access-log {}: cannot be written", printable(path_));
  }
  void close() {
    if (file_ && file_ != stderr) std::fclose(file_);
    file_ = nullptr;
  }
  std::string path_;
  FILE* file_ = nullptr;
};

std::vector<std::string> read_keys(const Options& o) {
  std::vector<std::string> keys = o.keys;
  if (!o.key_file.empty()) {
    std::string text = read_file(o.key_file, 1 << 20), line;
    for (char c : text + "\n")
      if (c == '\n')
        keys.push_back(std::exchange(line, {}));
      else if (c != '\r')
        line += c;
  }
  std::erase(keys, "");
  return keys;
}

runtime::RunOptions run_options(const Options& o) {
  runtime::RunOptions r = o.run.resolve();
  r.prefix_cache = !o.no_prefix_cache;
  r.prefill_slice_s = o.prefill_slice / 1000;
  r.final_hidden = o.embeddings;
  r.kv_shrinks = true;
  // Waiting requests hold their prompts and room for their answers besides what connections hold.
  r.host_bytes = o.http.bytes() + pipelines::kConstraintBytes;
  return r;
}

pipelines::ChatFormOptions chat_options(const Options& o) {
  if (!o.tool_format.empty() && !text::tool_format_named(o.tool_format)) {
    std::string names;
    for (const auto& f : text::tool_formats()) names += fmt::format("{}{}", names.empty() ? "" : ", ", f.name);
    fail(ErrorCode::invalid_argument, "--tool-format '{}': use one of {}", printable(o.tool_format), names);
  }
  return {o.template_file.empty() ? "" : read_file(o.template_file, 4 << 20), o.tool_format};
}

int serve(Options& o) {
  o.http.max_body = parse_size(o.max_body);
  o.http.max_bodies = std::max(o.http.max_bodies, o.http.max_body);
  o.http.drain = std::chrono::seconds(o.drain);
  if (o.http.certificate.empty() != o.http.key.empty())
    fail(ErrorCode::invalid_argument, "--tls-cert and --tls-key go together");
  if (o.aliases.size() > o.models.size()) fail(ErrorCode::invalid_argument, "more --alias than models");
  server::PoolOptions pool{run_options(o), {o.max_queue, chat_options(o)}};
  runtime::Ledger::process().set_limit(pool.run.memory);

  AccessLog log(o.access_log);
  server::HttpServer* http = nullptr;
  server::App app({read_keys(o), o.cors, TENON_VERSION, seconds_since_start()}, pool, http);
  for (size_t i = 0; i < o.models.size(); ++i)
    app.pool().add(i < o.aliases.size() ? o.aliases[i] : models::id_of(o.models[i]), o.models[i],
                   i == 0 ? pool.run.adapters : std::vector<models::AdapterFile>{});
  server::HttpServer server(
      o.http, [&](server::HttpRequest r, const std::shared_ptr<server::Exchange>& e) { app.handle(std::move(r), e); },
      [&](const server::HttpRequest& r, const server::Exchange& e) { log.write(r, e); });
  http = &server;
  server.handle_signals([&] { log.reopen(); });
  std::string failure;
  app.load_first([&](const std::string& error) {
    if (!error.empty()) {
      failure = error;
      return server.stop();
    }
    const auto& first = *app.pool().entries().front();
    std::fprintf(stderr, "serving %s on %s://%s:%d (ready after %.2f s)\n", first.id.c_str(),
                 o.http.certificate.empty() ? "http" : "https", o.http.host.c_str(), server.port(),
                 seconds_since_start());
  });
  server.run();
  app.close();
  if (!failure.empty()) fail(ErrorCode::does_not_fit, "{}", failure);
  return 0;
}

std::function<int()> declare(CLI::App& app) {
  auto o = std::make_shared<Options>();
  o->run.options.max_sequences = 16;
  app.add_option("models", o->models, "model directories or files; the first is loaded at once, others when asked for")
      ->required();
  app.add_option("--alias", o->aliases, "name of the first model; repeat for the next ones");
  app.add_option("--host", o->http.host, "address to listen at; default 127.0.0.1");
  app.add_option("--port", o->http.port, "default 8080; 0: any free one");
  app.add_option("--api-key", o->keys, "clients must send it; may be repeated");
  app.add_option("--api-key-file", o->key_file, "one key a line");
  app.add_option("--tls-cert", o->http.certificate, "PEM certificate chain");
  app.add_option("--tls-key", o->http.key, "PEM private key");
  app.add_option("--cors", o->cors, "origin of web pages that may call, or *; default: none");
  app.add_option("--max-queue", o->max_queue, "requests that may wait; more get status 429");
  app.add_option("--max-connections", o->http.max_connections, "open connections");
  app.add_option("--max-body", o->max_body, "bytes of one request, e.g. 16M");
  app.add_option("--drain", o->drain, "seconds that running answers get after SIGTERM");
  app.add_option("--access-log", o->access_log, "file for one JSON line per request; -: standard error");
  app.add_option("--chat-template", o->template_file, "a Jinja file instead of the models' own templates");
  app.add_option("--tool-format", o->tool_format,
                 "how the models write tool calls: hermes, llama3, mistral, ...; default: by the template");
  app.add_option("--prefill-slice", o->prefill_slice,
                 "milliseconds that prompts may hold up running answers in one step; 0: as many tokens as a step takes")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_flag("--no-prefix-cache", o->no_prefix_cache, "compute every prompt from its beginning");
  app.add_flag("--embeddings", o->embeddings, "keep the last hidden state, for /v1/embeddings");
  o->run.declare(app);
  o->run.declare_draft(app);
  return [o] { return serve(*o); };
}

}  // namespace

extern const Command serve_command{"serve", "OpenAI-compatible server with a web page",
                                   "  tenon serve model.gguf\n"
                                   "  tenon serve A/ B.gguf --host 0.0.0.0 --port 8000 --api-key secret\n"
                                   "  curl localhost:8080/v1/chat/completions -d '{\"messages\": [{\"role\": \"user\", "
                                   "\"content\": \"Hello\"}]}'\n",
                                   declare};

}  // namespace tenon::cli
