// OpenAI's /v1/responses: text and calls of functions; nothing is stored.
#include <fmt/format.h>

#include "server/generation.h"
#include "server/routes.h"
#include "server/speech.h"

namespace tenon::server {
namespace {

using pipelines::ChoiceSummary;

// Items in the order in which they are said: reasoning, messages, function calls.
class ResponseAnswer : public Answer {
 public:
  ResponseAnswer(std::string model, Json echoed, Json effective, bool stream, std::shared_ptr<Exchange> exchange,
                 const Speech& speech)
      : model_(std::move(model)),
        echoed_(std::move(echoed)),
        effective_(std::move(effective)),
        stream_(stream),
        exchange_(std::move(exchange)),
        reader_(speech) {}

  void event(const ServiceEvent& e) override {
    const text::OutputDelta delta = reader_.read(e);
    if (stream_ && !exchange_->begun()) {
      exchange_->begin_stream("text/event-stream");
      send("response.created", {{"response", response(nullptr)}});
      send("response.in_progress", {{"response", response(nullptr)}});
    }
    if (!delta.reasoning.empty()) grow("reasoning", delta.reasoning);
    if (!delta.content.empty()) grow("message", delta.content);
    for (const text::ToolCall& c : delta.calls) grow_call(c);
    if (!e.done) return;
    if (items_.empty()) grow("message", "");
    const bool cut = e.done->finish_reason == "length";
    close(cut ? "incomplete" : "completed");
    if (!stream_) return exchange_->respond(200, "application/json", dump(response(&*e.done)));
    send(cut ? "response.incomplete" : "response.completed", {{"response", response(&*e.done)}});
    exchange_->end();
  }

 private:
  static std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

