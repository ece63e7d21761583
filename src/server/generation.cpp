#include "server/generation.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <random>

#include "base/error.h"

namespace tenon::server {
namespace {

constexpr size_t kMostStops = 16;

// Chance is the server's only where nobody asked for a seed.
uint64_t random_seed() {
  static std::random_device device;
  return (uint64_t{device()} << 32 | device()) & 0x7FFFFFFFFFFFFFFF;
}

template <class T, class V>
void take_value(Generation& g, const char* name, T& value, const T& builtin, const std::optional<V>& wanted) {
  const char* source = wanted ? "request" : value != builtin ? "generation_config" : "builtin";
  if (wanted) value = static_cast<T>(*wanted);
  set_effective(g, name, value, source);
}

void take_logit_bias(Fields& f, Generation& g) {
  const Json* bias = f.take("logit_bias");
  if (!bias) return;
  if (!bias->is_object() || bias->size() > 1024)
    refuse(f.path("logit_bias"), "'logit_bias' must be an object of at most 1024 token ids and numbers");
  for (const auto& [key, value] : bias->items()) {
    char* end = nullptr;
    const long id = std::strtol(key.c_str(), &end, 10);
    if (key.empty() || *end || id < 0 || id > INT32_MAX || !value.is_number() ||
        !(std::abs(value.get<double>()) <= 100))
      refuse(f.path("logit_bias"), "'logit_bias' must name token ids, with numbers from -100 to 100");
    g.request.sampling.logit_bias.emplace_back(static_cast<int32_t>(id), value.get<float>());
  }
  set_effective(g, "logit_bias", *bias, "request");
}

std::string part_text(const Json& part, const std::string& field) {
  Fields p(part, field);
  const std::string type = p.text("type").value_or("");
  if (type != "text" && type != "input_text" && type != "output_text")
    refuse(field, fmt::format("'{}': content of type '{}' is not supported by this model", field, printable(type)), 400,
           "unsupported_content");
  std::string text = p.text("text").value_or("");
  for (const char* name : {"annotations", "logprobs", "cache_control", "citations", "parsed_output"}) p.ignore(name);
  p.finish();
  return text;
}

// Calls that were made: templates print arguments as the object they are.
Json check_calls(const Json& calls, const std::string& field) {
  if (!calls.is_array()) refuse(field, fmt::format("'{}' must be a list of calls", field));
  Json out = calls;
  for (size_t i = 0; i < out.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", field, i);
    if (!out[i].is_object() || !out[i].contains("function") || !out[i]["function"].is_object() ||
        !out[i]["function"].contains("name"))
      refuse(at, fmt::format("'{}' must be {{\"id\", \"type\": \"function\", \"function\": {{...}}}}", at));
    Json& arguments = out[i]["function"]["arguments"];
    if (arguments.is_null()) arguments = Json::object();
    if (!arguments.is_string()) continue;
    try {
      const std::string text = arguments.get<std::string>();
      arguments = text.empty() ? Json::object() : parse_json(text, at, 64);
    } catch (const Error&) {
      refuse(at + ".function.arguments", fmt::format("'{}.function.arguments' is no JSON", at));
    }
  }
  return out;
}

}  // namespace

void set_effective(Generation& g, const std::string& name, const Json& value, const char* source) {
  g.effective[name] = {{"value", value}, {"source", source}};
}

void take_sampling(Fields& f, const TextService& service, Generation& g) {
  ServiceRequest& r = g.request;
  const runtime::SamplingOptions none;
  runtime::SamplingOptions& s = r.sampling = service.pipeline().default_sampling();
  take_value(g, "temperature", s.temperature, none.temperature, f.number("temperature", 0, 100));
  std::optional<int64_t> top_k = f.integer("top_k", -1, INT32_MAX);
  if (top_k && *top_k < 0) top_k = 0;
  take_value(g, "top_k", s.top_k, none.top_k, top_k);
  take_value(g, "top_p", s.top_p, none.top_p, f.number("top_p", 0, 1));
  take_value(g, "min_p", s.min_p, none.min_p, f.number("min_p", 0, 1));
  take_value(g, "typical_p", s.typical_p, none.typical_p, f.number("typical_p", 0, 1));
  std::optional<double> repetition = f.number("repetition_penalty", 0, 100);
  if (auto alias = f.number("repeat_penalty", 0, 100)) repetition = alias;
  take_value(g, "repetition_penalty", s.repetition_penalty, none.repetition_penalty, repetition);
  take_value(g, "presence_penalty", s.presence_penalty, none.presence_penalty, f.number("presence_penalty", -2, 2));
  take_value(g, "frequency_penalty", s.frequency_penalty, none.frequency_penalty, f.number("frequency_penalty", -2, 2));
  if (s.top_p == 0) s.top_p = 1e-9;  // the likeliest alone
  const std::optional<int64_t> seed = f.integer("seed", INT64_MIN, INT64_MAX);
  s.seed = seed ? static_cast<uint64_t>(*seed) : random_seed();
  set_effective(g, "seed", s.seed, seed ? "request" : "server");
  take_logit_bias(f, g);

  r.stop = f.texts("stop", kMostStops);
  for (const std::string& stop : r.stop)
    if (stop.size() > 1024) refuse("stop", "a stop string has at most 1024 bytes");
  r.stop_token_ids = f.ids("stop_token_ids");
  r.include_stop = f.flag("include_stop_str_in_output").value_or(false);
  r.ignore_eos = f.flag("ignore_eos").value_or(false);
  r.min_tokens = f.integer("min_tokens", 0, 1 << 20).value_or(0);
  r.skip_special_tokens = f.flag("skip_special_tokens").value_or(true);
  r.allowed_token_ids = f.ids("allowed_token_ids");
  r.priority = static_cast<int>(f.integer("priority", -1000000, 1000000).value_or(0));
  r.timeout_s = f.number("timeout", 0.001, 1e6);
}

Json check_messages(const Json& messages, const std::string& field) {
  if (!messages.is_array() || messages.empty())
    refuse(field, fmt::format("'{}' must be a list of at least one message", field));
  Json out = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", field, i);
    Fields m(messages[i], at);
    const Json& role = m.require("role");
    Json message = {{"role", role}};
    if (!role.is_string()) refuse(at + ".role", fmt::format("'{}.role' must be a string", at));
    std::string name = role.get<std::string>();
    if (name == "developer")
      message["role"] = "system";
    else if (name != "system" && name != "user" && name != "assistant" && name != "tool")
      refuse(at + ".role", fmt::format("'{}.role' is '{}', not system, user, assistant or tool", at, printable(name)));
    const Json* content = m.take("content");
    if (content && content->is_array()) {
      std::string text;
      for (size_t k = 0; k < content->size(); ++k)
        text += part_text((*content)[k], fmt::format("{}.content[{}]", at, k));
      message["content"] = text;
    } else if (content && content->is_string()) {
      message["content"] = *content;
    } else if (content) {
      refuse(at + ".content", fmt::format("'{}.content' must be a string or a list of parts", at));
    } else if (name != "assistant") {
      refuse(at + ".content", fmt::format("'{}.content' is required", at), 400, "missing_field");
    } else {
      message["content"] = "";
    }
    for (const char* known : {"name", "tool_call_id", "reasoning_content"})
      if (const Json* v = m.take(known)) message[known] = *v;
    if (const Json* calls = m.take("tool_calls")) message["tool_calls"] = check_calls(*calls, at + ".tool_calls");
    for (const char* known : {"refusal", "audio", "annotations", "function_call"})
      m.unsupported(known, {Json::array()});
    m.finish();
    out.push_back(message);
  }
  return out;
}

