// OpenAI's /v1/completions, /v1/chat/completions, /v1/models, /v1/embeddings.
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "server/generation.h"
#include "server/routes.h"
#include "server/speech.h"

namespace tenon::server {
namespace {

using pipelines::ChoiceSummary;
using pipelines::TokenReport;

std::string token_text(const TextService& service, int32_t id) {
  const text::Tokenizer* t = service.pipeline().tokenizer();
  if (!t || id >= t->vocab_size()) return "";
  return t->decode({&id, 1});
}

Json bytes_of(const std::string& text) {
  Json bytes = Json::array();
  for (char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

// ---- What both endpoints' answers have in common.

struct Asked {
  std::string model, id;
  bool stream = false, include_usage = false;
  bool continuous_usage = false;  // vLLM's continuous_usage_stats: every chunk says what was used so far
  int64_t prompt_tokens = 0;
  int choices = 1;
  int top_logprobs = -1;
  Json effective;
  Speech speech;
};

// One choice as it grows.
struct ChoiceText {
  SpeechReader reader;
  text::OutputDelta said;
  std::vector<TokenReport> reports;
  int64_t offset = 0;  // of the next token's text, for completions' text_offset
  bool begun = false;
};

class OpenAiAnswer : public Answer {
 public:
  OpenAiAnswer(Asked asked, ModelPool::Service service, std::shared_ptr<Exchange> exchange)
      : asked_(std::move(asked)),
        service_(std::move(service)),
        exchange_(std::move(exchange)),
        done_(static_cast<size_t>(asked_.choices)) {
    for (int i = 0; i < asked_.choices; ++i) choices_.push_back({.reader = SpeechReader(asked_.speech, i)});
  }

  void event(const ServiceEvent& e) override {
    ChoiceText& c = choices_[static_cast<size_t>(e.choice)];
    if (!e.prompt_reports.empty())
      prompt_reports_.insert(prompt_reports_.end(), e.prompt_reports.begin(), e.prompt_reports.end());
    text::OutputDelta delta = c.reader.read(e);
    if (asked_.stream)
      stream(e, std::move(delta), c);
    else
      c.said += std::move(delta), c.reports.insert(c.reports.end(), e.reports.begin(), e.reports.end());
    if (!e.done) return;
    done_[static_cast<size_t>(e.choice)] = e.done;
    if (++finished_ == asked_.choices) finish();
  }

 protected:
  // The choice of an answer; of a chunk of the stream.
  virtual Json whole(int index, ChoiceText& c, const ChoiceSummary& done) = 0;
  virtual Json part(int index, ChoiceText& c, const text::OutputDelta& delta, const ServiceEvent& e) = 0;
  virtual Json part_end(int index, const std::string& finish) = 0;
  virtual const char* object(bool chunk) const = 0;

  Json frame(bool chunk) const {
    return {{"id", asked_.id},       {"object", object(chunk)},       {"created", created_},
            {"model", asked_.model}, {"system_fingerprint", "tenon"}, {"choices", Json::array()}};
  }

  static std::string finish_name(const ChoiceSummary& d, const ChoiceText& c) {
    return d.finish_reason == "length" ? "length" : c.reader.called() ? "tool_calls" : "stop";
  }

  void add_usage(Json& chunk) const {
    if (!asked_.include_usage) return;
    chunk["usage"] = asked_.continuous_usage ? usage_json(asked_.prompt_tokens, said_tokens_) : Json();
  }

  void stream(const ServiceEvent& e, text::OutputDelta delta, ChoiceText& c) {
    said_tokens_ += static_cast<int64_t>(e.tokens.size());
    if (!exchange_->begun()) exchange_->begin_stream("text/event-stream");
    std::string out;
    if (!delta.empty() || !e.reports.empty() || !c.begun) {
      Json chunk = frame(true);
      chunk["choices"].push_back(part(e.choice, c, delta, e));
      add_usage(chunk);
      out += sse(chunk);
      c.begun = true;
    }
    if (e.done) {
      Json chunk = frame(true);
      chunk["choices"].push_back(part_end(e.choice, finish_name(*e.done, c)));
      add_usage(chunk);
      out += sse(chunk);
    }
    exchange_->write(out);
  }

  std::vector<ChoiceSummary> summaries() const {
    std::vector<ChoiceSummary> all;
    for (const auto& d : done_) all.push_back(*d);
    return all;
  }

  void finish() {
    for (const auto& d : done_)
      if (d->finish_reason == "deadline" && !asked_.stream) {
        ApiError e{503, "the request's time was up before its answer was complete", "timeout", "deadline_exceeded"};
        return exchange_->respond(503, "application/json", openai_error(e).dump());
      }
    if (asked_.stream) {
      if (asked_.include_usage) {
        Json chunk = frame(true);
        chunk["usage"] = usage_json(summaries());
        chunk["timings"] = timings_json(*done_[0]);
        chunk["effective_params"] = asked_.effective;
        exchange_->write(sse(chunk));
      }
      exchange_->write("data: [DONE]\n\n");
      return exchange_->end();
    }
    Json out = frame(false);
    for (int i = 0; i < asked_.choices; ++i) {
      auto k = static_cast<size_t>(i);
      out["choices"].push_back(whole(i, choices_[k], *done_[k]));
    }
    out["usage"] = usage_json(summaries());
    out["timings"] = timings_json(*done_[0]);
    out["effective_params"] = asked_.effective;
    exchange_->respond(200, "application/json", out.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

  Asked asked_;
  ModelPool::Service service_;
  std::shared_ptr<Exchange> exchange_;
  std::vector<ChoiceText> choices_;
  std::vector<std::optional<ChoiceSummary>> done_;
  std::vector<TokenReport> prompt_reports_;
  int finished_ = 0;
  int64_t created_ = unix_time(), said_tokens_ = 0;  // by all choices
};

// ---- /v1/chat/completions

class ChatAnswer : public OpenAiAnswer {
 public:
  using OpenAiAnswer::OpenAiAnswer;

 private:
  const char* object(bool chunk) const override { return chunk ? "chat.completion.chunk" : "chat.completion"; }

  Json logprobs(const std::vector<TokenReport>& reports) const {
    if (asked_.top_logprobs < 0) return nullptr;
    Json content = Json::array();
    auto entry = [&](int32_t id, float value) {
      std::string text = token_text(*service_, id);
      return Json{{"token", text}, {"logprob", value}, {"bytes", bytes_of(text)}};
    };
    for (const TokenReport& r : reports) {
      Json one = entry(r.token, r.logprob);
      one["top_logprobs"] = Json::array();
      for (const auto& [id, value] : r.top) one["top_logprobs"].push_back(entry(id, value));
      content.push_back(std::move(one));
    }
    return {{"content", std::move(content)}, {"refusal", nullptr}};
  }

  static Json call_json(const text::ToolCall& call) {
    return {{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
  }

  Json whole(int index, ChoiceText& c, const ChoiceSummary& done) override {
    Json message = {{"role", "assistant"}, {"content", c.said.content}, {"refusal", nullptr}};
    if (!c.said.reasoning.empty()) message["reasoning_content"] = c.said.reasoning;
    if (!c.said.calls.empty()) {
      if (c.said.content.empty()) message["content"] = nullptr;
      message["tool_calls"] = Json::array();
      for (const text::ToolCall& call : c.said.calls) message["tool_calls"].push_back(call_json(call));
    }
    return {{"index", index},
            {"message", message},
            {"logprobs", logprobs(c.reports)},
            {"finish_reason", finish_name(done, c)}};
  }
  Json part(int index, ChoiceText& c, const text::OutputDelta& said, const ServiceEvent& e) override {
    Json delta = Json::object();
    if (!c.begun) delta["role"] = "assistant";
    if (!said.reasoning.empty()) delta["reasoning_content"] = said.reasoning;
    if (!said.content.empty() || (said.reasoning.empty() && said.calls.empty())) delta["content"] = said.content;
    for (const text::ToolCall& call : said.calls) {
      Json one = call.begins() ? call_json(call) : Json{{"function", {{"arguments", call.arguments}}}};
      one["index"] = call.index;
      delta["tool_calls"].push_back(one);
    }
    return {{"index", index}, {"delta", delta}, {"logprobs", logprobs(e.reports)}, {"finish_reason", nullptr}};
  }
  Json part_end(int index, const std::string& finish) override {
    return {{"index", index}, {"delta", Json::object()}, {"logprobs", nullptr}, {"finish_reason", finish}};
  }
};

// ---- /v1/completions

class CompletionAnswer : public OpenAiAnswer {
 public:
  CompletionAnswer(Asked asked, ModelPool::Service service, std::shared_ptr<Exchange> exchange, std::string echo,
                   std::vector<int32_t> prompt, bool prompt_logprobs)
      : OpenAiAnswer(std::move(asked), std::move(service), std::move(exchange)),
        echo_(std::move(echo)),
        prompt_(std::move(prompt)),
        prompt_logprobs_(prompt_logprobs) {}

 private:
  const char* object(bool) const override { return "text_completion"; }

  void add(Json& l, ChoiceText& c, int32_t token, const Json& logprob,
           const std::vector<std::pair<int32_t, float>>& top) const {
    std::string text = token_text(*service_, token);
    l["tokens"].push_back(text);
    l["token_logprobs"].push_back(logprob);
    Json tops = Json::object();
    for (const auto& [id, value] : top) tops[token_text(*service_, id)] = value;
    l["top_logprobs"].push_back(asked_.top_logprobs > 0 && !logprob.is_null() ? tops : Json());
    l["text_offset"].push_back(c.offset);
    c.offset += static_cast<int64_t>(text.size());
  }

  Json logprobs(ChoiceText& c, const std::vector<TokenReport>& reports, bool with_prompt) const {
    if (asked_.top_logprobs < 0) return nullptr;
    Json l = {{"tokens", Json::array()},
              {"token_logprobs", Json::array()},
              {"top_logprobs", Json::array()},
              {"text_offset", Json::array()}};
    if (with_prompt && prompt_logprobs_) {
      add(l, c, prompt_[0], nullptr, {});
      for (const TokenReport& r : prompt_reports_) add(l, c, r.token, r.logprob, r.top);
    }
    for (const TokenReport& r : reports) add(l, c, r.token, r.logprob, r.top);
    return l;
  }

  Json whole(int index, ChoiceText& c, const ChoiceSummary& done) override {
    Json out = {{"index", index},
                {"text", echo_ + c.said.content},
                {"logprobs", logprobs(c, c.reports, true)},
                {"finish_reason", finish_name(done, c)}};
    if (done.stop_string)
      out["stop_reason"] = *done.stop_string;
    else
      out["stop_reason"] = done.stop_token ? Json(*done.stop_token) : Json();
    return out;
  }
  Json part(int index, ChoiceText& c, const text::OutputDelta&, const ServiceEvent& e) override {
    return {{"index", index},
            {"text", (c.begun ? "" : echo_) + e.text},
            {"logprobs", logprobs(c, e.reports, !c.begun)},
            {"finish_reason", nullptr}};
  }
  Json part_end(int index, const std::string& finish) override {
    return {{"index", index}, {"text", ""}, {"logprobs", nullptr}, {"finish_reason", finish}};
  }

  std::string echo_;
  std::vector<int32_t> prompt_;
  bool prompt_logprobs_;
};

// ---- Requests

void take_stream(Fields& f, Asked& a) {
  a.stream = f.flag("stream").value_or(false);
  if (const Json* options = f.take("stream_options")) {
    if (!a.stream) refuse("stream_options", "'stream_options' needs \"stream\": true");
    Fields o(*options, "stream_options");
    a.include_usage = o.flag("include_usage").value_or(false);
    o.unsupported("include_obfuscation", {false});
    a.continuous_usage = o.flag("continuous_usage_stats").value_or(false);
    o.finish();
  }
}

// Fields of both endpoints with no effect here, by their own definition.
void take_rest(Fields& f) {
  for (const char* name : {"user", "metadata", "safety_identifier", "prompt_cache_key", "store"}) f.ignore(name);
  f.unsupported("service_tier", {"auto", "default"});
  f.unsupported("prompt_cache_retention", {"in_memory", "in-memory"});
  f.unsupported("verbosity", {"medium"});
}

void chat(const App::CallPtr& call) {
  auto body = std::make_shared<Json>(call->body());
  std::string model = Fields(*body).text("model").value_or("");
  call->with_model(model, [call, body](const ModelPool::Service& service, const ModelPool::Named& entry) {
    Fields f(*body);
    f.ignore("model");
    Generation g;
    Asked a;
    a.model = entry.id;
    a.id = new_id("chatcmpl");
    take_sampling(f, *service, g);
    g.form = take_output_form(f);
    take_stream(f, a);
    take_rest(f);
    g.request.choices = a.choices = static_cast<int>(f.integer("n", 1, pipelines::kMostChoices).value_or(1));
    const bool wanted = f.flag("logprobs").value_or(false);
    const auto top = f.integer("top_logprobs", 0, 20);
    if (top && !wanted) refuse("top_logprobs", "'top_logprobs' needs \"logprobs\": true");
    g.request.top_logprobs = a.top_logprobs = wanted ? static_cast<int>(top.value_or(0)) : -1;
    auto most = f.integer("max_completion_tokens", 1, INT32_MAX);
    if (auto old = f.integer("max_tokens", 1, INT32_MAX); old && !most) most = old;
    g.request.max_tokens = most.value_or(0);

    text::ChatInput input;
    input.messages = check_messages(f.require("messages"), "messages");
    input.add_generation_prompt = f.flag("add_generation_prompt").value_or(true);
    input.continue_final_message = f.flag("continue_final_message").value_or(false);
    if (input.continue_final_message) input.add_generation_prompt = false;
    if (const Json* kwargs = f.take("chat_template_kwargs")) input.kwargs = *kwargs;
    if (auto effort = f.text("reasoning_effort")) input.kwargs["reasoning_effort"] = *effort;
    const ToolsAsked tools = take_tools(f);
    f.unsupported("functions", {Json::array()}, "use tools");
    f.unsupported("function_call", {"none", "auto"}, "use tools");
    f.unsupported("modalities", {Json::array({"text"})});
    for (const char* name : {"audio", "prediction", "web_search_options"}) f.unsupported(name);
    f.finish();
    prepare_chat(*service, input, tools, g);
    a.prompt_tokens = static_cast<int64_t>(g.request.prompt.size());
    a.effective = g.effective;
    a.speech = g.speech;
    call->app.generate(call, service, std::move(g.request), std::make_shared<ChatAnswer>(a, service, call->exchange),
                       std::move(g.form));
  });
}

std::vector<int32_t> completion_prompt(const Json& prompt, const TextService& service) {
  auto& pipeline = service.pipeline();
  const Json* one = &prompt;
  if (prompt.is_array() && prompt.size() == 1 && !prompt[0].is_number()) one = &prompt[0];
  if (one->is_string())
    return pipeline.require_tokenizer()
        .encode(one->get<std::string>(), {.add_special_tokens = true, .parse_special = true})
        .ids;
  Json holder = {{"prompt", *one}};
  if (one->is_array() && !one->empty() && one->front().is_number()) return Fields(holder).ids("prompt");
  refuse("prompt", "'prompt' must be a string or a list of token ids; several prompts take several requests");
}

void completions(const App::CallPtr& call) {
  auto body = std::make_shared<Json>(call->body());
  std::string model = Fields(*body).text("model").value_or("");
  call->with_model(model, [call, body](const ModelPool::Service& service, const ModelPool::Named& entry) {
    Fields f(*body);
    f.ignore("model");
    Generation g;
    Asked a;
    a.model = entry.id;
    a.id = new_id("cmpl");
    take_sampling(f, *service, g);
    g.form = take_output_form(f);
    take_stream(f, a);
    take_rest(f);
    g.request.choices = a.choices = static_cast<int>(f.integer("n", 1, pipelines::kMostChoices).value_or(1));
    f.unsupported("best_of", {1, a.choices});
    f.unsupported("suffix", {""});
    const auto top = f.integer("logprobs", 0, 20);
    g.request.top_logprobs = a.top_logprobs = top ? static_cast<int>(*top) : -1;
    g.request.max_tokens = f.integer("max_tokens", 0, INT32_MAX).value_or(16);
    const bool echo = f.flag("echo").value_or(false);
    const auto prompt_top = f.integer("prompt_logprobs", 0, 20);
    if (prompt_top && !top) g.request.top_logprobs = a.top_logprobs = static_cast<int>(*prompt_top);
    g.request.prompt_logprobs = prompt_top || (echo && top);
    g.request.prompt = completion_prompt(f.require("prompt"), *service);
    a.prompt_tokens = static_cast<int64_t>(g.request.prompt.size());
    f.finish();
    if (g.request.max_tokens == 0) refuse("max_tokens", "'max_tokens' must be at least 1");
    a.effective = g.effective;
    std::string echoed;
    if (echo) {
      const Json& prompt = body->at("prompt");
      echoed = prompt.is_string() ? prompt.get<std::string>()
                                  : service->pipeline().require_tokenizer().decode(g.request.prompt);
    }
    auto answer = std::make_shared<CompletionAnswer>(a, service, call->exchange, echoed, g.request.prompt,
                                                     g.request.prompt_logprobs);
    call->app.generate(call, service, std::move(g.request), answer, std::move(g.form));
  });
}

// ---- /v1/models

Json model_json(const ModelPool::Entry& e, int32_t adapter) {
  Json m = {{"id", e.id}, {"object", "model"}, {"created", e.created}, {"owned_by", "tenon"}, {"root", e.id}};
  if (adapter >= 0) {
    m["id"] = e.adapters[static_cast<size_t>(adapter)].name;
    m["parent"] = e.id;
  }
  m["input_modalities"] = {"text"};
  m["loaded"] = e.service != nullptr;
  if (e.service) m["max_model_len"] = e.service->longest();
  if (!e.error.empty()) m["error"] = e.error;
  return m;
}

void models(const App::CallPtr& call) {
  Json data = Json::array();
  for (const auto& e : call->app.pool().entries())
    for (int32_t a = -1; a < static_cast<int32_t>(e->adapters.size()); ++a) data.push_back(model_json(*e, a));
  call->reply({{"object", "list"}, {"data", data}});
}

void model(const App::CallPtr& call) {
  std::string id = call->request.path.substr(std::strlen("/v1/models/"));
  const auto named = id.empty() ? std::nullopt : call->app.pool().find(id);
  if (!named)
    throw ApiError{404, fmt::format("the model '{}' is not served here", printable(id)), "model", "model_not_found"};
  call->reply(model_json(*named->model, named->adapter));
}

std::string base64(std::span<const unsigned char> bytes) {
  constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    for (size_t k = 0; k < 3; ++k) three = three << 8 | (i + k < bytes.size() ? bytes[i + k] : 0u);
    for (size_t k = 0; k < 4; ++k) out += i + k > bytes.size() ? '=' : kAlphabet[three >> (18 - 6 * k) & 63];
  }
  return out;
}

// ---- /v1/embeddings: every input is a request of its own.

class EmbeddingAnswers {
 public:
  EmbeddingAnswers(size_t n, std::string model, bool base64, size_t dimensions, std::shared_ptr<Exchange> exchange)
      : vectors_(n),
        model_(std::move(model)),
        base64_(base64),
        dimensions_(dimensions),
        exchange_(std::move(exchange)) {}

  void set(size_t i, const ServiceEvent& e) {
    vectors_[i] = e.embedding;
    tokens_ += e.done->prompt_tokens;
    if (++done_ < vectors_.size()) return;
    Json data = Json::array();
    for (size_t k = 0; k < vectors_.size(); ++k)
      data.push_back({{"object", "embedding"}, {"index", k}, {"embedding", vector_json(vectors_[k])}});
    Json out = {{"object", "list"},
                {"data", data},
                {"model", model_},
                {"usage", {{"prompt_tokens", tokens_}, {"total_tokens", tokens_}}}};
    exchange_->respond(200, "application/json", out.dump());
  }

 private:
  Json vector_json(std::vector<float>& v) const {
    if (dimensions_ && dimensions_ < v.size()) {  // the first ones, of length 1 again
      v.resize(dimensions_);
      double norm = 0;
      for (float x : v) norm += static_cast<double>(x) * x;
      for (float& x : v) x = static_cast<float>(x / std::sqrt(norm > 0 ? norm : 1));
    }
    if (!base64_) return v;
    return base64({reinterpret_cast<const unsigned char*>(v.data()), v.size() * sizeof(float)});
  }

  std::vector<std::vector<float>> vectors_;
  std::string model_;
  bool base64_;
  size_t dimensions_;
  std::shared_ptr<Exchange> exchange_;
  size_t done_ = 0;
  int64_t tokens_ = 0;
};

class EmbeddingAnswer : public Answer {
 public:
  EmbeddingAnswer(std::shared_ptr<EmbeddingAnswers> all, size_t index) : all_(std::move(all)), index_(index) {}
  void event(const ServiceEvent& e) override {
    if (e.done) all_->set(index_, e);
  }

 private:
  std::shared_ptr<EmbeddingAnswers> all_;
  size_t index_;
};

std::vector<std::vector<int32_t>> embedding_inputs(const Json& input, const TextService& service) {
  std::vector<std::vector<int32_t>> out;
  const bool list = input.is_array() && !input.empty() && !input[0].is_number();
  if (!list) return {completion_prompt(input, service)};
  if (input.size() > 256) refuse("input", "'input' has at most 256 entries");
  for (const Json& one : input) out.push_back(completion_prompt(one, service));
  return out;
}

void embeddings(const App::CallPtr& call) {
  auto body = std::make_shared<Json>(call->body());
  std::string model = Fields(*body).text("model").value_or("");
  call->with_model(model, [call, body](const ModelPool::Service& service, const ModelPool::Named& entry) {
    Fields f(*body);
    f.ignore("model");
    f.ignore("user");
    const std::string format = f.text("encoding_format").value_or("float");
    if (format != "float" && format != "base64") refuse("encoding_format", "'encoding_format' is float or base64");
    const std::string pooling = f.text("pooling").value_or("last");
    if (pooling != "last" && pooling != "mean") refuse("pooling", "'pooling' is last or mean");
    const auto dimensions = f.integer("dimensions", 1, 1 << 20);
    auto inputs = embedding_inputs(f.require("input"), *service);
    f.finish();
    auto all = std::make_shared<EmbeddingAnswers>(inputs.size(), entry.id, format == "base64",
                                                  static_cast<size_t>(dimensions.value_or(0)), call->exchange);
    for (size_t i = 0; i < inputs.size(); ++i) {
      ServiceRequest r;
      r.prompt = std::move(inputs[i]);
      r.max_tokens = 1;
      r.embed = pooling == "mean" ? ServiceRequest::Embed::mean : ServiceRequest::Embed::last;
      call->app.generate(call, service, std::move(r), std::make_shared<EmbeddingAnswer>(all, i));
    }
  });
}

}  // namespace

const std::vector<Route> kOpenAiRoutes = {
    {"POST", "/v1/chat/completions", chat}, {"POST", "/v1/completions", completions},
    {"POST", "/v1/embeddings", embeddings}, {"GET", "/v1/models", models},
    {"GET", "/v1/models/*", model},
};

}  // namespace tenon::server
