// Under a tool grammar random sampling can only write calls that parse and fit their schemas.
#include "text/tool_grammar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/error.h"
#include "text/grammar/constraint.h"
#include "text/grammar/json_schema.h"

namespace tenon::text {
namespace {

using grammar::Constraint;
using grammar::ConstraintState;
using grammar::TokenTrie;

const Json kTools = Json::parse(R"([
  {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "required": ["city", "days"],
    "properties": {"city": {"type": "string", "maxLength": 6}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "additionalProperties": false}}},
  {"type": "function", "function": {"name": "now"}}])");

// Strings and what is none, in every way that schemas say so.
const Json kRich = Json::parse(R"([
  {"type": "function", "function": {"name": "edit", "parameters": {"type": "object",
    "required": ["text", "mode", "maybe", "colour", "either", "count", "level", "lines"],
    "properties": {
      "text": {"type": "string"},
      "mode": {"enum": ["<a>", "b\n", "</parameter>"]},
      "maybe": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]},
      "colour": {"$ref": "#/$defs/colour"},
      "either": {"type": ["string", "integer"], "maxLength": 2},
      "count": {"type": "number", "minimum": -2, "maximum": 3},
      "level": {"enum": ["1", 2, true, "high", "false"]},
      "lines": {"type": "array", "maxItems": 2, "items": {"type": "string", "maxLength": 3}},
      "where": {"type": "object", "properties": {"x": {"type": "boolean"}, "a b": {"type": "null"}},
                "required": ["x", "a b"], "additionalProperties": false}},
    "$defs": {"colour": {"type": "string", "enum": ["red", "blue"]}},
    "additionalProperties": false}}}])");

// Bytes, some words, and the marks of a form: as special tokens, or in bytes alone.
std::shared_ptr<const TokenTrie> trie_for(const ToolFormat& f, bool special) {
  std::vector<std::string> spellings(256);
  for (size_t b = 0; b < 256; ++b) spellings[b] = std::string(1, static_cast<char>(b));
  for (const char* w : {"{\"", "\": ", "name", "get_", "weather", "Paris", "tool", "<tool", "\n", "}}", "\", \""})
    spellings.emplace_back(w);
  if (special)
    for (std::string_view m : marks_of(f)) spellings.push_back(grammar::special_spelling(m));
  spellings.push_back(grammar::special_spelling("<end>"));
  const auto end = static_cast<int32_t>(spellings.size() - 1);
  return std::make_shared<const TokenTrie>(spellings, std::vector<int32_t>{end});
}

std::string sample(const std::shared_ptr<const Constraint>& c, uint32_t seed) {
  const TokenTrie& trie = c->trie();
  ConstraintState state(c);
  std::mt19937 rng(seed);
  std::string text;
  std::vector<uint32_t> bits(trie.mask_words());
  auto take = [&](int32_t token) {
    EXPECT_TRUE(state.accept(token));
    std::string_view s = trie.spelling(token);
    if (!trie.is_end(token)) text += s.front() == grammar::kSpecialMark ? s.substr(1, s.size() - 2) : s;
  };
  for (int step = 0; step < 120 && !state.finished(); ++step) {
    state.mask(bits);
    std::vector<int32_t> may;
    for (int32_t t = 0; t < trie.vocab_size(); ++t)
      if (bits[static_cast<size_t>(t) / 32] >> t % 32 & 1) may.push_back(t);
    if (may.empty()) ADD_FAILURE() << "a dead end";
    if (may.empty()) return text;
    take(may[rng() % may.size()]);
  }
  if (!state.finished())
    for (int32_t t : state.closing_tokens()) take(t);
  return text;
}

// Whether the text is whole under the grammar: its marks as special tokens where the vocabulary has them, else bytes.
bool takes(const std::shared_ptr<const Constraint>& c, std::string_view text) {
  const TokenTrie& trie = c->trie();
  ConstraintState state(c);
  while (!text.empty()) {
    size_t n = text.size();
    while (n > 0 && !trie.has_special(text.substr(0, n))) --n;
    const int32_t token =
        n > 0 ? trie.longest_prefix(grammar::special_spelling(text.substr(0, n))) : static_cast<uint8_t>(text.front());
    if (!state.accept(token)) return false;
    text.remove_prefix(std::max<size_t>(n, 1));
  }
  return state.can_end();
}

void check(const Json& arguments, const std::string& name) {
  if (name == "now") {
    EXPECT_TRUE(arguments.is_object());
    return;
  }
  EXPECT_EQ(name, "get_weather");
  EXPECT_EQ(arguments.size(), 2u) << arguments;
  EXPECT_TRUE(arguments["city"].is_string());
  EXPECT_TRUE(arguments["days"].is_number_integer() && arguments["days"] >= 1 && arguments["days"] <= 9) << arguments;
}

