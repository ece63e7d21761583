// Masks of typical grammars over a large vocabulary: time of compilation, and of a mask along random sentences, where
// nothing is remembered from earlier requests. grammar_bench TOKENIZER [SENTENCES [CASE]]
#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "text/grammar/choices.h"
#include "text/grammar/constraint.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/lark.h"
#include "text/grammar/regex_grammar.h"

namespace tenon::text::grammar {
namespace {

// Of this thread alone: neighbours on the machine are not measured.
double now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
double seconds_since(double t) { return now() - t; }

struct Case {
  const char* name;
  Grammar (*grammar)();
};

Grammar schema(const char* text) { return json_schema_grammar(parse_json(text, "schema")); }

const Case kCases[] = {
    {"any object", [] { return json_object_grammar(); }},
    {"person",
     [] {
       return schema(R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer",
         "minimum": 0, "maximum": 150}, "email": {"type": "string", "format": "email"}, "tags": {"type": "array",
         "items": {"type": "string"}}}, "required": ["name", "age"], "additionalProperties": false})");
     }},
    {"tool call",
     [] {
       return schema(R"({"anyOf": [{"type": "object", "properties": {"name": {"const": "get_weather"}, "arguments":
         {"type": "object", "properties": {"city": {"type": "string"}, "unit": {"enum": ["c", "f"]}}, "required":
         ["city"], "additionalProperties": false}}, "required": ["name", "arguments"]}, {"type": "object",
         "properties": {"name": {"const": "search"}, "arguments": {"type": "object", "properties": {"query":
         {"type": "string", "maxLength": 200}, "limit": {"type": "integer", "minimum": 1, "maximum": 50}},
         "required": ["query"], "additionalProperties": false}}, "required": ["name", "arguments"]}]})");
     }},
    {"recursive tree",
     [] {
       return schema(R"({"$defs": {"node": {"type": "object", "properties": {"value": {"type": "number"}, "children":
         {"type": "array", "items": {"$ref": "#/$defs/node"}}}, "required": ["value", "children"]}}, "$ref":
         "#/$defs/node"})");
     }},
    {"bounded strings",
     [] {
       return schema(R"({"type": "object", "properties": {"title": {"type": "string", "minLength": 5, "maxLength": 80},
         "body": {"type": "string", "maxLength": 2000}, "code": {"type": "string", "pattern": "^[A-Z]{3}-\\d{4}$"}},
         "required": ["title", "body", "code"]})");
     }},
    {"formats",
     [] {
       return schema(R"({"type": "object", "properties": {"when": {"type": "string", "format": "date-time"}, "id":
         {"type": "string", "format": "uuid"}, "site": {"type": "string", "format": "uri"}, "host": {"type": "string",
         "format": "ipv6"}}, "required": ["when", "id", "site", "host"]})");
     }},
    {"map of numbers",
     [] {
       return schema(R"({"type": "object", "additionalProperties": {"type": "number", "minimum": -90.5, "maximum":
         90.5}})");
     }},
    {"regex: words", [] { return regex_grammar("(\\w+ ){3,8}\\w+[.!?]"); }},
    {"regex: any lines", [] { return regex_grammar("(- .{1,80}\\n){1,10}"); }},
    {"regex: letters", [] { return regex_grammar("[\\p{L} ,.]{10,300}\\."); }},
    {"regex: search", [] { return regex_grammar("[^<]*<answer>[^<]+</answer>"); }},
    {"choices",
     [] {
       std::vector<std::string> c{"positive", "negative", "neutral", "not sure"};
       return choices_grammar(c);
     }},
    {"gbnf: arithmetic",
     [] {
       return gbnf_grammar(
           "root ::= (expr \"=\" ws term \"\\n\")+\nexpr ::= term ([-+*/] term)*\nterm ::= ident | num | "
           "\"(\" ws expr \")\" ws\nident ::= [a-z] [a-z0-9_]* ws\nnum ::= [0-9]+ ws\nws ::= [ \\t\\n]*\n");
     }},
    {"lark: sql",
     [] {
       return lark_grammar(
           "start: \"SELECT\" columns \"FROM\" NAME [where]\ncolumns: NAME (\",\" NAME)* | \"*\"\n"
           "where: \"WHERE\" cond ((\"AND\" | \"OR\") cond)*\ncond: NAME OP value\nvalue: NUMBER | STRING\n"
           "OP: \"=\" | \"<\" | \">\" | \"<>\"\nNAME: /[a-zA-Z_][a-zA-Z0-9_]*/\nNUMBER: /[0-9]+/\n"
           "STRING: /'[^']*'/\nWS: /[ \\t\\n]+/\n%ignore WS\n");
     }},
};

