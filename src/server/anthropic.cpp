// Anthropic's Messages API.
#include <fmt/format.h>

#include "base/error.h"
#include "server/generation.h"
#include "server/routes.h"
#include "server/speech.h"

namespace tenon::server {
namespace {

using pipelines::ChoiceSummary;

std::string named_event(const char* name, Json json) { return fmt::format("event: {}\n", name) + sse(json); }

Json stop_fields(const ChoiceSummary& d, bool called) {
  const bool stopped = d.stop_string.has_value();
  return {{"stop_reason", stopped                       ? "stop_sequence"
                          : d.finish_reason == "length" ? "max_tokens"
                          : called                      ? "tool_use"
                                                        : "end_turn"},
          {"stop_sequence", stopped ? Json(*d.stop_string) : Json()}};
}

Json usage(const ChoiceSummary& d) {
  return {{"input_tokens", d.prompt_tokens - d.cached_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", d.cached_tokens},
          {"output_tokens", d.completion_tokens}};
}

// Blocks in the order in which they are said: thinking, text, tool_use.
class MessageAnswer : public Answer {
 public:
  MessageAnswer(std::string model, int64_t prompt, bool stream, std::shared_ptr<Exchange> exchange,
                const Speech& speech)
      : model_(std::move(model)), prompt_(prompt), stream_(stream), exchange_(std::move(exchange)), reader_(speech) {}

  void event(const ServiceEvent& e) override {
    const text::OutputDelta delta = reader_.read(e);
    std::string out;
    if (stream_ && !exchange_->begun()) {
      exchange_->begin_stream("text/event-stream");
      out += named_event("message_start", {{"type", "message_start"}, {"message", message(Json::array())}});
    }
    if (!delta.reasoning.empty()) out += add("thinking", "thinking_delta", delta.reasoning);
    if (!delta.content.empty()) out += add("text", "text_delta", delta.content);
    for (const text::ToolCall& c : delta.calls) {
      if (c.begins()) {
        out += close();
        blocks_.push_back({{"type", "tool_use"}, {"id", c.id}, {"name", c.name}, {"input", Json::object()}});
        out += open();
        input_.clear();
      }
      out += piece({{"type", "input_json_delta"}, {"partial_json", c.arguments}});
      input_ += c.arguments;
    }
    if (e.done) {
      if (blocks_.empty()) out += add("text", "text_delta", "");
      out += close();
    }
    if (!stream_) {
      if (e.done) whole(*e.done);
      return;
    }
    if (e.done) {
      out += named_event(
          "message_delta",
          {{"type", "message_delta"}, {"delta", stop_fields(*e.done, reader_.called())}, {"usage", usage(*e.done)}});
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
  int64_t index() const { return static_cast<int64_t>(blocks_.size()) - 1; }
  std::string open() {
    open_ = true;
    return named_event("content_block_start",
                       {{"type", "content_block_start"}, {"index", index()}, {"content_block", blocks_.back()}});
  }
  std::string piece(const Json& delta) const {
    return named_event("content_block_delta", {{"type", "content_block_delta"}, {"index", index()}, {"delta", delta}});
  }
  std::string close() {
    if (!std::exchange(open_, false)) return "";
    // Of an answer that was cut off it may be no JSON.
    if (Json& b = blocks_.back(); b["type"] == "tool_use")
      if (Json input = Json::parse(input_, nullptr, false); input.is_object()) b["input"] = std::move(input);
    return named_event("content_block_stop", {{"type", "content_block_stop"}, {"index", index()}});
  }
  // More of a block of text, which begins if another kind went before. `kind` names its type and its field.
  std::string add(const char* kind, const char* delta_type, const std::string& text) {
    std::string out;
    if (!open_ || blocks_.back()["type"] != kind) {
      out += close();
      blocks_.push_back({{"type", kind}, {kind, ""}});
      if (std::string_view(kind) == "thinking") blocks_.back()["signature"] = "";
      out += open();
    }
    blocks_.back()[kind] = blocks_.back()[kind].get<std::string>() + text;
    if (!text.empty()) out += piece({{"type", delta_type}, {kind, text}});
    return out;
  }
  void whole(const ChoiceSummary& d) {
    Json m = message(blocks_);
    m.update(stop_fields(d, reader_.called()));
    m["usage"] = usage(d);
    m["timings"] = timings_json(d);
    exchange_->respond(200, "application/json", m.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

  std::string model_, id_ = new_id("msg");
  int64_t prompt_;
  bool stream_;
  std::shared_ptr<Exchange> exchange_;
  SpeechReader reader_;
  Json blocks_ = Json::array();
  std::string input_;  // of the call that is the last block
  bool open_ = false;  // the last block may grow
};

// A message's blocks -> OpenAI's messages: results of tools become messages of their own.
void add_message(const Json& m, const std::string& at, Json& out) {
  Fields f(m, at);
  const Json& role = f.require("role");
  const Json* content = f.take("content");
  f.finish();
  if (!content || !content->is_array()) {
    out.push_back({{"role", role}, {"content", content ? *content : Json()}});
    return;
  }
  Json message = {{"role", role}, {"content", Json::array()}};
  for (size_t i = 0; i < content->size(); ++i) {
    const std::string where = fmt::format("{}.content[{}]", at, i);
    Fields block((*content)[i], where);
    const std::string type = block.text("type").value_or("");
    if (type == "tool_use") {
      message["tool_calls"].push_back(
          {{"id", block.require("id")},
           {"type", "function"},
           {"function", {{"name", block.require("name")}, {"arguments", block.require("input")}}}});
    } else if (type == "tool_result") {
      const Json* result = block.take("content");
      block.flag("is_error");
      out.push_back(
          {{"role", "tool"}, {"tool_call_id", block.require("tool_use_id")}, {"content", result ? *result : Json("")}});
    } else if (type == "thinking") {
      block.ignore("signature");
      message["reasoning_content"] = block.require("thinking");
    } else {
      message["content"].push_back((*content)[i]);
      continue;
    }
    for (const char* name : {"cache_control", "caller"}) block.ignore(name);
    block.finish();
  }
  if (!message["content"].empty() || message.contains("tool_calls")) {
    if (message["content"].empty()) message["content"] = "";
    out.push_back(message);
  }
}

// {"name", "description", "input_schema"} -> OpenAI's tools.
ToolsAsked take_anthropic_tools(Fields& f) {
  ToolsAsked out;
  if (const Json* tools = f.take("tools"); tools && !(tools->is_array() && tools->empty())) {
    if (!tools->is_array()) refuse("tools", "'tools' must be a list");
    out.tools = Json::array();
    for (size_t i = 0; i < tools->size(); ++i) {
      Fields t((*tools)[i], fmt::format("tools[{}]", i));
      if (t.text("type").value_or("custom") != "custom")
        refuse(t.path("type"), fmt::format("'{}': tools that the server runs are not supported", t.path("type")), 400,
               "unsupported_value");
      Json fn = {{"name", t.require("name")}};
      if (auto text = t.text("description")) fn["description"] = *text;
      fn["parameters"] = t.require("input_schema");
      t.ignore("cache_control");
      t.finish();
      out.tools.push_back({{"type", "function"}, {"function", fn}});
    }
    check_tools(out.tools, "tools");
  }
  if (const Json* choice = f.take("tool_choice")) {
    Fields c(*choice, "tool_choice");
    const std::string kind = c.text("type").value_or("");
    out.parallel = !c.flag("disable_parallel_tool_use").value_or(false);
    if (kind == "tool") {
      out.choice = {text::ToolChoice::Kind::named, c.text("name").value_or("")};
    } else if (kind == "any") {
      out.choice.kind = text::ToolChoice::Kind::required;
    } else if (kind == "none") {
      out.off = true;
    } else if (kind != "auto") {
      refuse("tool_choice.type", "'tool_choice.type' is auto, any, tool or none");
    }
    c.finish();
    if ((kind == "tool" || kind == "any") && out.tools.is_null()) refuse("tool_choice", "'tool_choice' needs 'tools'");
  }
  return out;
}

// What both endpoints read: system and messages.
text::ChatInput take_messages(Fields& f) {
  Json list = Json::array();
  if (const Json* system = f.take("system")) list.push_back({{"role", "system"}, {"content", *system}});
  const Json& messages = f.require("messages");
  if (!messages.is_array()) refuse("messages", "'messages' must be a list");
  for (size_t i = 0; i < messages.size(); ++i) add_message(messages[i], fmt::format("messages[{}]", i), list);
  text::ChatInput input;
  input.messages = check_messages(list, "messages");
  // An assistant's message at the end is the beginning of the answer.
  input.continue_final_message = input.messages.back()["role"] == "assistant";
  input.add_generation_prompt = !input.continue_final_message;
  if (const Json* thinking = f.take("thinking")) {
    Fields t(*thinking, "thinking");
    input.kwargs["enable_thinking"] = t.text("type").value_or("") != "disabled";
    t.integer("budget_tokens", 0, INT32_MAX);
    t.finish();
  }
  return input;
}

void messages(const App::CallPtr& call) {
  auto body = std::make_shared<Json>(call->body());
  std::string model = Fields(*body).text("model").value_or("");
  call->with_model(model, [call, body](const ModelPool::Service& service, const ModelPool::Named& entry) {
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
    const text::ChatInput input = take_messages(f);
    const ToolsAsked tools = take_anthropic_tools(f);
    f.finish();
    prepare_chat(*service, input, tools, g);
    auto answer = std::make_shared<MessageAnswer>(entry.id, static_cast<int64_t>(g.request.prompt.size()), stream,
                                                  call->exchange, g.speech);
    call->app.generate(call, service, std::move(g.request), answer, std::move(g.form));
  });
}

void count_tokens(const App::CallPtr& call) {
  auto body = std::make_shared<Json>(call->body());
  std::string model = Fields(*body).text("model").value_or("");
  call->with_model(model, [call, body](const ModelPool::Service& service, const ModelPool::Named&) {
    Fields f(*body);
    f.ignore("model");
    text::ChatInput input = take_messages(f);
    if (ToolsAsked tools = take_anthropic_tools(f); !tools.tools.is_null()) input.tools = tools.tools;
    f.finish();
    call->reply(Json{{"input_tokens", render_chat(*service, input).tokens.size()}});
  });
}

}  // namespace

const std::vector<Route> kAnthropicRoutes = {
    {"POST", "/v1/messages", messages, anthropic_error},
    {"POST", "/v1/messages/count_tokens", count_tokens, anthropic_error},
};

}  // namespace tenon::server
