#include "server/app.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/log.h"
#include "server/routes.h"
#include "server/ui.h"

namespace tenon::server {
namespace {

constexpr size_t kMostCompiling = 64;

int status_of(const Error& e) {
  switch (e.code()) {
    case ErrorCode::invalid_argument:
    case ErrorCode::unsupported:
    case ErrorCode::not_found:
    case ErrorCode::invalid_file:  // a chat template that cannot be read, say
      return 400;
    case ErrorCode::does_not_fit:
      return 503;
    default:
      return 500;
  }
}

// The time does not tell how much of it was right.
bool same_key(std::string_view a, std::string_view b) {
  unsigned difference = a.size() != b.size();
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  return difference == 0;
}

const Route* find_route(const HttpRequest& r, bool& path_known) {
  std::string path = r.path;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  for (const auto* list :
       {&kOpenAiRoutes, &kResponseRoutes, &kRerankRoutes, &kAnthropicRoutes, &kOllamaRoutes, &kToolRoutes})
    for (const Route& route : *list) {
      std::string_view wanted = route.path;
      const bool here = wanted.ends_with('*') ? std::string_view(path).starts_with(wanted.substr(0, wanted.size() - 1))
                                              : path == wanted;
      if (!here) continue;
      path_known = true;
      if (r.method == route.method || (r.method == "HEAD" && std::string_view(route.method) == "GET")) return &route;
    }
  return nullptr;
}

}  // namespace

Json openai_error(const ApiError& e) {
  const char* type = e.status == 401   ? "authentication_error"
                     : e.status == 429 ? "rate_limit_error"
                     : e.status >= 500 ? "server_error"
                     : e.status == 404 ? "not_found_error"
                                       : "invalid_request_error";
  return {{"error",
           {{"message", e.message},
            {"type", type},
            {"param", e.param.empty() ? Json() : Json(e.param)},
            {"code", e.code.empty() ? Json() : Json(e.code)}}}};
}

Json anthropic_error(const ApiError& e) {
  const char* type = e.status == 401   ? "authentication_error"
                     : e.status == 404 ? "not_found_error"
                     : e.status == 413 ? "request_too_large"
                     : e.status == 429 ? "rate_limit_error"
                     : e.status == 503 ? "overloaded_error"
                     : e.status >= 500 ? "api_error"
                                       : "invalid_request_error";
  return {{"type", "error"}, {"error", {{"type", type}, {"message", e.message}}}};
}

Json ollama_error(const ApiError& e) { return {{"error", e.message}}; }

App::App(AppOptions options, PoolOptions pool, HttpServer*& http)
    : options_(std::move(options)),
      post_([&http](std::function<void()> f) { http->post(std::move(f)); }),
      pool_(std::move(pool), post_,
            [this](const std::string& model, std::vector<pipelines::ServiceEvent> events) {
              auto shared = std::make_shared<std::vector<pipelines::ServiceEvent>>(std::move(events));
              post_([this, model, shared] { deliver(model, *shared); });
            }),
      compiler_(kMostCompiling) {}

Json App::Call::body() const {
  try {
    return parse_json(request.body, "the request's body", 64);
  } catch (const Error& e) {
    throw ApiError{400, e.what(), "", "invalid_json"};
  }
}

void App::Call::reply(const Json& json, int status) const {
  exchange->respond(status, "application/json", json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void App::Call::fail(const ApiError& e) const {
  if (exchange->begun()) return exchange->end();
  if (e.status == 429 || e.status == 503) exchange->add_header("Retry-After", "1");
  reply(form(e), e.status);
}

void App::Call::guarded(const std::function<void()>& f) const {
  try {
    f();
  } catch (const ApiError& e) {
    fail(e);
  } catch (const Error& e) {
    std::string message = e.what();
    const bool too_long = message.starts_with("context_length_exceeded: ");
    fail({status_of(e), too_long ? message.substr(25) : message, "",
          too_long                             ? "context_length_exceeded"
          : e.code() == ErrorCode::unsupported ? "unsupported"
                                               : ""});
  } catch (const std::exception& e) {
    fail({500, e.what(), "", "internal"});
  }
}

void App::Call::with_model(const std::string& name,
                           std::function<void(const ModelPool::Service&, const ModelPool::Named&)> f) {
  const std::optional<ModelPool::Named> named = app.pool_.find(name);
  if (!named)
    throw ApiError{404, fmt::format("the model '{}' is not served here; GET /v1/models lists what is", printable(name)),
                   "model", "model_not_found"};
  adapter = named->adapter;
  app.pool_.with(*named->model,
                 [call = *this, named = *named, f](const ModelPool::Service& service, const std::string& error) {
                   call.guarded([&] {
                     if (!service) throw ApiError{503, error, "model", "model_not_loaded"};
                     f(service, named);
                   });
                 });
}

bool App::allowed(const HttpRequest& r) const {
  if (options_.keys.empty()) return true;
  std::string given = r.header("authorization");
  given = given.size() > 7 ? given.substr(7) : r.header("x-api-key");
  bool any = false;
  for (const std::string& key : options_.keys) any |= same_key(given, key);
  return any;
}

void App::handle(HttpRequest request, const std::shared_ptr<Exchange>& exchange) {
  if (!options_.cors.empty() && !request.header("origin").empty()) {
    exchange->add_header("Access-Control-Allow-Origin", options_.cors);
    if (options_.cors != "*") exchange->add_header("Vary", "Origin");
    if (request.method == "OPTIONS")
      return exchange->respond(204, "", "",
                               {{"Access-Control-Allow-Methods", "GET, POST, OPTIONS"},
                                {"Access-Control-Allow-Headers", "*, Authorization, Content-Type"},
                                {"Access-Control-Max-Age", "600"}});
  }
  bool known = false;
  const Route* route = find_route(request, known);
  auto call = std::make_shared<Call>(Call{*this, std::move(request), exchange, route ? route->form : openai_error});
  if (!route) {
    const int status = known ? 405 : 404;
    return call->fail(
        {status,
         fmt::format("{} {} is not an endpoint of this server", call->request.method, printable(call->request.path)),
         "", known ? "method_not_allowed" : "not_found"});
  }
  if (!route->open && !allowed(call->request))
    return call->fail({401, "the API key is missing or wrong (Authorization: Bearer KEY)", "", "invalid_api_key"});
  call->guarded([&] { route->handler(call); });
}

void App::generate(const CallPtr& call, const ModelPool::Service& service, pipelines::ServiceRequest request,
                   std::shared_ptr<Answer> answer, std::optional<OutputForm> form) {
  if (!form) return submit(call, service, std::move(request), std::move(answer));
  auto shared = std::make_shared<pipelines::ServiceRequest>(std::move(request));
  auto compile = [this, call, service, shared, answer, form = std::move(*form)] {
    std::optional<ApiError> error;
    try {
      shared->constraint = service->constraints().compile(form.key, form.grammar);
    } catch (const Error& e) {
      error = ApiError{400, fmt::format("'{}': {}", form.field, e.what()), form.field,
                       e.code() == ErrorCode::unsupported ? "unsupported" : "invalid_value"};
    } catch (const std::exception& e) {
      error = ApiError{500, e.what(), form.field, "internal"};
    }
    post_([this, call, service, shared, answer, error] {
      if (call->exchange->closed()) return;
      call->guarded([&] {
        if (error) throw ApiError(*error);
        submit(call, service, std::move(*shared), answer);
      });
    });
  };
  if (!compiler_.submit(compile)) throw ApiError{429, "too many requests are waiting; try again", "", "queue_full"};
}

void App::submit(const CallPtr& call, const ModelPool::Service& service, pipelines::ServiceRequest request,
                 std::shared_ptr<Answer> answer) {
  request.accepted = call->request.accepted;
  request.adapter = call->adapter;
  const int choices = request.choices;
  std::optional<uint64_t> id = service->submit(std::move(request));
  if (!id) throw ApiError{429, "too many requests are waiting; try again", "", "queue_full"};
  std::string model;
  for (const auto& e : pool_.entries())
    if (e->service == service) model = e->id;
  Key key{model, *id};
  running_[key] = {std::move(answer), call->exchange, choices};
  call->exchange->on_closed([this, key, weak = std::weak_ptr(service)] {
    running_.erase(key);
    if (auto s = weak.lock()) s->cancel(key.second);
  });
}

void App::deliver(const std::string& model, std::vector<pipelines::ServiceEvent>& events) {
  for (const pipelines::ServiceEvent& event : events) {
    auto r = running_.find({model, event.request});
    if (r == running_.end()) continue;  // the client is gone
    std::shared_ptr<Answer> answer = r->second.answer;
    if (event.done && --r->second.open == 0) running_.erase(r);
    try {
      answer->event(event);
    } catch (const std::exception& e) {
      log_warn("an answer failed: {}", e.what());
    }
  }
}

bool App::stalled() const {
  for (const auto& e : pool_.entries())
    if (e->service && e->service->stats().stalled) return true;
  return false;
}

void App::close() {
  compiler_.stop();
  running_.clear();
  pool_.clear();
}

void App::load_first(std::function<void(std::string)> done) {
  pool_.load_first([this, done](const std::string& error) {
    loading_ = false;
    done(error);
  });
}

}  // namespace tenon::server
