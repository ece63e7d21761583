// OpenAI's /v1/responses: text in, text out; nothing is stored.
#include <fmt/format.h>

#include "server/generation.h"
#include "server/routes.h"

namespace tenon::server {
namespace {

using pipelines::ChoiceSummary;

class ResponseAnswer : public Answer {
 public:
  ResponseAnswer(std::string model, Json echoed, Json effective, bool stream, std::shared_ptr<Exchange> exchange)
      : model_(std::move(model)),
        echoed_(std::move(echoed)),
        effective_(std::move(effective)),
        stream_(stream),
        exchange_(std::move(exchange)) {}

  void event(const ServiceEvent& e) override {
    if (!stream_) {
      text_ += e.text;
      if (e.done) exchange_->respond(200, "application/json", dump(response(e.done ? &*e.done : nullptr)));
      return;
    }
    if (!exchange_->begun()) begin();
    if (!e.text.empty()) {
      text_ += e.text;
      send("response.output_text.delta", {{"item_id", item_id_},
                                          {"output_index", 0},
                                          {"content_index", 0},
                                          {"delta", e.text},
                                          {"logprobs", Json::array()}});
    }
    if (e.done) finish(*e.done);
  }

 private:
  static std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

  void send(const char* type, Json fields) {
    Json e = {{"type", type}, {"sequence_number", number_++}};
    e.update(fields);
    exchange_->write(fmt::format("event: {}\n", type) + sse(e));
  }

  Json part() const {
    return {{"type", "output_text"}, {"text", text_}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
  }
  Json item(const char* status, bool with_part) const {
    return {{"type", "message"},
            {"id", item_id_},
            {"status", status},
            {"role", "assistant"},
            {"content", with_part ? Json::array({part()}) : Json::array()}};
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
              {"output", d ? Json::array({item(cut ? "incomplete" : "completed", true)}) : Json::array()},
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

  void begin() {
    exchange_->begin_stream("text/event-stream");
    send("response.created", {{"response", response(nullptr)}});
    send("response.in_progress", {{"response", response(nullptr)}});
    send("response.output_item.added", {{"output_index", 0}, {"item", item("in_progress", false)}});
    send("response.content_part.added",
         {{"item_id", item_id_}, {"output_index", 0}, {"content_index", 0}, {"part", part()}});
  }

  void finish(const ChoiceSummary& d) {
    const Json place = {{"item_id", item_id_}, {"output_index", 0}, {"content_index", 0}};
    Json done = place, whole = place;
    done["text"] = text_;
    done["logprobs"] = Json::array();
    whole["part"] = part();
    send("response.output_text.done", done);
    send("response.content_part.done", whole);
    const bool cut = d.finish_reason == "length";
    send("response.output_item.done", {{"output_index", 0}, {"item", item(cut ? "incomplete" : "completed", true)}});
    send(cut ? "response.incomplete" : "response.completed", {{"response", response(&d)}});
    exchange_->end();
  }

  std::string model_, text_, id_ = new_id("resp"), item_id_ = new_id("msg");
  Json echoed_, effective_;
  bool stream_;
  std::shared_ptr<Exchange> exchange_;
  int64_t created_ = unix_time(), number_ = 0;
};

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
    Fields m(input[i], at);
    if (m.text("type").value_or("message") != "message")
      refuse(at + ".type", fmt::format("'{}.type': only messages are supported", at), 400, "unsupported_content");
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
  call->with_model(model, [call, body](const ModelPool::Service& service, const ModelPool::Entry& entry) {
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
    f.unsupported("tools", {Json::array()}, "tool calls are not built in");
    f.unsupported("tool_choice", {"auto", "none"});
    f.unsupported("parallel_tool_calls", {true, false});
    if (const Json* text = f.take("text")) {
      Fields t(*text, "text");
      if (const Json* format = t.take("format")) g.form = output_format(*format, "text.format");
      t.unsupported("verbosity", {"medium"});
      t.finish();
    }
    f.unsupported("truncation", {"disabled"});
    f.unsupported("service_tier", {"auto", "default"});
    f.unsupported("top_logprobs", {0});
    f.unsupported("reasoning", {Json::object()});
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
    g.request.prompt = chat_tokens(*service, input);
    auto answer = std::make_shared<ResponseAnswer>(entry.id, echoed, g.effective, stream, call->exchange);
    call->app.generate(call, service, std::move(g.request), answer, std::move(g.form));
  });
}

}  // namespace

const std::vector<Route> kResponseRoutes = {{"POST", "/v1/responses", responses}};

}  // namespace tenon::server
