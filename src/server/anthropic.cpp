// Anthropic's Messages API.
#include <fmt/format.h>

#include "base/error.h"
#include "server/generation.h"
#include "server/routes.h"

namespace tenon::server {
namespace {

using pipelines::ChoiceSummary;

std::string named_event(const char* name, Json json) { return fmt::format("event: {}\n", name) + sse(json); }

Json stop_fields(const ChoiceSummary& d) {
  const bool stopped = d.stop_string.has_value();
  return {{"stop_reason", stopped                       ? "stop_sequence"
                          : d.finish_reason == "length" ? "max_tokens"
                                                        : "end_turn"},
          {"stop_sequence", stopped ? Json(*d.stop_string) : Json()}};
}

Json usage(const ChoiceSummary& d) {
  return {{"input_tokens", d.prompt_tokens - d.cached_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", d.cached_tokens},
          {"output_tokens", d.completion_tokens}};
}

class MessageAnswer : public Answer {
 public:
  MessageAnswer(std::string model, int64_t prompt, bool stream, std::shared_ptr<Exchange> exchange)
      : model_(std::move(model)), prompt_(prompt), stream_(stream), exchange_(std::move(exchange)) {}

  void event(const ServiceEvent& e) override {
    if (!stream_) {
      text_ += e.text;
      if (e.done) whole(*e.done);
      return;
    }
    std::string out;
    if (!exchange_->begun()) {
      exchange_->begin_stream("text/event-stream");
      out += named_event("message_start", {{"type", "message_start"}, {"message", message(Json::array())}});
      out += named_event(
          "content_block_start",
          {{"type", "content_block_start"}, {"index", 0}, {"content_block", {{"type", "text"}, {"text", ""}}}});
    }
    if (!e.text.empty())
      out += named_event(
          "content_block_delta",
          {{"type", "content_block_delta"}, {"index", 0}, {"delta", {{"type", "text_delta"}, {"text", e.text}}}});
    if (e.done) {
      out += named_event("content_block_stop", {{"type", "content_block_stop"}, {"index", 0}});
      out += named_event("message_delta",
                         {{"type", "message_delta"}, {"delta", stop_fields(*e.done)}, {"usage", usage(*e.done)}});
      out += named_event("message_stop", {{"type", "message_stop"}});
    }
    exchange_->write(out);
    if (e.done) exchange_->end();
  }

 private:
  Json message(const Json& content) const {
    return {{"id", id_},
            {"type", "message"},
            {"role", "assistant"},
            {"model", model_},
            {"content", content},
            {"stop_reason", nullptr},
            {"stop_sequence", nullptr},
            {"usage", {{"input_tokens", prompt_}, {"output_tokens", 0}}}};
  }
  void whole(const ChoiceSummary& d) {
    Json m = message(Json::array({{{"type", "text"}, {"text", text_}}}));
    m.update(stop_fields(d));
    m["usage"] = usage(d);
    m["timings"] = timings_json(d);
    exchange_->respond(200, "application/json", m.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

  std::string model_, text_, id_ = new_id("msg");
  int64_t prompt_;
  bool stream_;
  std::shared_ptr<Exchange> exchange_;
};

// What both endpoints read: system and messages.
text::ChatInput take_messages(Fields& f) {
  Json list = Json::array();
  if (const Json* system = f.take("system")) list.push_back({{"role", "system"}, {"content", *system}});
  for (const Json& m : f.require("messages")) list.push_back(m);
  text::ChatInput input;
  input.messages = check_messages(list, "messages");
  // An assistant's message at the end is the beginning of the answer.
  input.continue_final_message = input.messages.back()["role"] == "assistant";
  input.add_generation_prompt = !input.continue_final_message;
  if (const Json* tools = f.take("tools"); tools && !tools->empty())
    refuse("tools", "tool calls are not built in", 400, "unsupported_field");
  f.unsupported("tool_choice", {{{"type", "auto"}}, {{"type", "none"}}}, "tool calls are not built in");
  f.unsupported("thinking", {{{"type", "disabled"}}});
  return input;
}

void messages(const App::CallPtr& call) {
  auto body = std::make_shared<Json>(call->body());
  std::string model = Fields(*body).text("model").value_or("");
  call->with_model(model, [call, body](const ModelPool::Service& service, const ModelPool::Entry& entry) {
    Fields f(*body);
    f.ignore("model");
    f.ignore("metadata");
    f.unsupported("service_tier", {"auto", "standard_only"});
    Generation g;
    if (f.take("stop"))
      refuse("stop", "'stop' is not a field of this request; use stop_sequences", 400, "unknown_field");
    take_sampling(f, *service, g);
    g.request.stop = f.texts("stop_sequences", 16);
    f.require("max_tokens");
    g.request.max_tokens = f.integer("max_tokens", 1, INT32_MAX).value_or(1);
    const bool stream = f.flag("stream").value_or(false);
    if (const Json* format = f.take("output_format")) g.form = output_format(*format, "output_format");
    if (const Json* config = f.take("output_config")) {
      Fields c(*config, "output_config");
      if (const Json* format = c.take("format")) g.form = output_format(*format, "output_config.format");
      c.finish();
    }
    text::ChatInput input = take_messages(f);
    f.finish();
    g.request.prompt = chat_tokens(*service, input);
    auto answer = std::make_shared<MessageAnswer>(entry.id, static_cast<int64_t>(g.request.prompt.size()), stream,
                                                  call->exchange);
    call->app.generate(call, service, std::move(g.request), answer, std::move(g.form));
  });
}

void count_tokens(const App::CallPtr& call) {
  auto body = std::make_shared<Json>(call->body());
  std::string model = Fields(*body).text("model").value_or("");
  call->with_model(model, [call, body](const ModelPool::Service& service, const ModelPool::Entry&) {
    Fields f(*body);
    f.ignore("model");
    text::ChatInput input = take_messages(f);
    f.finish();
    call->reply({{"input_tokens", chat_tokens(*service, input).size()}});
  });
}

}  // namespace

const std::vector<Route> kAnthropicRoutes = {
    {"POST", "/v1/messages", messages, anthropic_error},
    {"POST", "/v1/messages/count_tokens", count_tokens, anthropic_error},
};

}  // namespace tenon::server
