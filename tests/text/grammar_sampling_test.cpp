// What masks promise: any way through them ends in a sentence; they hold what a walk byte by byte allows, no more, no
// less; what is remembered changes nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "support/grammar_vocab.h"
#include "text/grammar/choices.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/lark.h"
#include "text/grammar/regex_grammar.h"

namespace tenon::text::grammar {
namespace {

using test::TriePtr;

// --- random schemas ---

class SchemaMaker {
 public:
  explicit SchemaMaker(uint32_t seed) : random_(seed) {}

  Json document() {
    Json s = schema(0);
    if (s.is_object() && recursive_) s["$defs"]["node"] = node();
    return s;
  }

 private:
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  bool maybe() { return below(2) == 0; }

  Json node() {
    return parse_json(R"({"type": "object", "properties": {"v": {"type": "integer", "minimum": 0, "maximum": 9}, "next":
      {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 2}}, "required": ["v"], "additionalProperties":
      false})",
                      "node");
  }

  Json schema(int depth) {
    switch (below(depth > 2 ? 5 : 10)) {
      case 0:
        return number("integer");
      case 1:
        return number("number");
      case 2:
        return string();
      case 3:
        return {{"type", maybe() ? "boolean" : "null"}};
      case 4:
        return {{"enum", Json::array({"red", 1, -2.5, nullptr, true, "a \"quoted\"\n", Json::array({1, "x"})})}};
      case 5:
      case 6:
        return object(depth);
      case 7:
        return array(depth);
      case 8: {
        Json ways = Json::array();
        for (uint32_t i = 0; i <= below(3); ++i) ways.push_back(schema(depth + 1));
        return {{"anyOf", ways}};
      }
      default:
        if (maybe()) return {{"oneOf", Json::array({string(), number("integer"), {{"type", "null"}}})}};
        if (maybe()) return {{"allOf", Json::array({number("integer"), {{"minimum", -3}, {"maximum", 40}}})}};
        recursive_ = true;
        return {{"$ref", "#/$defs/node"}};
    }
  }

  Json number(const char* type) {
    Json s{{"type", type}};
    const int low = static_cast<int>(below(300)) - 150;
    if (maybe()) s[maybe() ? "minimum" : "exclusiveMinimum"] = low;
    if (maybe()) s[maybe() ? "maximum" : "exclusiveMaximum"] = low + 20 + static_cast<int>(below(200));
    if (below(4) == 0) s["multipleOf"] = 1 + below(9);
    if (std::string_view(type) == "number" && maybe() && s.contains("minimum")) s["minimum"] = low + 0.25;
    return s;
  }

  Json string() {
    Json s{{"type", "string"}};
    switch (below(4)) {
      case 0:
        s["minLength"] = below(4);
        s["maxLength"] = 3 + below(80);
        break;
      case 1:
        s["pattern"] = std::array{"^[a-c]{1,4}$", "x", "^(\\d+|[^a-z]*)$", "^.?\"\\\\$"}[below(4)];
        break;
      case 2:
        s["format"] = std::array{"date", "ipv4", "uuid", "time"}[below(4)];
        break;
      default:
        break;
    }
    return s;
  }

  Json object(int depth) {
    Json s{{"type", "object"}};
    static const char* const kNames[] = {"name", "a", "b\"", "\xC3\xA9t\xC3\xA9", "", "foo"};
    const uint32_t n = below(5);
    for (uint32_t i = 0; i < n; ++i) {
      s["properties"][kNames[i]] = schema(depth + 1);
      if (maybe()) s["required"].push_back(kNames[i]);
    }
    switch (below(4)) {
      case 0:
        s["additionalProperties"] = false;
        break;
      case 1:
        s["additionalProperties"] = number("integer");
        if (maybe()) s["propertyNames"] = {{"maxLength", 4}};
        break;
      case 2:
        if (n == 0) s["patternProperties"] = {{"^k", number("integer")}, {"^[0-9]", string()}};
        break;
      default:
        break;
    }
    if (below(3) == 0 && s.contains("additionalProperties")) s["maxProperties"] = n + below(3);
    if (below(3) == 0 && !s.contains("required") && (n > 0 || s["additionalProperties"].is_object()))
      s["minProperties"] = 1;
    return s;
  }

  Json array(int depth) {
    Json s{{"type", "array"}};
    switch (below(3)) {
      case 0:
        s["prefixItems"] = Json::array({schema(depth + 1), schema(depth + 1)});
        if (maybe()) s["items"] = schema(depth + 1);
        break;
      case 1:
        s["items"] = schema(depth + 1);
        break;
      default:
        s["items"] = {{"enum", Json::array({"a", "b", 3})}};
        s["uniqueItems"] = true;
    }
    if (maybe()) s["minItems"] = below(3);
    if (maybe()) s["maxItems"] = 2 + below(3);
    return s;
  }

  std::mt19937 random_;
  bool recursive_ = false;
};