  void send(const char* type, Json fields) {
    if (!stream_) return;
    Json e = {{"type", type}, {"sequence_number", number_++}};
    e.update(fields);
    exchange_->write(fmt::format("event: {}\n", type) + sse(e));
  }
  Json place() const {
    return {{"item_id", items_.back()["id"]}, {"output_index", static_cast<int64_t>(items_.size()) - 1}};
  }
  Json part_place() const {
    Json p = place();
    p["content_index"] = 0;
    return p;
  }
  static Json with(Json fields, const char* name, const Json& value) {
    fields[name] = value;
    return fields;
  }
  static Json part(bool message, const std::string& text) {
    if (!message) return {{"type", "reasoning_text"}, {"text", text}};
    return {{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
  }
  void open(Json item) {
    items_.push_back(std::move(item));
    open_ = true;
    send("response.output_item.added",
         {{"output_index", static_cast<int64_t>(items_.size()) - 1}, {"item", items_.back()}});
  }

  // More of a message or of reasoning, which begins if something else went before.
  void grow(const char* type, const std::string& text) {
    const bool message = std::string_view(type) == "message";
    if (!open_ || items_.back()["type"] != type) {
      close("completed");
      Json item = {{"type", type}, {"id", new_id(message ? "msg" : "rs")}, {"status", "in_progress"}};
      if (message)
        item["role"] = "assistant";
      else
        item["summary"] = Json::array();
      item["content"] = Json::array();
      open(std::move(item));
      said_.clear();
      send("response.content_part.added", with(part_place(), "part", part(message, "")));
    }
    said_ += text;
    if (text.empty()) return;
    Json delta = with(part_place(), "delta", text);
    if (message) delta["logprobs"] = Json::array();
    send(message ? "response.output_text.delta" : "response.reasoning_text.delta", delta);
  }

  void grow_call(const text::ToolCall& c) {
    if (c.begins()) {
      close("completed");
      open({{"type", "function_call"},
            {"id", new_id("fc")},
            {"call_id", c.id},
            {"name", c.name},
            {"arguments", ""},
            {"status", "in_progress"}});
      said_.clear();
    }
    said_ += c.arguments;
    send("response.function_call_arguments.delta", with(place(), "delta", c.arguments));
  }

  void close(const char* status) {
    if (!std::exchange(open_, false)) return;
    Json& item = items_.back();
    item["status"] = status;
    if (item["type"] == "function_call") {
      item["arguments"] = said_;
      send("response.function_call_arguments.done", with(with(place(), "name", item["name"]), "arguments", said_));
    } else {
      const bool message = item["type"] == "message";
      item["content"] = Json::array({part(message, said_)});
      Json done = with(part_place(), "text", said_);
      if (message) done["logprobs"] = Json::array();
      send(message ? "response.output_text.done" : "response.reasoning_text.done", done);
      send("response.content_part.done", with(part_place(), "part", part(message, said_)));
    }
    send("response.output_item.done", {{"output_index", static_cast<int64_t>(items_.size()) - 1}, {"item", item}});
  }

  Json response(const ChoiceSummary* d) const {
    const bool cut = d && d->finish_reason == "length";
    Json r = {{"id", id_},
              {"object", "response"},
              {"created_at", created_},
              {"status", !d    ? "in_progress"
                         : cut ? "incomplete"
                               : "completed"},
              {"error", nullptr},
              {"incomplete_details", cut ? Json{{"reason", "max_output_tokens"}} : Json()},
              {"model", model_},
              {"output", d ? items_ : Json::array()},
              {"parallel_tool_calls", true},
              {"tool_choice", "auto"},
              {"tools", Json::array()},
              {"text", {{"format", {{"type", "text"}}}}},
              {"truncation", "disabled"},
              {"store", false}};
    r.update(echoed_);
    r["usage"] = nullptr;
    if (d) {
      r["usage"] = {{"input_tokens", d->prompt_tokens},
                    {"input_tokens_details", {{"cached_tokens", d->cached_tokens}}},
                    {"output_tokens", d->completion_tokens},
                    {"output_tokens_details", {{"reasoning_tokens", 0}}},
                    {"total_tokens", d->prompt_tokens + d->completion_tokens}};
      r["timings"] = timings_json(*d);
      r["effective_params"] = effective_;
    }
    return r;
  }

  std::string model_, id_ = new_id("resp"), said_;
  Json echoed_, effective_, items_ = Json::array();
  bool stream_, open_ = false;  // open_: the last item may grow
  std::shared_ptr<Exchange> exchange_;
  SpeechReader reader_;
  int64_t created_ = unix_time(), number_ = 0;
};

// One item that is no message; false: it is one.
bool add_item(const Json& item, const std::string& at, Json& list) {
  Fields m(item, at);
  const std::string type = m.text("type").value_or("message");
  if (type == "message") return false;
  m.ignore("id");
  m.ignore("status");
  if (type == "function_call") {
    Json call = {{"id", m.require("call_id")},
                 {"type", "function"},
                 {"function", {{"name", m.require("name")}, {"arguments", m.require("arguments")}}}};
    // Calls of one turn belong to one message.
    if (list.empty() || !list.back().contains("tool_calls")) {
      if (list.empty() || list.back()["role"] != "assistant") list.push_back({{"role", "assistant"}, {"content", ""}});
      list.back()["tool_calls"] = Json::array();
    }
    list.back()["tool_calls"].push_back(call);
  } else if (type == "function_call_output") {
    list.push_back({{"role", "tool"}, {"tool_call_id", m.require("call_id")}, {"content", m.require("output")}});
  } else if (type == "reasoning") {
    for (const char* name : {"summary", "content", "encrypted_content"}) m.ignore(name);
  } else {
    refuse(at + ".type", fmt::format("'{}.type' is '{}', which is not supported", at, printable(type)), 400,
           "unsupported_content");
  }
  m.finish();
  return true;
}

Json input_messages(const Json& input, const std::optional<std::string>& instructions) {
  Json list = Json::array();
  if (instructions) list.push_back({{"role", "system"}, {"content", *instructions}});
  if (input.is_string()) {
    list.push_back({{"role", "user"}, {"content", input}});
    return list;
  }
  if (!input.is_array()) refuse("input", "'input' must be a string or a list of messages");
  for (size_t i = 0; i < input.size(); ++i) {
    const std::string at = fmt::format("input[{}]", i);
    if (add_item(input[i], at, list)) continue;
    Fields m(input[i], at);
    m.ignore("type");
    m.ignore("id");
    m.ignore("status");
    Json message = Json::object();
    for (const char* name : {"role", "content"}) message[name] = m.require(name);
    m.finish();
    list.push_back(message);
  }
  return list;
}

void responses(const App::CallPtr& call) {
  auto body = std::make_shared<Json>(call->body());
  std::string model = Fields(*body).text("model").value_or("");
  call->with_model(model, [call, body](const ModelPool::Service& service, const ModelPool::Named& entry) {
    Fields f(*body);
    f.ignore("model");
    Generation g;
    take_sampling(f, *service, g);
    const bool stream = f.flag("stream").value_or(false);
    f.unsupported("stream_options", {Json::object()});
    g.request.max_tokens = f.integer("max_output_tokens", 1, INT32_MAX).value_or(0);
    const auto instructions = f.text("instructions");
    text::ChatInput input;
    input.messages = check_messages(input_messages(f.require("input"), instructions), "input");
    input.add_generation_prompt = true;
    for (const char* name : {"user", "safety_identifier", "prompt_cache_key", "metadata", "include", "store"})
      f.ignore(name);
    f.unsupported("background", {false});
    const ToolsAsked tools = take_tools(f);
    if (const Json* text = f.take("text")) {
      Fields t(*text, "text");
      if (const Json* format = t.take("format")) g.form = output_format(*format, "text.format");
      t.unsupported("verbosity", {"medium"});
      t.finish();
    }
    f.unsupported("truncation", {"disabled"});
    f.unsupported("service_tier", {"auto", "default"});
    f.unsupported("top_logprobs", {0});
    if (const Json* reasoning = f.take("reasoning")) {
      Fields r(*reasoning, "reasoning");
      if (auto effort = r.text("effort")) input.kwargs["reasoning_effort"] = *effort;
      for (const char* name : {"summary", "generate_summary"}) r.ignore(name);
      r.finish();
    }
    for (const char* name : {"previous_response_id", "conversation", "prompt", "max_tool_calls"})
      f.unsupported(name, {}, "nothing is stored; send the conversation as input");
    f.finish();
    Json echoed = Json::object();
    echoed["instructions"] = instructions ? Json(*instructions) : Json();
    echoed["metadata"] = body->value("metadata", Json::object());
    echoed["max_output_tokens"] = g.request.max_tokens ? Json(g.request.max_tokens) : Json();
    echoed["temperature"] = g.request.sampling.temperature;
    echoed["top_p"] = g.request.sampling.top_p;
    if (body->contains("text")) echoed["text"] = body->at("text");
    for (const char* name : {"tools", "tool_choice", "parallel_tool_calls"})
      if (body->contains(name)) echoed[name] = body->at(name);
    prepare_chat(*service, input, tools, g);
    auto answer = std::make_shared<ResponseAnswer>(entry.id, echoed, g.effective, stream, call->exchange, g.speech);
    call->app.generate(call, service, std::move(g.request), answer, std::move(g.form));
  });
}

}  // namespace

const std::vector<Route> kResponseRoutes = {{"POST", "/v1/responses", responses}};

}  // namespace tenon::server
