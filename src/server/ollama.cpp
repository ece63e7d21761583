// Ollama's API: chat, generate, embed, tags, show, version. Streams are lines of JSON.
#include <fmt/format.h>

#include <chrono>

#include "base/error.h"
#include "server/generation.h"
#include "server/routes.h"
#include "server/speech.h"

namespace tenon::server {
namespace {

using pipelines::ChoiceSummary;

std::string now_text() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  const time_t seconds = us / 1000000;
  tm t{};
  gmtime_r(&seconds, &t);
  char text[32];
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &t);
  return fmt::format("{}.{:06}Z", text, us % 1000000);
}

// Ollama's names end in ":latest" where nothing else is said.
std::string model_name(Fields& f) {
  std::string name = f.text("model").value_or("");
  if (name.empty()) name = f.text("name").value_or("");
  if (name.ends_with(":latest")) name.resize(name.size() - 7);
  return name;
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

class OllamaAnswer : public Answer {
 public:
  OllamaAnswer(std::string model, bool chat, bool stream, std::shared_ptr<Exchange> exchange, double load_s,
               const Speech& speech)
      : model_(std::move(model)),
        chat_(chat),
        stream_(stream),
        exchange_(std::move(exchange)),
        load_s_(load_s),
        reader_(speech) {}

  void event(const ServiceEvent& e) override {
    text::OutputDelta delta = reader_.read(e);
    if (!stream_) {
      said_ += std::move(delta);
      if (e.done) exchange_->respond(200, "application/json", dump(last(said_, *e.done)));
      return;
    }
    if (!exchange_->begun()) exchange_->begin_stream("application/x-ndjson");
    said_ += std::move(delta);
    std::vector<text::ToolCall> open;  // the last call may go on, and this API's calls are whole
    if (!e.done && !said_.calls.empty()) {
      open.push_back(std::move(said_.calls.back()));
      said_.calls.pop_back();
    }
    if (!said_.empty()) exchange_->write(dump(piece(said_, false)) + "\n");
    said_ = {"", "", std::move(open)};
    if (!e.done) return;
    exchange_->write(dump(last({}, *e.done)) + "\n");
    exchange_->end();
  }

 private:
  Json piece(const text::OutputDelta& said, bool done) const {
    Json j = {{"model", model_}, {"created_at", now_text()}};
    Json said_so = Json::object();
    if (chat_) {
      said_so = {{"role", "assistant"}, {"content", said.content}};
      for (const text::ToolCall& c : said.calls)
        if (Json arguments = Json::parse(c.arguments, nullptr, false); arguments.is_object())  // it was not cut off
          said_so["tool_calls"].push_back({{"function", {{"name", c.name}, {"arguments", std::move(arguments)}}}});
    } else {
      j["response"] = said.content;
    }
    if (!said.reasoning.empty()) (chat_ ? said_so : j)["thinking"] = said.reasoning;
    if (chat_) j["message"] = said_so;
    j["done"] = done;
    return j;
  }
  Json last(const text::OutputDelta& text, const ChoiceSummary& d) const {
    auto ns = [](double s) { return static_cast<int64_t>(s * 1e9); };
    Json j = piece(text, true);
    j["done_reason"] = d.finish_reason == "length" ? "length" : "stop";
    j["total_duration"] = ns(d.queue_s + d.prefill_s + d.decode_s);
    j["load_duration"] = ns(load_s_);
    j["prompt_eval_count"] = d.prompt_tokens;
    j["prompt_eval_duration"] = ns(d.prefill_s);
    j["eval_count"] = d.completion_tokens;
    j["eval_duration"] = ns(d.decode_s);
    return j;
  }

  std::string model_;
  bool chat_, stream_;
  std::shared_ptr<Exchange> exchange_;
  double load_s_;
  SpeechReader reader_;
  text::OutputDelta said_;
};

// "options": the sampling fields under Ollama's names.
void take_options(Fields& f, const TextService& service, Generation& g) {
  const Json empty = Json::object();
  const Json* given = f.take("options");
  Fields o(given ? *given : empty, "options");
  const auto most = o.integer("num_predict", -2, INT32_MAX);
  g.request.max_tokens = most && *most > 0 ? *most : 0;
  const auto context = o.integer("num_ctx", 1, INT32_MAX);
  if (context && *context > service.longest())
    refuse("options.num_ctx", fmt::format("the model is served with a context of {}", service.longest()));
  for (const char* name : {"num_batch", "num_gpu", "main_gpu", "num_thread", "use_mmap", "numa", "num_keep"})
    o.ignore(name);
  o.unsupported("repeat_last_n", {-1}, "the penalty covers prompt and answer");
  for (const char* name : {"mirostat", "tfs_z", "mirostat_tau", "mirostat_eta"}) o.unsupported(name, {0, 1.0});
  const int64_t max_tokens = g.request.max_tokens;
  take_sampling(o, service, g);
  g.request.max_tokens = max_tokens;
  o.finish();
}

// Fields of chat and generate that say nothing about the answer, and those not done here.
void take_rest(Fields& f, Generation& g) {
  f.ignore("keep_alive");
  if (const Json* format = f.take("format"); format && *format != "")
    g.form = *format == "json" ? object_form("format") : schema_form(*format, "format");
  f.unsupported("images", {Json::array()});
  f.unsupported("logprobs", {false});
  f.unsupported("top_logprobs", {0});
}

// Ollama's messages call some fields otherwise.
Json as_openai(Json messages) {
  if (!messages.is_array()) return messages;
  for (Json& m : messages) {
    if (!m.is_object()) continue;
    for (auto [from, to] : {std::pair("tool_name", "name"), std::pair("thinking", "reasoning_content")})
      if (auto v = m.find(from); v != m.end()) {
        m[to] = *v;
        m.erase(from);
      }
    if (auto images = m.find("images"); images != m.end() && (images->is_null() || images->empty())) m.erase("images");
  }
  return messages;
}

// true, false, or how much.
void take_think(Fields& f, text::ChatInput& input) {
  const Json* think = f.take("think");
  if (!think) return;
  if (think->is_string())
    input.kwargs["reasoning_effort"] = *think;
  else if (!think->is_boolean())
    refuse("think", "'think' is true, false, or a level");
  input.kwargs["enable_thinking"] = *think != false;
}

void answer(const App::CallPtr& call, const ModelPool::Service& service, const ModelPool::Named& entry, Generation& g,
            bool chat, bool stream) {
  auto a = std::make_shared<OllamaAnswer>(entry.id, chat, stream, call->exchange, entry.model->load_s, g.speech);
  call->app.generate(call, service, std::move(g.request), a, std::move(g.form));
}

void chat(const App::CallPtr& call) {
  auto body = std::make_shared<Json>(call->body());
  Fields names(*body);
  call->with_model(model_name(names), [call, body](const ModelPool::Service& service, const ModelPool::Named& entry) {
    Fields f(*body);
    model_name(f);
    Generation g;
    take_options(f, *service, g);
    take_rest(f, g);
    const bool stream = f.flag("stream").value_or(true);
    text::ChatInput input;
    input.messages = check_messages(as_openai(f.require("messages")), "messages");
    input.add_generation_prompt = true;
    take_think(f, input);
    const ToolsAsked tools = take_tools(f);
    f.finish();
    prepare_chat(*service, input, tools, g);
    answer(call, service, entry, g, true, stream);
  });
}

void generate(const App::CallPtr& call) {
  auto body = std::make_shared<Json>(call->body());
  Fields names(*body);
  call->with_model(model_name(names), [call, body](const ModelPool::Service& service, const ModelPool::Named& entry) {
    Fields f(*body);
    model_name(f);
    Generation g;
    take_options(f, *service, g);
    take_rest(f, g);
    const bool stream = f.flag("stream").value_or(true), raw = f.flag("raw").value_or(false);
    const std::string prompt = f.text("prompt").value_or("");
    text::ChatInput thinking;
    take_think(f, thinking);
    const auto system = f.text("system");
    f.unsupported("template", {""});
    f.unsupported("suffix", {""});
    f.unsupported("context", {Json::array()}, "send the conversation to /api/chat");
    f.finish();
    const text::Tokenizer& tokenizer = service->pipeline().require_tokenizer();
    if (raw || tokenizer.chat_templates().empty()) {
      g.request.prompt = tokenizer.encode(prompt, {.add_special_tokens = true, .parse_special = true}).ids;
    } else {
      text::ChatInput input;
      if (system) input.messages.push_back({{"role", "system"}, {"content", *system}});
      input.messages.push_back({{"role", "user"}, {"content", prompt}});
      input.add_generation_prompt = true;
      input.kwargs = thinking.kwargs;
      prepare_chat(*service, input, {}, g);
    }
    answer(call, service, entry, g, false, stream);
  });
}

// Collects the vectors of /api/embed's inputs.
class EmbedAnswer : public Answer {
 public:
  struct All {
    std::vector<std::vector<float>> vectors;
    std::string model;
    std::shared_ptr<Exchange> exchange;
    size_t done = 0;
    int64_t tokens = 0;
  };
  EmbedAnswer(std::shared_ptr<All> all, size_t index) : all_(std::move(all)), index_(index) {}
  void event(const ServiceEvent& e) override {
    if (!e.done) return;
    all_->vectors[index_] = e.embedding;
    all_->tokens += e.done->prompt_tokens;
    if (++all_->done == all_->vectors.size())
      all_->exchange->respond(
          200, "application/json",
          dump({{"model", all_->model}, {"embeddings", all_->vectors}, {"prompt_eval_count", all_->tokens}}));
  }

 private:
  std::shared_ptr<All> all_;
  size_t index_;
};

void embed(const App::CallPtr& call) {
  auto body = std::make_shared<Json>(call->body());
  Fields names(*body);
  call->with_model(model_name(names), [call, body](const ModelPool::Service& service, const ModelPool::Named& entry) {
    Fields f(*body);
    model_name(f);
    f.ignore("keep_alive");
    f.unsupported("truncate", {false, true});
    f.unsupported("options", {Json::object()});
    f.unsupported("dimensions");
    f.require("input");
    std::vector<std::string> inputs = f.texts("input", 256);
    f.finish();
    auto all = std::make_shared<EmbedAnswer::All>();
    all->vectors.resize(inputs.size());
    all->model = entry.id;
    all->exchange = call->exchange;
    for (size_t i = 0; i < inputs.size(); ++i) {
      ServiceRequest r;
      r.prompt = service->pipeline().require_tokenizer().encode(inputs[i], {.add_special_tokens = true}).ids;
      r.max_tokens = 1;
      r.embed = ServiceRequest::Embed::last;
      call->app.generate(call, service, std::move(r), std::make_shared<EmbedAnswer>(all, i));
    }
    if (inputs.empty()) call->reply({{"model", entry.id}, {"embeddings", Json::array()}});
  });
}

Json details() {
  return {{"parent_model", ""},        {"format", "gguf"},     {"family", ""},
          {"families", Json::array()}, {"parameter_size", ""}, {"quantization_level", ""}};
}

void tags(const App::CallPtr& call) {
  Json list = Json::array();
  auto add = [&](const std::string& name) {
    list.push_back({{"name", name},
                    {"model", name},
                    {"modified_at", now_text()},
                    {"size", 0},
                    {"digest", ""},
                    {"details", details()}});
  };
  for (const auto& e : call->app.pool().entries()) {
    add(e->id);
    for (const models::AdapterFile& a : e->adapters) add(a.name);
  }
  call->reply({{"models", list}});
}

void show(const App::CallPtr& call) {
  auto body = std::make_shared<Json>(call->body());
  Fields names(*body);
  call->with_model(model_name(names), [call, body](const ModelPool::Service& service, const ModelPool::Named&) {
    Fields f(*body);
    model_name(f);
    f.ignore("verbose");
    f.finish();
    const text::Tokenizer* tokenizer = service->pipeline().tokenizer();
    const bool has = tokenizer && !tokenizer->chat_templates().empty();
    call->reply({{"template", has ? pipelines::chat_template_of(*tokenizer, false) : ""},
                 {"details", details()},
                 {"model_info", {{"general.context_length", service->longest()}}},
                 {"capabilities", Json::array({"completion"})}});
  });
}

void version(const App::CallPtr& call) { call->reply({{"version", call->app.options().version}}); }

}  // namespace

const std::vector<Route> kOllamaRoutes = {
    {"POST", "/api/chat", chat, ollama_error},   {"POST", "/api/generate", generate, ollama_error},
    {"POST", "/api/embed", embed, ollama_error}, {"GET", "/api/tags", tags, ollama_error},
    {"POST", "/api/show", show, ollama_error},   {"GET", "/api/version", version, ollama_error},
};

}  // namespace tenon::server