// --- an independent validator of the keywords above ---

struct Validator {
  const Json& root;

  static size_t characters(const std::string& s) {
    return static_cast<size_t>(
        std::count_if(s.begin(), s.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
  }
  static bool is_whole(const Json& v) { return v.is_number() && v.get<double>() == std::floor(v.get<double>()); }

  static bool of_type(const Json& v, const std::string& type) {
    if (type == "integer") return is_whole(v);
    if (type == "number") return v.is_number();
    if (type == "string") return v.is_string();
    if (type == "boolean") return v.is_boolean();
    if (type == "null") return v.is_null();
    if (type == "array") return v.is_array();
    return v.is_object();
  }

  static bool matches(const std::string& pattern, const std::string& s) {
    auto all = [&](auto&& f) { return std::all_of(s.begin(), s.end(), f); };
    if (pattern == "x") return s.find('x') != std::string::npos;
    if (pattern == "^[a-c]{1,4}$")
      return !s.empty() && s.size() <= 4 && all([](char c) { return c >= 'a' && c <= 'c'; });
    if (pattern == "^.?\"\\\\$") return s.ends_with("\"\\") && characters(s) <= 3 && s.find('\n') == std::string::npos;
    return all([](char c) { return !(c >= 'a' && c <= 'z'); });
  }

  static bool of_format(const std::string& format, const std::string& s) {
    int a = 0, b = 0, c = 0, d = 0, end = 0;
    if (format == "ipv4")
      return std::sscanf(s.c_str(), "%3d.%3d.%3d.%3d%n", &a, &b, &c, &d, &end) == 4 &&
             static_cast<size_t>(end) == s.size() && a < 256 && b < 256 && c < 256 && d < 256;
    if (format == "date") {
      if (std::sscanf(s.c_str(), "%4d-%2d-%2d%n", &a, &b, &c, &end) != 3 || s.size() != 10) return false;
      static const int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
      const bool leap = a % 4 == 0 && (a % 100 != 0 || a % 400 == 0);
      return a > 0 && b >= 1 && b <= 12 && c >= 1 && c <= kDays[b - 1] + (b == 2 && leap);
    }
    if (format == "uuid") {
      for (size_t i = 0; i < s.size(); ++i)
        if ((i == 8 || i == 13 || i == 18 || i == 23) ? s[i] != '-' : !std::isxdigit(static_cast<unsigned char>(s[i])))
          return false;
      return s.size() == 36;
    }
    return std::sscanf(s.c_str(), "%2d:%2d:%2d%n", &a, &b, &c, &end) == 3 && end == 8 && a < 24 && b < 60 && c < 60 &&
           s.size() > 8;
  }

  bool valid(const Json& s, const Json& v) const {
    if (s.is_boolean()) return s.get<bool>();
    for (const auto& [key, k] : s.items())
      if (!keyword(s, key, k, v)) return false;
    return true;
  }

  bool keyword(const Json& s, const std::string& key, const Json& k, const Json& v) const {
    auto holds = [&](const Json& way) { return valid(way, v); };
    if (key == "$ref") return valid(root["$defs"]["node"], v);
    if (key == "type") return of_type(v, k);
    if (key == "enum") return std::find(k.begin(), k.end(), v) != k.end();
    if (key == "anyOf") return std::any_of(k.begin(), k.end(), holds);
    if (key == "oneOf") return std::count_if(k.begin(), k.end(), holds) == 1;
    if (key == "allOf") return std::all_of(k.begin(), k.end(), holds);
    if (v.is_number()) {
      const double x = v.get<double>(), y = k.is_number() ? k.get<double>() : 0;
      if (key == "minimum") return x >= y;
      if (key == "maximum") return x <= y;
      if (key == "exclusiveMinimum") return x > y;
      if (key == "exclusiveMaximum") return x < y;
      if (key == "multipleOf") return is_whole(v) && v.get<int64_t>() % k.get<int64_t>() == 0;
    }
    if (v.is_string()) {
      if (key == "minLength") return characters(v) >= k.get<size_t>();
      if (key == "maxLength") return characters(v) <= k.get<size_t>();
      if (key == "pattern") return matches(k, v);
      if (key == "format") return of_format(k, v);
    }
    if (v.is_array()) return of_array(s, key, k, v);
    if (v.is_object()) return of_object(s, key, k, v);
    return true;
  }

  bool of_array(const Json& s, const std::string& key, const Json& k, const Json& v) const {
    const size_t fixed = s.contains("prefixItems") ? s["prefixItems"].size() : 0;
    if (key == "minItems") return v.size() >= k.get<size_t>();
    if (key == "maxItems") return v.size() <= k.get<size_t>();
    for (size_t i = 0; i < v.size(); ++i) {
      if (key == "prefixItems" && i < fixed && !valid(k[i], v[i])) return false;
      if (key == "items" && i >= fixed && !valid(k, v[i])) return false;
      if (key == "uniqueItems")
        for (size_t j = 0; j < i; ++j)
          if (v[i] == v[j]) return false;
    }
    return true;
  }

  bool of_object(const Json& s, const std::string& key, const Json& k, const Json& v) const {
    if (key == "minProperties") return v.size() >= k.get<size_t>();
    if (key == "maxProperties") return v.size() <= k.get<size_t>();
    if (key == "required")
      return std::all_of(k.begin(), k.end(), [&](const Json& name) { return v.contains(name.get<std::string>()); });
    for (const auto& [name, member] : v.items()) {
      if (key == "properties" && k.contains(name) && !valid(k[name], member)) return false;
      if (key == "propertyNames" && !valid(k, name)) return false;
      if (key == "patternProperties") {
        if (name.starts_with("k") && !valid(k["^k"], member)) return false;
        if (!name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) && !valid(k["^[0-9]"], member))
          return false;
      }
      if (key == "additionalProperties" && !(s.contains("properties") && s["properties"].contains(name)) &&
          !valid(k, member))
        return false;
    }
    return true;
  }
};

TEST(GrammarSampling, EveryWayThroughTheMasksValidates) {
  int compiled = 0;
  for (uint32_t seed = 0; seed < 260; ++seed) {
    const Json schema = SchemaMaker(seed).document();
    SCOPED_TRACE(schema.dump());
    const TriePtr trie = seed % 20 == 0 ? test::real_vocabulary()
                         : seed % 2     ? test::piece_vocabulary()
                                        : test::byte_vocabulary();
    std::shared_ptr<const Constraint> constraint;
    try {
      // Every third with a cache so small that states move from table to table.
      CompileLimits limits;
      if (seed % 3 == 0) limits.cache_bytes = 20'000;
      constraint = Constraint::compile(json_schema_grammar(schema, {.whitespace = seed % 5 != 0}), trie, limits);
    } catch (const Error& e) {
      EXPECT_NE(e.code(), ErrorCode::internal) << e.what();
      continue;
    }
    ++compiled;
    for (uint32_t run = 0; run < 4; ++run) {
      std::mt19937 random(seed * 16 + run);
      const std::string text = test::sample(constraint, random, 20 + 30 * run);
      Json value;
      ASSERT_NO_THROW(value = parse_json(text, "sample", 1000)) << text;
      ASSERT_TRUE((Validator{schema}.valid(schema, value))) << text;
    }
  }
  EXPECT_GE(compiled, 200);
}

// --- masks against a walk byte by byte ---

std::vector<std::pair<std::string, Grammar>> grammars() {
  std::vector<std::pair<std::string, Grammar>> out;
  for (const char* schema :
       {"true",
        R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}, "foo": {"type": "number"}},
         "required": ["name"]})",
        R"({"type": "array", "items": {"anyOf": [{"type": "integer", "minimum": -20, "maximum": 120}, {"type": "string",
         "minLength": 2, "maxLength": 4}]}, "maxItems": 3})",
        R"({"type": "string", "pattern": "^a+b?c$"})", R"({"type": "string", "format": "date"})",
        R"({"type": "string", "minLength": 70, "maxLength": 72})",
        R"({"type": "object", "additionalProperties": {"type": "string", "minLength": 1, "maxLength": 2}})"})
    out.emplace_back(schema, json_schema_grammar(parse_json(schema, "schema")));
  for (const char* pattern :
       {"(foo|bar|foobar)+ ?the(ing)*", "a*", "[^a]{1,3}", "(a|ab)(c|bcd)*", "\\w+@\\w+\\.com", ".{2,70}\\)"})
    out.emplace_back(pattern, regex_grammar(pattern));
  for (const char* text : {"root ::= \"(\" root? \")\" root?", "root ::= x+\nx ::= \"a\" x \"a\" | \"b\" | [0-9]{1,2}",
                           "root ::= (a \", \"){2,3} a\na ::= [a-c]+"})
    out.emplace_back(text, gbnf_grammar(text));
  out.emplace_back("lark", lark_grammar("start: NAME (\",\" NAME)*\nNAME: /[a-z]+/\n%ignore \" \""));
  const std::vector<std::string> choices{"true", "tr", "foobar", "foo bar", "name\"", "\xE4\xBD\xA0"};
  out.emplace_back("choices", choices_grammar(choices));
  return out;
}

