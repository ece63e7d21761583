// What a model says -> content, reasoning and tool calls, piece by piece.
//
//   const ToolFormat* format = tool_format_for(template_source);
//   ToolCallParser parser(*format, {.tools = tools, .reasoning_open = opens_reasoning(*format, prompt)});
//   for (piece...) use(parser.push(piece));
//   use(parser.finish());
//
// A whole answer is by definition what its pieces add up to. What looks like a call and is none stays content: nothing
// that was said is lost.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/call_scan.h"

namespace tenon::text {

// A call, or more of one that was begun: then it has no id and no name.
struct ToolCall {
  std::string id, name;
  std::string arguments;  // JSON text of an object
  int64_t index = 0;      // among the answer's calls
  bool begins() const { return !name.empty(); }
};

// {"name", "description", "parameters"} of one of OpenAI's tools, with the level "function" around it or without.
inline const Json& function_of(const Json& tool) { return tool.contains("function") ? tool["function"] : tool; }

// How a family of models writes calls and reasoning: marks in its output.
struct ToolFormat {
  // json: one JSON value, or several, of objects with a name and arguments; the name may stand before the arguments.
  // tagged: the name, then each argument between marks. elements: the name, then elements that are called like the
  // arguments, one inside of another where they are no scalars. gemma, python: notations that are nearly JSON.
  enum class Body { none, json, tagged, elements, gemma, python };

  std::string_view name;
  std::vector<std::string_view> in_template;  // a template that has all of these writes this form
  Body body = Body::none;
  std::vector<std::string_view> begin;  // each begins a call
  std::string_view end;                 // of a call
  // Pairs of marks that do not show, and further ones; those around content and around each call may be left out.
  std::vector<std::string_view> around_calls, around_content, dropped;
  bool each_call = false;  // around_calls enclose each call, else all of them
  bool bare = false;       // an answer may be a call without a mark
  bool single = false;     // templates write one call of an answer
  // How a call is written, for grammars. json: {NAME_KEY: name, ARGUMENTS_KEY: arguments}, perhaps in a list; or,
  // without arguments_key, name and arguments with texts around them.
  std::string_view arguments_key, name_key = "name";
  bool list = false;
  std::string_view before_name, before_arguments, after_arguments;  // "{}" stands for a number
  bool id_before_name = false;  // ten lower-case letters and digits before `before_name`
  bool messages = false;        // harmony: an answer is a sequence of messages
  bool recipient = false;       // a message begins with " to=", whom it is for and "<|message|>"
  // tagged: before and behind an argument's name and value. Behind key_end there may be attributes, which say whether
  // the value is bare text.
  std::string_view key_begin, key_end, value_begin;
  std::string_view value_end;     // gemma: around strings; elements: what all of their tags begin with
  std::string_view around_value;  // between a value and its marks
  std::string_view text_attribute;
  std::vector<std::string_view> other_attributes;
  bool one_line = false;  // no line breaks between marks
  std::string_view think_begin = "<think>", think_end = "</think>", after_think;
  std::string_view think_in_template;  // a template that has this thinks, if it does not spell think_end itself
  bool think_anywhere = false;         // reasoning may come again
  bool short_ids = false;              // templates refuse ids of calls that have not nine letters and digits
};

// By the marks that the template itself writes; a template without calls gets one with reasoning alone.
const ToolFormat& tool_format_for(std::string_view template_source);
// nullptr: no format has this name.
const ToolFormat* tool_format_named(std::string_view name);
const std::vector<ToolFormat>& tool_formats();

// The prompt ends inside of reasoning: what follows belongs to it.
bool opens_reasoning(const ToolFormat& format, std::string_view prompt);

// Answers to a template of this form may begin with reasoning.
bool may_think(const ToolFormat& format, std::string_view template_source);

// All marks that must be visible in the text although they may be special tokens.
std::vector<std::string_view> marks_of(const ToolFormat& format);

struct OutputDelta {
  std::string content, reasoning;
  std::vector<ToolCall> calls;
  bool empty() const { return content.empty() && reasoning.empty() && calls.empty(); }
  void operator+=(OutputDelta&& more);
};

class ToolCallParser {
 public:
  struct Options {
    Json tools;  // OpenAI's list, or null: calls are content
    bool reasoning_open = false;
    std::string id = "call_";  // ids are this and a number
    // What begins like a call is one, since a grammar holds the text to it: arguments are told of as they come. Else
    // calls are told of when they are complete.
    bool sure = false;
  };
  ToolCallParser(const ToolFormat& format, Options options);
  OutputDelta push(std::string_view text);
  OutputDelta finish();
  int64_t calls() const { return calls_; }

 private:
  enum class State { content, reasoning, call };
  enum class Read { done, more, bad };

  void run(OutputDelta& out, bool last);
  bool in_content(OutputDelta& out, bool last);
  bool take_recipient(bool last);
  bool in_reasoning(OutputDelta& out, bool last);
  bool in_call(OutputDelta& out, bool last);
  void say(OutputDelta& out, std::string_view text);
  void begin_part(State state);
  void begin_call(std::string_view mark, size_t at);
  Read read_json(bool last, OutputDelta& out);
  Read read_tagged(bool last, OutputDelta& out);
  void tell_scanned(OutputDelta& out);
  void tell_parameters(size_t end, OutputDelta& out);
  void tell(std::string name, std::string arguments, OutputDelta& out);
  bool tell_rest(ToolCall& call, size_t length, OutputDelta& out);

  const ToolFormat& format_;
  Options options_;
  State state_ = State::content;
  std::string pending_;      // what is not decided yet
  std::string blank_;        // white space that shows only if text follows
  std::string_view mark_;    // that began the call; in pending_ no longer
  bool drop_blank_ = false;  // after a call or reasoning
  bool said_ = false;        // something other than white space
  bool bare_open_ = true;    // a call without a mark may begin here
  size_t at_ = 0;            // how far a call is read
  size_t value_ = 0;         // where its JSON began
  bool in_value_ = false, was_value_ = false, again_ = false;
  CallScan scan_;
  std::string told_;         // of the arguments of a call with marked parameters
  size_t parameters_ = 0;    // told of
  size_t parameter_at_ = 0;  // behind the last one
  int64_t calls_ = 0;
};

}  // namespace tenon::text