pipelines::Prompt render_chat(TextService& service, const text::ChatInput& input) {
  const pipelines::ChatForm& form = service.chats().get(!input.tools.is_null());
  return pipelines::chat_prompt(service.pipeline().require_tokenizer(), form.chat_template, input);
}

Json usage_json(int64_t prompt_tokens, int64_t completion_tokens) {
  return {{"prompt_tokens", prompt_tokens},
          {"completion_tokens", completion_tokens},
          {"total_tokens", prompt_tokens + completion_tokens}};
}

Json usage_json(const std::vector<pipelines::ChoiceSummary>& choices) {
  int64_t prompt = 0, cached = 0, completion = 0;
  for (const auto& c : choices) {
    prompt = c.prompt_tokens;
    completion += c.completion_tokens;
  }
  if (!choices.empty()) cached = choices.front().cached_tokens;
  Json usage = usage_json(prompt, completion);
  usage["prompt_tokens_details"] = {{"cached_tokens", cached}};
  return usage;
}

Json timings_json(const pipelines::ChoiceSummary& c) {
  auto ms = [](double s) { return std::round(s * 1e6) / 1e3; };
  return {{"queue_ms", ms(c.queue_s)},
          {"prefill_ms", ms(c.prefill_s)},
          {"decode_ms", ms(c.decode_s)},
          {"first_token_ms", ms(c.first_token_s)},
          {"preemptions", c.preemptions}};
}

std::string new_id(const char* prefix) {
  static std::mt19937_64 random(random_seed());
  return fmt::format("{}-{:016x}", prefix, random());
}

int64_t unix_time() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string sse(const Json& json) {
  return "data: " + json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n\n";
}

}  // namespace tenon::server
