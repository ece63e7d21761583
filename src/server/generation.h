// What the APIs' generation requests share: sampling fields, where each value came from, prompts, usage.
#pragma once
#include <memory>
#include <string>

#include "server/app.h"
#include "text/tool_calls.h"

namespace tenon::server {

using pipelines::ServiceEvent;
using pipelines::ServiceRequest;
using pipelines::TextService;

// How an answer is read; without a format all of it is content.
struct Speech {
  const text::ToolFormat* format = nullptr;
  Json tools;  // null: none may be called
  bool reasoning_open = false;
  std::string call_id;  // ids of calls are this and a number
};

// A request as it will run, and where its sampling values came from.
struct Generation {
  ServiceRequest request;
  std::optional<OutputForm> form;
  Speech speech;
  Json effective = Json::object();  // name -> {"value", "source": request | generation_config | server | builtin}
};

// Takes the sampling fields that OpenAI's and vLLM's requests name, all but max_tokens, n and logprobs.
void take_sampling(Fields& f, const TextService& service, Generation& g);
// One sampling value set by the request under another API's name.
void set_effective(Generation& g, const std::string& name, const Json& value, const char* source);

// The chat prompt of messages that are checked and of the template's form.
pipelines::Prompt render_chat(TextService& service, const text::ChatInput& input);
// OpenAI's messages -> the template's: parts of text are joined. Throws ApiError naming the message.
Json check_messages(const Json& messages, const std::string& field);

Json usage_json(int64_t prompt_tokens, int64_t completion_tokens);
Json usage_json(const std::vector<pipelines::ChoiceSummary>& choices);
Json timings_json(const pipelines::ChoiceSummary& choice);
std::string new_id(const char* prefix);
int64_t unix_time();

// "data: {...}\n\n"
std::string sse(const Json& json);

}  // namespace tenon::server
