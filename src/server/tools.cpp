// Health, version, metrics, tokenizer and template endpoints, and the web page.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/machine.h"
#include "server/generation.h"
#include "server/metrics_text.h"
#include "server/routes.h"
#include "server/speech.h"
#include "server/ui.h"

namespace tenon::server {
namespace {

void health(const App::CallPtr& call) {
  const App& app = call->app;
  const bool stalled = app.stalled();
  const char* status = app.loading() ? "loading" : stalled ? "stalled" : "ok";
  call->reply({{"status", status}}, app.loading() || stalled ? 503 : 200);
}

void version(const App::CallPtr& call) { call->reply({{"version", call->app.options().version}}); }

void metrics(const App::CallPtr& call) {
  call->exchange->respond(200, "text/plain; version=0.0.4; charset=utf-8", call->app.metrics_text());
}

void tokenize(const App::CallPtr& call) {
  auto body = std::make_shared<Json>(call->body());
  call->with_model(Fields(*body).text("model").value_or(""), [call, body](const ModelPool::Service& service,
                                                                          const ModelPool::Named&) {
    Fields f(*body);
    f.ignore("model");
    auto prompt = f.text("prompt"), content = f.text("content");
    if (prompt.has_value() == content.has_value()) refuse("prompt", "give 'prompt' or 'content', which mean the same");
    const bool special = f.flag("add_special_tokens").value_or(false);
    const bool parse = f.flag("parse_special").value_or(true);
    f.finish();
    auto ids = service->pipeline()
                   .require_tokenizer()
                   .encode(prompt ? *prompt : *content, {.add_special_tokens = special, .parse_special = parse})
                   .ids;
    call->reply({{"tokens", ids}, {"count", ids.size()}, {"max_model_len", service->longest()}});
  });
}

void detokenize(const App::CallPtr& call) {
  auto body = std::make_shared<Json>(call->body());
  call->with_model(Fields(*body).text("model").value_or(""),
                   [call, body](const ModelPool::Service& service, const ModelPool::Named&) {
                     Fields f(*body);
                     f.ignore("model");
                     f.require("tokens");
                     auto ids = f.ids("tokens");
                     const bool skip = f.flag("skip_special_tokens").value_or(false);
                     f.finish();
                     std::string text = service->pipeline().require_tokenizer().decode(ids, skip);
                     call->reply({{"prompt", text}, {"content", text}});
                   });
}

void apply_template(const App::CallPtr& call) {
  auto body = std::make_shared<Json>(call->body());
  call->with_model(Fields(*body).text("model").value_or(""),
                   [call, body](const ModelPool::Service& service, const ModelPool::Named&) {
                     Fields f(*body);
                     f.ignore("model");
                     text::ChatInput input;
                     input.messages = check_messages(f.require("messages"), "messages");
                     input.add_generation_prompt = f.flag("add_generation_prompt").value_or(true);
                     if (ToolsAsked tools = take_tools(f); !tools.tools.is_null()) input.tools = tools.tools;
                     if (const Json* kwargs = f.take("chat_template_kwargs")) input.kwargs = *kwargs;
                     f.finish();
                     const pipelines::Prompt p = render_chat(*service, input);
                     call->reply({{"prompt", p.text}, {"tokens", p.tokens}, {"count", p.tokens.size()}});
                   });
}

void page(const App::CallPtr& call) {
  const UiFile* f = find_ui_file(call->request.path);
  if (!f) throw ApiError{404, "not found", "", "not_found"};
  call->exchange->respond(
      200, f->type, f->content,
      {{"Cache-Control", "no-cache"},
       {"X-Content-Type-Options", "nosniff"},
       {"Content-Security-Policy", "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'"}});
}

}  // namespace

const std::vector<Route> kToolRoutes = {
    {"GET", "/health", health, openai_error, true},
    {"GET", "/version", version},
    {"GET", "/metrics", metrics, openai_error, true},
    {"POST", "/tokenize", tokenize},
    {"POST", "/detokenize", detokenize},
    {"POST", "/apply-template", apply_template},
    {"GET", "/", page, openai_error, true},
    {"GET", "/app.js", page, openai_error, true},
    {"GET", "/style.css", page, openai_error, true},
};

}  // namespace tenon::server