void check_rich(const Json& a) {
  EXPECT_TRUE(a["text"].is_string()) << a;
  EXPECT_TRUE(a["mode"] == "<a>" || a["mode"] == "b\n" || a["mode"] == "</parameter>") << a;
  EXPECT_TRUE(a["maybe"].is_null() || a["maybe"].is_string()) << a;
  EXPECT_TRUE(a["colour"] == "red" || a["colour"] == "blue") << a;
  EXPECT_TRUE(a["either"].is_string() || a["either"].is_number_integer()) << a;
  const Json levels = {"1", 2, true, "high", "false"};
  EXPECT_TRUE(std::find(levels.begin(), levels.end(), a["level"]) != levels.end()) << a;
  EXPECT_TRUE(a["count"].is_number() && a["count"] >= -2 && a["count"] <= 3) << a;
  EXPECT_TRUE(a["lines"].is_array() && a["lines"].size() <= 2) << a;
  for (const Json& line : a["lines"]) EXPECT_TRUE(line.is_string()) << a;
  EXPECT_TRUE(!a.contains("where") ||
              (a["where"]["x"].is_boolean() && a["where"]["a b"].is_null() && a["where"].size() == 2))
      << a;
  EXPECT_EQ(a.size(), a.contains("where") ? 9u : 8u) << a;
}

// As a server does that holds the model to the grammar.
OutputDelta read(const ToolFormat& f, const std::string& text, const Json& tools, bool reasoning_open = false) {
  ToolCallParser p(f, {.tools = tools, .reasoning_open = reasoning_open, .sure = true});
  OutputDelta out;
  for (char c : text) out += p.push({&c, 1});
  out += p.finish();
  return out;
}

// Values of every kind come back from every form as their schema wants them, whatever is in the strings.
TEST(ToolGrammar, ValuesKeepTheirTypes) {
  for (const ToolFormat& f : tool_formats()) {
    if (f.body == ToolFormat::Body::none) continue;
    SCOPED_TRACE(f.name);
    auto trie = trie_for(f, true);
    auto c = Constraint::compile(tool_grammar(f, kRich, {.choice = {ToolChoice::Kind::required, ""}}, *trie), trie);
    for (uint32_t seed = 0; seed < 60; ++seed) {
      const std::string text = sample(c, seed);
      const OutputDelta out = read(f, text, kRich);
      EXPECT_GE(out.calls.size(), 1u) << text;
      for (const ToolCall& call : out.calls) check_rich(Json::parse(call.arguments));
      if (::testing::Test::HasFailure()) FAIL() << text;
    }
  }
}

// Harmony's marks are tokens of which its headers are made.
TEST(ToolGrammar, HarmonyIsASequenceOfMessages) {
  const ToolFormat& f = *tool_format_named("harmony");
  std::vector<std::string> spellings(256);
  for (size_t b = 0; b < 256; ++b) spellings[b] = std::string(1, static_cast<char>(b));
  for (const char* m : {"<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|constrain|>", "<|return|>"})
    spellings.push_back(grammar::special_spelling(m));
  const auto end = static_cast<int32_t>(spellings.size() - 1);
  auto trie = std::make_shared<const TokenTrie>(spellings, std::vector<int32_t>{end});
  auto accepts = [&](const ToolGrammarOptions& options, std::string_view text) {
    return takes(Constraint::compile(tool_grammar(f, kTools, options, *trie), trie), text);
  };
  const std::string thought = "<|channel|>analysis<|message|>so <so><|end|><|start|>assistant";
  const std::string said = "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant";
  const std::string call = "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}";
  EXPECT_TRUE(accepts({}, thought + "<|channel|>final<|message|>Yes"));
  EXPECT_TRUE(accepts({}, thought + said + call));
  EXPECT_TRUE(accepts({}, call));
  EXPECT_TRUE(accepts({}, " to=functions.now<|channel|>commentary json<|message|>{}"));
  EXPECT_TRUE(accepts({.reasoning_open = true}, "so<|end|><|start|>assistant" + call));
  EXPECT_FALSE(accepts({}, thought));
  EXPECT_FALSE(accepts({}, "Yes"));
  EXPECT_FALSE(accepts({}, "<|channel|>commentary to=functions.later <|constrain|>json<|message|>{}"));
  EXPECT_FALSE(accepts({}, "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{}"));
  const ToolGrammarOptions required{.choice = {ToolChoice::Kind::required, ""}};
  EXPECT_TRUE(accepts(required, thought + call));
  EXPECT_FALSE(accepts(required, thought + "<|channel|>final<|message|>Yes"));

  grammar::Grammar answer;
  answer.set_root(answer.text("42"));
  auto c = Constraint::compile(after_reasoning(std::move(answer), f, false, *trie), trie);
  ToolCallParser p(f, {});
  OutputDelta out = p.push(sample(c, 1));
  out += p.finish();
  EXPECT_EQ(out.content, "42");
}