int32_t any_of(const std::vector<uint32_t>& bits, std::mt19937& random) {
  size_t count = 0;
  for (uint32_t w : bits) count += static_cast<size_t>(__builtin_popcount(w));
  if (count == 0) return -1;
  size_t k = random() % count;
  for (size_t i = 0; i < bits.size(); ++i) {
    auto n = static_cast<size_t>(__builtin_popcount(bits[i]));
    if (k >= n) {
      k -= n;
      continue;
    }
    uint32_t w = bits[i];
    for (; k > 0; --k) w &= w - 1;
    return static_cast<int32_t>(i * 32 + static_cast<size_t>(__builtin_ctz(w)));
  }
  return -1;
}

void report(const char* name, double compile, std::vector<double>& masks, std::vector<double>& accepts) {
  std::sort(masks.begin(), masks.end());
  std::sort(accepts.begin(), accepts.end());
  auto at = [](const std::vector<double>& v, double q) {
    return 1e6 * v[static_cast<size_t>(q * static_cast<double>(v.size() - 1))];
  };
  fmt::print(
      "{:18} compile {:8.2f} ms   mask {:6} times: median {:7.1f}  p99 {:8.1f}  most {:8.1f} us   accept: p99 {:6.1f} "
      "us\n",
      name, 1e3 * compile, masks.size(), at(masks, 0.5), at(masks, 0.99), at(masks, 1), at(accepts, 0.99));
}

void run(const char* tokenizer, int sentences, std::string_view only) {
  auto begin = now();
  auto spellings = Tokenizer::load(tokenizer);
  double load = seconds_since(begin);
  begin = now();
  auto trie = TokenTrie::build(*spellings);
  fmt::print("{} tokens: tokenizer {:.2f} s, trie {:.2f} s, {:.1f} MB\n", trie->vocab_size(), load,
             seconds_since(begin), 1e-6 * static_cast<double>(trie->memory_bytes()));
  std::vector<double> all, all_accepts;
  for (const Case& c : kCases) {
    if (std::string_view(c.name).find(only) == std::string_view::npos) continue;
    trie = TokenTrie::build(*spellings);  // nothing shared between the cases
    begin = now();
    auto constraint = Constraint::compile(c.grammar(), trie);
    double compile = seconds_since(begin);
    std::vector<double> masks, accepts;
    std::vector<uint32_t> bits(trie->mask_words());
    std::mt19937 random(7);
    for (int s = 0; s < sentences; ++s) {
      ConstraintState state(constraint);
      for (int step = 0; step < 200 && !state.finished(); ++step) {
        auto t = now();
        state.mask(bits);
        masks.push_back(seconds_since(t));
        int32_t token = any_of(bits, random);
        t = now();
        if (!state.accept(token)) fail(ErrorCode::internal, "{}: a token of the mask is refused", c.name);
        accepts.push_back(seconds_since(t));
      }
    }
    all.insert(all.end(), masks.begin(), masks.end());
    all_accepts.insert(all_accepts.end(), accepts.begin(), accepts.end());
    report(c.name, compile, masks, accepts);
  }
  report("all", 0, all, all_accepts);
}

}  // namespace
}  // namespace tenon::text::grammar

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "grammar_bench TOKENIZER [SENTENCES [CASE]]\n");
    return 2;
  }
  try {
    tenon::text::grammar::run(argv[1], argc > 2 ? std::atoi(argv[2]) : 20, argc > 3 ? argv[3] : "");
  } catch (const tenon::Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
  return 0;
}