// Tokens as the bytes of which they consist, one byte token after the other.
bool alive(ConstraintState state, std::string_view bytes) {
  for (char c : bytes)
    if (!state.accept(static_cast<uint8_t>(c))) return false;
  return true;
}

TEST(GrammarMask, IsWhatAWalkByByteAllows) {
  const TriePtr trie = test::piece_vocabulary();
  for (auto& [name, grammar] : grammars()) {
    SCOPED_TRACE(name);
    auto constraint = Constraint::compile(grammar, trie);
    for (uint32_t run = 0; run < 6; ++run) {
      std::mt19937 random(run);
      ConstraintState state(constraint);
      for (int step = 0; step < 25 && !state.finished(); ++step) {
        const std::vector<uint32_t> bits = test::mask_of(state, *trie);
        for (int32_t id = 0; id < trie->vocab_size(); ++id) {
          const std::string_view spelling = trie->spelling(id);
          const bool expected = trie->is_end(id)
                                    ? state.can_end()
                                    : !spelling.empty() && spelling[0] != kSpecialMark && alive(state, spelling);
          ASSERT_EQ(test::has_bit(bits, id), expected) << "token \"" << trie->spelling(id) << "\" step " << step;
          ConstraintState copy = state;
          ASSERT_EQ(copy.accept(id), expected) << trie->spelling(id);
        }
        const std::vector<int32_t> ids = test::ids_of(bits);
        ASSERT_FALSE(ids.empty());
        int32_t token = ids[random() % ids.size()];
        if (trie->is_end(token)) break;
        ASSERT_TRUE(state.accept(token));
      }
    }
  }
}