// With a form for answers, what is no call keeps that form.
TEST(ToolGrammar, AnswersKeepTheirForm) {
  const ToolFormat& f = *tool_format_named("hermes");
  auto trie = trie_for(f, true);
  const Json schema = Json::parse(R"({"type": "object", "required": ["ok"], "additionalProperties": false,
    "properties": {"ok": {"type": "boolean"}}})");
  int calls = 0, answers = 0;
  for (bool required : {false, true}) {
    grammar::Grammar answer;
    answer.set_root(grammar::add_json_schema(answer, schema, {}, "schema"));
    ToolGrammarOptions options;
    if (required) options.choice.kind = ToolChoice::Kind::required;
    auto c = Constraint::compile(tool_grammar(f, kTools, options, *trie, std::move(answer)), trie);
    for (uint32_t seed = 0; seed < 60; ++seed) {
      ToolCallParser parser(f, {kTools});
      OutputDelta d = parser.push(sample(c, seed));
      d += parser.finish();
      if (!d.calls.empty()) {
        ++calls;
        for (const ToolCall& call : d.calls) check(Json::parse(call.arguments), call.name);
        continue;
      }
      ++answers;
      EXPECT_FALSE(required);
      const Json said = Json::parse(d.content, nullptr, false);
      EXPECT_TRUE(said.is_object() && said.size() == 1 && said["ok"].is_boolean()) << d.content;
    }
  }
  EXPECT_GT(calls, 60);
  EXPECT_GT(answers, 0);
}

TEST(ToolGrammar, CallsAreWellFormed) {
  for (const ToolFormat& f : tool_formats()) {
    if (f.body == ToolFormat::Body::none) continue;
    for (bool special : {false, true}) {
      SCOPED_TRACE(std::string(f.name) + (special ? ", special marks" : ", plain marks"));
      auto trie = trie_for(f, special);
      for (auto kind : {ToolChoice::Kind::required, ToolChoice::Kind::named, ToolChoice::Kind::automatic}) {
        ToolGrammarOptions options{.choice = {kind, "get_weather"}, .parallel = kind == ToolChoice::Kind::required};
        options.reasoning_open = kind == ToolChoice::Kind::named;
        auto c = Constraint::compile(tool_grammar(f, kTools, options, *trie), trie);
        for (uint32_t seed = 0; seed < 25; ++seed) {
          const std::string text = sample(c, seed);
          const OutputDelta out = read(f, text, kTools, options.reasoning_open);
          if (kind != ToolChoice::Kind::automatic) {
            EXPECT_GE(out.calls.size(), 1u) << text;
            EXPECT_TRUE(out.content.empty() || f.messages) << text;  // harmony says something on the way
          }
          const bool named = kind == ToolChoice::Kind::named;
          EXPECT_TRUE(!named || out.calls.size() == 1) << text;
          for (const ToolCall& call : out.calls) {
            EXPECT_TRUE(!named || call.name == "get_weather");
            check(Json::parse(call.arguments), call.name);
          }
        }
      }
    }
  }
}

TEST(ToolGrammar, TextIsFreeUntilACall) {
  const ToolFormat& f = *tool_format_named("hermes");
  for (bool special : {false, true}) {
    auto trie = trie_for(f, special);
    auto c = Constraint::compile(tool_grammar(f, kTools, {}, *trie), trie);
    auto accepts = [&](std::string_view text) { return takes(c, text); };
    EXPECT_TRUE(accepts("Hello, 5 < 6 <tool_cat> {\"a\": 1}"));
    EXPECT_TRUE(accepts("<think>hm</think>\n\nYes"));
    EXPECT_TRUE(accepts("Ok\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"));
    EXPECT_FALSE(accepts("<tool_call>\n{\"name\": \"later\", \"arguments\": {}}\n</tool_call>"));
    EXPECT_FALSE(accepts("<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"days\": 1}}\n</tool_call>"));
    EXPECT_FALSE(accepts("<tool_call>hello"));
  }
}

TEST(ToolGrammar, RefusesByName) {
  const ToolFormat& f = *tool_format_named("hermes");
  auto trie = trie_for(f, false);
  Json odd = kTools;
  odd[0]["function"]["parameters"] = {{"type", "object"}, {"not", Json::object()}};
  try {
    tool_grammar(f, odd, {}, *trie);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("tools[0].function.parameters#/not"), std::string::npos) << e.what();
  }
  EXPECT_THROW(tool_grammar(f, kTools, {.choice = {ToolChoice::Kind::named, "none"}}, *trie), Error);
  EXPECT_THROW(tool_grammar(*tool_format_named("plain"), kTools, {}, *trie), Error);
}

}  // namespace
}  // namespace tenon::text
