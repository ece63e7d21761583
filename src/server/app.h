// What the server does with a request: routes, keys, errors, and the answers under way.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "server/background.h"
#include "server/fields.h"
#include "server/http.h"
#include "server/model_pool.h"
#include "server/output_form.h"

namespace tenon::server {

// One request's answer under way, in some API's form.
class Answer {
 public:
  virtual ~Answer() = default;
  virtual void event(const pipelines::ServiceEvent& event) = 0;
};

struct AppOptions {
  std::vector<std::string> keys;  // none: everybody may
  std::string cors;               // allowed origin, "*": any, "": none
  std::string version;
  double start_s = 0;  // from the process's start to the server's
};

// How an API words an error.
using ErrorForm = Json (*)(const ApiError&);
Json openai_error(const ApiError& e);
Json anthropic_error(const ApiError& e);
Json ollama_error(const ApiError& e);

class App {
 public:
  App(AppOptions options, PoolOptions pool, HttpServer*& http);

  void handle(HttpRequest request, const std::shared_ptr<Exchange>& exchange);
  ModelPool& pool() { return pool_; }
  const AppOptions& options() const { return options_; }

  // One request on its way through a handler.
  struct Call {
    App& app;
    HttpRequest request;
    std::shared_ptr<Exchange> exchange;
    ErrorForm form = openai_error;
    int32_t adapter = -1;  // of the model that was asked for

    Json body() const;  // throws ApiError
    void reply(const Json& json, int status = 200) const;
    void fail(const ApiError& e) const;
    // Runs `f`, whose errors become the answer.
    void guarded(const std::function<void()>& f) const;
    // Calls `f` with the model named `name`, loaded.
    void with_model(const std::string& name, std::function<void(const ModelPool::Service&, const ModelPool::Named&)> f);
  };
  using CallPtr = std::shared_ptr<Call>;
  using Handler = void (*)(const CallPtr&);

  // Submits, once `form` is compiled; events go to `answer` until the last choice is done or the client is gone. Throws
  // ApiError (429: full).
  void generate(const CallPtr& call, const ModelPool::Service& service, pipelines::ServiceRequest request,
                std::shared_ptr<Answer> answer, std::optional<OutputForm> form = std::nullopt);

  std::string metrics_text() const;
  bool loading() const { return loading_; }
  bool stalled() const;
  // Ends what runs and unloads all models; before the HttpServer ends.
  void close();
  void load_first(std::function<void(std::string error)> done);

 private:
  struct Running {
    std::shared_ptr<Answer> answer;
    std::shared_ptr<Exchange> exchange;
    int open = 0;
  };
  using Key = std::pair<std::string, uint64_t>;  // model, request
  void submit(const CallPtr& call, const ModelPool::Service& service, pipelines::ServiceRequest request,
              std::shared_ptr<Answer> answer);
  void deliver(const std::string& model, std::vector<pipelines::ServiceEvent>& events);
  bool allowed(const HttpRequest& r) const;

  AppOptions options_;
  ModelPool::Post post_;
  ModelPool pool_;
  Background compiler_;
  std::map<Key, Running> running_;
  bool loading_ = true;
};

}  // namespace tenon::server