// A vocabulary that lacks bytes: what it cannot spell is never begun.
TEST(GrammarMask, LeavesOutWhatTheVocabularyCannotFinish) {
  const std::vector<std::string> spellings{"a", "b", "ab", "(", "x", "xy", ")", "\"", special_spelling("<|end|>")};
  auto trie = std::make_shared<const TokenTrie>(spellings, std::vector<int32_t>{8});
  auto c =
      Constraint::compile(gbnf_grammar("root ::= \"a\" | \"ac\" | \"(\" [cd] \")\" | \"b\" (\"x\" | \"q\")"), trie);
  ConstraintState state(c);
  EXPECT_EQ(test::ids_of(test::mask_of(state, *trie)), (std::vector<int32_t>{0, 1}));
  EXPECT_FALSE(state.accept(3));
  EXPECT_TRUE(state.accept(1));
  EXPECT_EQ(test::ids_of(test::mask_of(state, *trie)), std::vector<int32_t>{4});
  EXPECT_THROW(Constraint::compile(gbnf_grammar("root ::= \"c\""), trie), Error);
}

TEST(GrammarMask, IsTheSameFreshAndRemembered) {
  const TriePtr trie = test::piece_vocabulary();
  for (auto& [name, grammar] : grammars()) {
    SCOPED_TRACE(name);
    auto warm = Constraint::compile(grammar, trie);
    auto tiny = Constraint::compile(grammar, trie, {.cache_bytes = 1});
    for (uint32_t run = 0; run < 3; ++run) {
      std::mt19937 random(run);
      ConstraintState a(warm), b(tiny);
      std::vector<int32_t> taken;
      for (int step = 0; step < 25 && !a.finished(); ++step) {
        // A state that walked the same way over tables that know nothing.
        ConstraintState fresh(Constraint::compile(grammar, step % 5 == 0 ? test::vocabulary({"foo", "bar"}) : trie));
        const std::vector<uint32_t> bits = test::mask_of(a, *trie);
        ASSERT_EQ(bits, test::mask_of(a, *trie));
        ASSERT_EQ(bits, test::mask_of(b, *trie));
        if (step % 5 != 0) {
          for (int32_t t : taken) ASSERT_TRUE(fresh.accept(t));
          ASSERT_EQ(bits, test::mask_of(fresh, *trie));
        }
        const std::vector<int32_t> ids = test::ids_of(bits);
        const int32_t token = ids[random() % ids.size()];
        ASSERT_TRUE(a.accept(token));
        ASSERT_TRUE(b.accept(token));
        ASSERT_EQ(a.can_end(), b.can_end());
        ASSERT_EQ(a.closing_bytes(), b.closing_bytes());
        taken.push_back(token);
      }
    }
  }
}

