// Regular expressions, lists of choices, GBNF and Lark: the texts that they take and refuse, and what is no grammar.
#include <gtest/gtest.h>

#include "support/grammar_vocab.h"
#include "text/grammar/choices.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/lark.h"
#include "text/grammar/regex_grammar.h"

namespace tenon::text::grammar {
namespace {

using test::TriePtr;

struct Row {
  std::string grammar;
  std::vector<std::string> accepted, refused;
};

using Reader = Grammar (*)(std::string_view);

void check(Reader read, const std::vector<Row>& rows) {
  for (const TriePtr& trie : {test::byte_vocabulary(), test::piece_vocabulary(), test::real_vocabulary()})
    for (const Row& row : rows) {
      SCOPED_TRACE(row.grammar);
      std::shared_ptr<const Constraint> constraint;
      try {
        constraint = Constraint::compile(read(row.grammar), trie);
      } catch (const Error& e) {
        ADD_FAILURE() << e.what();
        continue;
      }
      for (const std::string& text : row.accepted) EXPECT_TRUE(test::accepts(constraint, text)) << text;
      for (const std::string& text : row.refused) EXPECT_FALSE(test::accepts(constraint, text)) << text;
    }
}

TEST(RegexGrammar, TakesAndRefuses) {
  check(regex_grammar,
        {
            {"abc", {"abc"}, {"", "ab", "abcd", "xabc"}},
            {"", {""}, {"a"}},
            {"a|b|", {"a", "b", ""}, {"ab", "c"}},
            {"a*b+c?", {"b", "aabbc", "bc"}, {"", "a", "ac", "bcc"}},
            {"(ab){2}", {"abab"}, {"ab", "ababab"}},
            {"a{2,}", {"aa", "aaaa"}, {"a", ""}},
            {"a{1,3}", {"a", "aaa"}, {"", "aaaa"}},
            {"a{0}b", {"b"}, {"ab"}},
            {"a{,b}", {"a{,b}"}, {"a"}},
            {"a{x", {"a{x"}, {"a"}},
            {"a+?b*?c??", {"a", "aabbc"}, {"b"}},
            {"[a-cx]", {"a", "b", "c", "x"}, {"d", "-", "ab"}},
            {"[^a-c]", {"d", "\n", "\xC3\xA9", "\xF0\x9F\x98\x80"}, {"a", "", "dd", "\xC3"}},
            {"[a\\-z]", {"a", "-", "z"}, {"b"}},
            {"[-a]", {"-", "a"}, {"b"}},
            {"[a-]", {"-", "a"}, {"b"}},
            {"[\\]\\\\]", {"]", "\\"}, {"["}},
            {"[\xC3\xA0-\xC3\xA9]", {"\xC3\xA0", "\xC3\xA9"}, {"\xC3\xAA", "\xC3", "a"}},
            {".",
             {"a", "\xE2\x82\xAC", "\xF4\x8F\xBF\xBF", "\x7F"},
             {"\n", "\r", "", "ab", "\xE2\x80\xA8", "\xED\xA0\x80", "\xC0\xAF"}},
            {"\\d+", {"0", "123"}, {"a", "\xD9\xA0"}},
            {"\\D", {"a", "-"}, {"1", "\xD9\xA0"}},
            {"\\w+", {"aZ_9"}, {"-", " ", "\xC3\xA9"}},
            {"\\W", {"-", " "}, {"a", "_", "\xC3\xA9"}},
            {"\\s", {" ", "\t", "\n", "\r", "\f", "\v"}, {"a", "\xC2\xA0"}},
            {"\\S+", {"a-\xC3\xA9"}, {" ", "\xC2\xA0"}},
            {"[\\d_]+", {"1_2"}, {"a"}},
            {"[^\\d\\s]", {"a"}, {"1", " "}},
            {"\\p{Lu}\\p{L}*", {"Abc", "\xC3\x89t\xC3\xA9"}, {"abc", "A1"}},
            {"\\P{L}", {"1"}, {"a"}},
            {"\\x41\\u0042\\u{1F600}\\U00000043",
             {"AB\xF0\x9F\x98\x80"
              "C"},
             {"ABC"}},
            {"\\ud83d\\ude00", {"\xF0\x9F\x98\x80"}, {}},
            {"\\n\\r\\t\\f\\v\\0", {std::string("\n\r\t\f\v\0", 6)}, {"n"}},
            {"\\.\\*\\/\\$", {".*/$"}, {"aaaa"}},
            {"(?:a|b)(?P<n>c)(?<m>d)", {"acd", "bcd"}, {"cd"}},
            {"^abc$", {"abc"}, {"xabc", "abcx"}},
            {"^a|b$", {"a", "b"}, {"ab"}},
            {"(^a|b)c", {"ac", "bc"}, {"c"}},
            {"a(^b)?c", {"ac"}, {"abc"}},
            {"\\Aab\\Z", {"ab"}, {"a"}},
            {"(a*)*b", {"b", "aaab"}, {"a"}},
            {"(a|aa)+", {"a", "aaa"}, {""}},
            {"((a)(b(c)))", {"abc"}, {"ab"}},
            {"a{70}", {std::string(70, 'a')}, {std::string(69, 'a'), std::string(71, 'a')}},
            {"[ab]{3,100}c", {"abac", std::string(100, 'a') + "c"}, {"abc", std::string(101, 'b') + "c"}},
        });
}

TEST(RegexGrammar, Refuses) {
  for (const char* pattern : {"(",
                              ")",
                              "a)",
                              "(a",
                              "[",
                              "[a",
                              "[]",
                              "*",
                              "+a",
                              "?",
                              "a**",
                              "a{2}{3}",
                              "a{3,2}",
                              "[b-a]",
                              "[a-\\d]",
                              "\\",
                              "\\x4",
                              "\\u12",
                              "\\u{110000}",
                              "\\q",
                              "\\p{Nope}",
                              "\\p{L",
                              "(?=a)",
                              "(?!a)",
                              "(?<=a)",
                              "(?<!a)",
                              "(?i)a",
                              "\\ba",
                              "a\\B",
                              "(a)\\1",
                              "\\k<n>",
                              "a++",
                              "[[:alpha:]]",
                              "\xFF",
                              "(?P<n",
                              "\\ud83d\\u0041",
                              "a{9999999999999}"})
    EXPECT_THROW(regex_grammar(pattern), Error) << pattern;
  for (const char* nothing : {"[^\\s\\S]", "\\ud83d", "a^b", "a$b", "\\UFFFFFFFF", "\\U00110000"})
    EXPECT_THROW(Constraint::compile(regex_grammar(nothing), test::byte_vocabulary()), Error) << nothing;
}

Grammar choices_of_lines(std::string_view lines) {
  std::vector<std::string> choices(1);
  for (char c : lines)
    if (c == '\n')
      choices.emplace_back();
    else
      choices.back().push_back(c);
  return choices_grammar(choices);
}

TEST(Choices, TakeAndRefuse) {
  check(choices_of_lines, {
                              {"yes\nno", {"yes", "no"}, {"", "ye", "yesno", "y"}},
                              {"a\nab\nabc", {"a", "ab", "abc"}, {"abcd", "b"}},
                              {"x\nx", {"x"}, {"xx"}},
                              {"\nx", {"", "x"}, {"xx"}},
                              {"\xC3\xA9\n\xC3\xAA", {"\xC3\xA9", "\xC3\xAA"}, {"\xC3", "\xC3\xAB"}},
                              {"[a]*\n\"q\"", {"[a]*", "\"q\""}, {"a", "q"}},
                          });
  EXPECT_THROW(choices_grammar({}), Error);
}

TEST(Choices, Many) {
  std::vector<std::string> choices;
  for (int i = 0; i < 5000; ++i) choices.push_back("choice number " + std::to_string(i * 7919));
  auto c = Constraint::compile(choices_grammar(choices), test::piece_vocabulary());
  EXPECT_TRUE(test::accepts(c, choices[4999]));
  EXPECT_TRUE(test::accepts(c, choices[0]));
  EXPECT_FALSE(test::accepts(c, "choice number 1"));
}

TEST(Gbnf, TakesAndRefuses) {
  check(gbnf_grammar,
        {
            {"root ::= \"a\" \"b\"", {"ab"}, {"a", "abb"}},
            {"root ::= \"a\" | 'b' |", {"a", "b", ""}, {"ab"}},
            {"root ::= (\"a\" | \"b\")+ \"c\"?", {"a", "abbac"}, {"", "c"}},
            {"root ::= \"a\"{2} \"b\"{1,} \"c\"{0,2} \"d\"{,1}", {"aab", "aabbccd"}, {"ab", "aa", "aabccc"}},
            {"root ::= [a-c] [^a-c\\n] .", {"axy", "bx\n"}, {"xxx", "aay", "a\nx"}},
            {"root ::= [\\x41-\\x43\\u00e9\\]\\-^]", {"A", "C", "\xC3\xA9", "]", "-", "^"}, {"D", "\\"}},
            {"root ::= \"\\n\\t\\\"\\\\\\x41\\u00E9\\U0001F600\"", {"\n\t\"\\A\xC3\xA9\xF0\x9F\x98\x80"}, {"n"}},
            {"# comment\nroot ::= x # more\n  | y\n\nx ::= \"x\"\ny ::= \"y\" x\n", {"x", "yx"}, {"y", "xx"}},
            {"first: \"a\" second\nsecond: \"b\"", {"ab"}, {"a"}},
            {"a ::= \"1\"\nroot ::= a a", {"11"}, {"1"}},
            {"root ::= \"(\" root \")\" | \"x\"", {"x", "(x)", "(((x)))"}, {"()", "(x", "x)"}},
            {"root ::= root \"+\" num | num\nnum ::= [0-9]+", {"1", "1+2+33"}, {"+", "1+", "+1"}},
            {"root ::= expr\nexpr ::= term (\"+\" term)*\nterm ::= \"a\" | \"(\" expr \")\"",
             {"a", "a+(a+a)+a"},
             {"a+", "(a", "()"}},
            {"root ::= s\ns ::= \"a\" s \"b\" | \"\"", {"", "ab", "aaabbb"}, {"aab", "abb", "ba"}},
            {"root ::= (\"a\"* \"b\"*)* \"c\"", {"c", "abbac"}, {"a"}},
            {"root ::= (x y){2,3}\nx ::= \"x\" | x2\nx2 ::= \"(\" x \")\"\ny ::= \"y\"?",
             {"xx", "xyx", "(x)yxy(((x)))y"},
             {"x", "xyxyxyx"}},
            {"root ::= (\"a\" | pair){2}\npair ::= \"[\" root \"]\"",
             {"aa", "a[aa]", "[aa][a[aa]]"},
             {"a", "aaa", "[a]a"}},
            {"root ::= [0-9]{1,200} \".\"", {"1.", std::string(200, '7') + "."}, {".", std::string(201, '7') + "."}},
        });
}

TEST(Gbnf, Refuses) {
  for (const char* text : {"",
                           "root",
                           "root ::= \"a",
                           "root ::= [a",
                           "root ::= (\"a\"",
                           "root ::= missing",
                           "root ::= )",
                           "root = \"a\"",
                           "root ::= \"a\"\nroot ::= \"b\"",
                           "root ::= a\na ::= b\nb ::= a | \"x\"",
                           "root ::= x? root \"a\" | \"b\"\nx ::= \"x\"",
                           "root ::= \"a\" root",
                           "root ::= \"a\"{2,1}",
                           "root ::= \"a\"{",
                           "root ::= [b-a]",
                           "root ::= \"\\x4\"",
                           "root ::= \"a\"{99999999999999}",
                           "root ::= \"\xFF\"",
                           "::= \"a\"",
                           "root ::= root",
                           "root ::= root \"a\""})
    EXPECT_THROW(Constraint::compile(gbnf_grammar(text), test::byte_vocabulary()), Error) << text;
}

TEST(Lark, TakesAndRefuses) {
  check(lark_grammar, {
                          {"start: \"a\" b\nb: \"b\"", {"ab"}, {"a", "abb"}},
                          {"start: \"a\"i \"B\"", {"aB", "AB"}, {"ab"}},
                          {"start: \"a\"..\"f\" | /[0-9]+/", {"a", "f", "12"}, {"g", ""}},
                          {"start: (\"a\" | \"b\")+ [\"c\"] \"d\"~2 \"e\"~1..3",
                           {"adde", "abcddeee"},
                           {"ade",
                            "adde"
                            "eee"}},
                          {"// comment\nstart: a // more\n  | b # and more\n\na: \"a\" -> alias\nb: \"b\"\n",
                           {"a", "b"},
                           {"ab", "alias"}},
                          {"?start: _x y\n_x: \"x\"\n!y: \"y\"", {"xy"}, {"x"}},
                          {"start: A B\nA: \"a\"+\nB.2: /b|c/", {"ab", "aaac"}, {"a", "abc"}},
                          {"start: A\nA: B \"x\"\nB: /[a-c]{2}/", {"abx"}, {"ax"}},
                          {"start: NAME (\",\" NAME)*\nNAME: /[a-z]+/\n%ignore \" \"",
                           {"a,b", "a , b", " a ,  bc "},
                           {"a b", ",a", "a,"}},
                          {"start: \"(\" start \")\" | \"x\"", {"x", "((x))"}, {"(x"}},
                          {"start: start \"-\" N | N\nN: /[0-9]/", {"1", "1-2-3"}, {"-1", "1-"}},
                          {"start: /a\\/b/ /\\d{2}/", {"a/b12"}, {"a\\/b12"}},
                          {"start: \"\\n\\\"\\\\\"", {"\n\"\\"}, {"n"}},
                          {"start: (\"a\"\n  | \"b\"\n  )\n", {"a", "b"}, {"ab"}},
                          {"start: \"a\" |\n", {"a", ""}, {"b"}},
                      });
}

TEST(Lark, Refuses) {
  for (const char* text :
       {"", "start", "start: \"a", "start: /a", "start: /(/", "start: (\"a\"", "start: missing", "begin: \"a\"",
        "start: \"a\"\nstart: \"b\"", "%import common.NUMBER\nstart: NUMBER", "start{x}: x",
        "start: a\na: b\nb: a | \"x\"", "start: \"a\" start", "start: \"ab\"..\"c\"", "start: \"a\"~3..1",
        "start: /a/x", "start: <special>", "start: \"\xFF\"", "start: /a(?=b)/"})
    EXPECT_THROW(Constraint::compile(lark_grammar(text), test::byte_vocabulary()), Error) << text;
}

// Refused or compiled, but soon; and what is compiled can be walked.
TEST(TextualGrammars, HostileGrammarsEnd) {
  std::vector<std::pair<Reader, std::string>> hostile;
  std::string doubling = "root ::= r0\n";
  for (int i = 0; i < 60; ++i) doubling += fmt::format("r{} ::= r{} r{}\n", i, i + 1, i + 1);
  hostile.emplace_back(gbnf_grammar, doubling + "r60 ::= \"a\"");
  hostile.emplace_back(gbnf_grammar, doubling + "r60 ::= \"\"");
  hostile.emplace_back(gbnf_grammar, doubling + "r60 ::= \"a\"?");
  std::string repeated = "root ::= ";
  repeated += std::string(90, '(') + "\"a\"";
  for (int i = 0; i < 90; ++i) repeated += "{0,1000000})";
  hostile.emplace_back(gbnf_grammar, repeated);
  hostile.emplace_back(gbnf_grammar, "root ::= " + std::string(100'000, '('));
  hostile.emplace_back(gbnf_grammar, "root ::= \"a\"{1000000000}");
  hostile.emplace_back(gbnf_grammar, "root ::= (\"a\" | \"ab\"){1000000000} \"c\"");
  hostile.emplace_back(gbnf_grammar, "root ::= s\ns ::= s2 s2 | \"a\"\ns2 ::= \"a\" s s | [a-z] s2 | \"b\"");
  hostile.emplace_back(gbnf_grammar, "root ::= (x x? x? x? x? x? x?)*\nx ::= \"a\" x? | \"a\" x x | \"b\" x*");
  hostile.emplace_back(gbnf_grammar, "root ::= [^\\n]* x\nx ::= [^\\n]* x? y\ny ::= . y?");
  std::string ways = "root ::= \"w0\"";
  for (int i = 1; i < 20'000; ++i) ways += fmt::format(" | \"way {}\"", i);
  hostile.emplace_back(gbnf_grammar, ways);
  std::string rules = "root ::= r0\n";
  for (int i = 0; i < 5'000; ++i)
    rules += fmt::format("r{} ::= \"x{}\" | \"(\" r{} \")\"\n", i, i, (i * 7 + 1) % 5'000);
  hostile.emplace_back(gbnf_grammar, rules);
  hostile.emplace_back(regex_grammar, std::string(100'000, '('));
  hostile.emplace_back(regex_grammar, std::string(10'000, 'a'));
  hostile.emplace_back(regex_grammar, "(.*a){1,20}(.*b){1,20}.{25}");
  hostile.emplace_back(regex_grammar, "(\\w{1,200}\\s?){1,300}");
  hostile.emplace_back(lark_grammar, "start: " + std::string(100'000, '['));
  hostile.emplace_back(lark_grammar, "start: A\nA: A \"x\"");
  hostile.emplace_back(lark_grammar, "start: (\"a\"~1..100000000)~1..100000000 \"b\"");
  for (auto& [read, text] : hostile)
    for (const TriePtr& trie : {test::byte_vocabulary(), test::real_vocabulary()}) {
      size_t memory = 0;
      try {
        auto c = Constraint::compile(read(text), trie);
        ConstraintState state(c);
        std::mt19937 random(1);
        for (int i = 0; i < 30 && !state.finished(); ++i) {
          std::vector<int32_t> ids = test::ids_of(test::mask_of(state, *trie));
          ASSERT_FALSE(ids.empty()) << text.substr(0, 200);
          ASSERT_TRUE(state.accept(ids[random() % ids.size()]));
        }
        memory = c->memory_bytes();
      } catch (const Error& e) {
        EXPECT_NE(e.code(), ErrorCode::internal) << text.substr(0, 200) << ": " << e.what();
      }
      EXPECT_LT(memory, size_t{256} << 20) << text.substr(0, 200);
    }
}

TEST(SpecialTokens, AreMatchedByThemselvesOnly) {
  const TriePtr trie = test::piece_vocabulary();
  Grammar g;
  g.set_root(g.sequence({g.text("a"), g.special_token("<|call|>"), g.text("b")}));
  auto c = Constraint::compile(g, trie);
  ConstraintState state(c);
  EXPECT_TRUE(trie->has_special("<|call|>"));
  EXPECT_FALSE(trie->has_special("<|none|>"));
  const int32_t call = trie->vocab_size() - 1;
  EXPECT_FALSE(state.accept(call));
  EXPECT_TRUE(state.accept('a'));
  EXPECT_EQ(test::ids_of(test::mask_of(state, *trie)), std::vector<int32_t>{call});
  EXPECT_FALSE(state.accept('<'));
  EXPECT_FALSE(state.accept(0xFF));  // which some vocabularies have as a token
  EXPECT_EQ(state.forced(), "");
  EXPECT_TRUE(state.accept(call));
  EXPECT_TRUE(state.accept('b'));
  EXPECT_TRUE(state.finished());
  ConstraintState closing(c);
  EXPECT_EQ(closing.closing_tokens(), (std::vector<int32_t>{'a', call, 'b'}));
  auto any = Constraint::compile(gbnf_grammar("root ::= .*"), trie);
  EXPECT_FALSE(ConstraintState(any).accept(call));
}

}  // namespace
}  // namespace tenon::text::grammar