// --- states ---

TEST(ConstraintState, RefusedTokensChangeNothing) {
  const TriePtr trie = test::piece_vocabulary();
  auto c = Constraint::compile(regex_grammar("ab+c"), trie);
  ConstraintState state(c);
  ASSERT_TRUE(state.accept('a'));
  const std::vector<uint32_t> before = test::mask_of(state, *trie);
  for (int32_t id :
       {-1, trie->vocab_size(), trie->vocab_size() - 1, trie->vocab_size() - 2, int32_t{'c'}, int32_t{'a'}}) {
    EXPECT_FALSE(state.accept(id)) << id;
    EXPECT_EQ(test::mask_of(state, *trie), before);
    EXPECT_FALSE(state.can_end());
    EXPECT_EQ(state.closing_bytes(), 2u);
  }
  EXPECT_TRUE(state.accept('b'));
}

TEST(ConstraintState, CopiesAreIndependent) {
  const TriePtr trie = test::piece_vocabulary();
  auto c = Constraint::compile(regex_grammar("(ab|ac)d*"), trie);
  ConstraintState state(c);
  ASSERT_TRUE(state.accept('a'));
  ConstraintState copy = state;
  ASSERT_TRUE(copy.accept('b'));
  ASSERT_TRUE(copy.accept(trie->end_ids()[0]));
  EXPECT_TRUE(copy.finished());
  EXPECT_FALSE(state.can_end());
  EXPECT_TRUE(state.accept('c'));
  EXPECT_FALSE(state.finished());
  EXPECT_TRUE(test::ids_of(test::mask_of(copy, *trie)).empty());
  EXPECT_FALSE(copy.accept('d'));
}

TEST(ConstraintState, Forced) {
  const TriePtr trie = test::piece_vocabulary();
  auto c = Constraint::compile(
      json_schema_grammar(
          parse_json(R"({"type": "object", "properties": {"name": {"const": "x\u00e9"}}, "required": ["name"],
                                         "additionalProperties": false})",
                     "schema"),
          {.whitespace = false}),
      trie);
  ConstraintState state(c);
  const std::string all = "{\"name\":\"x\xC3\xA9\"}";
  EXPECT_EQ(state.forced(), all);
  EXPECT_EQ(state.closing_bytes(), all.size());
  EXPECT_EQ(state.forced(11), "{\"name\":\"x");  // no half of a character
  std::string closing;
  for (int32_t id : state.closing_tokens()) {
    ASSERT_TRUE(state.accept(id));
    closing += trie->spelling(id);
  }
  EXPECT_EQ(closing, all);
  EXPECT_TRUE(state.finished());
  EXPECT_EQ(state.forced(), "");
}

TEST(Constraint, IsSharedBetweenThreads) {
  const TriePtr trie = test::piece_vocabulary();
  auto c = Constraint::compile(json_object_grammar(), trie, {.cache_bytes = 100'000});
  std::vector<std::string> alone, together(4);
  auto texts = [&](uint32_t seed) {
    std::string out;
    for (uint32_t i = 0; i < 4; ++i) {
      std::mt19937 random(seed * 8 + i);
      out += test::sample(c, random, 60) + "\n";
    }
    return out;
  };
  for (uint32_t t = 0; t < 4; ++t) alone.push_back(texts(t));
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) threads.emplace_back([&, t] { together[t] = texts(t); });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(alone, together);
}

}  // namespace
}  // namespace tenon::text::grammar
