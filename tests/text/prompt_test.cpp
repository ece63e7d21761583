// Prompts with spans of content, and files that must be refused.
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/kit.h"
#include "text/regex.h"
#include "text/scan.h"
#include "text/spec.h"
#include "text/unicode.h"

namespace tenon::text {
namespace {

constexpr const char* kTokenizer = R"({
  "added_tokens": [{"id": 3, "content": "<s>", "special": true, "normalized": false},
                   {"id": 4, "content": "<N>", "special": true, "normalized": true},
                   {"id": 5, "content": "<w>", "special": false, "normalized": false}],
  "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
  "model": {"type": "WordLevel", "vocab": {"?": 0, "a": 1, "b": 2, "<s>": 3, "<N>": 4, "<w>": 5, "<": 6, "s": 7, ">": 8, "n": 9},
            "unk_token": "?"}})";

std::shared_ptr<const Tokenizer> tokenizer() { return make_tokenizer(parse_tokenizer_json(kTokenizer, "test")); }
using Ids = std::vector<int32_t>;

TEST(Prompt, SpecialTokensOfTheTemplate) {
  EXPECT_EQ(tokenizer()->encode_prompt("<s> a", {}), (Ids{3, 1}));
  EXPECT_EQ(tokenizer()->encode_prompt("<s> a", {}), tokenizer()->encode("<s> a").ids);
}

TEST(Prompt, SpecialTokensInContentAreText) {
  std::vector<ContentSpan> content{{4, 9}};
  EXPECT_EQ(tokenizer()->encode_prompt("<s> a <s><s>", content), (Ids{3, 1, 6, 7, 8, 3}));
}

TEST(Prompt, SpecialTokensThatTouchContentAreText) {
  std::vector<ContentSpan> first{{0, 1}}, last{{2, 3}}, none{{3, 5}};
  EXPECT_EQ(tokenizer()->encode_prompt("<s> a", first), (Ids{6, 7, 8, 1}));
  EXPECT_EQ(tokenizer()->encode_prompt("<s> a", last), (Ids{6, 7, 8, 1}));
  EXPECT_EQ(tokenizer()->encode_prompt("<s> a", none), (Ids{3, 1}));
}

TEST(Prompt, NormalizedSpecialTokens) {
  std::vector<ContentSpan> content{{0, 3}};
  EXPECT_EQ(tokenizer()->encode_prompt("<N> a <N>", content), (Ids{6, 9, 8, 1, 4}));
}

TEST(Prompt, OrdinaryAddedTokensAreFoundEverywhere) {
  std::vector<ContentSpan> content{{0, 5}};
  EXPECT_EQ(tokenizer()->encode_prompt("<w> b", content), (Ids{5, 2}));
}

void expect_refused(std::string json) {
  EXPECT_THROW(make_tokenizer(parse_tokenizer_json(json, "test")), Error) << json;
}

TEST(TokenizerJson, RefusesBrokenFiles) {
  std::string whole = kTokenizer;
  for (size_t n = 0; n < whole.size(); n += 7) expect_refused(whole.substr(0, n));
  expect_refused(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}})");
  expect_refused(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a"]}})");
  expect_refused(R"({"model": {"type": "WordLevel", "vocab": {"a": 16000000}}})");
  expect_refused(R"({"model": {"type": "WordLevel", "vocab": {"a": -1}}})");
  expect_refused(R"({"normalizer": {"type": "Nothing"}, "model": {"type": "WordLevel", "vocab": {"a": 0}}})");
  expect_refused(
      R"({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a"}}, "model": {"type": "WordLevel", "vocab": {"a": 0}}})");
}

TEST(SentencePiece, RefusesBrokenFiles) {
  for (std::string_view bytes : {"", "\x0A", "\x0A\xFF\xFF\xFF\xFF\xFF\x01", "\x12\x02\x18\x09", "abc"})
    EXPECT_THROW(parse_tokenizer_sentencepiece(bytes, "test"), Error);
}

// Every pattern with a hand-written scanner, against the matcher of regular expressions, on random strings of telling
// characters.
TEST(Scan, SamePiecesAsTheRegularExpressions) {
  const char* contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
  auto llama = [&](const std::string& digits) {
    return contractions + std::string("|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|") + digits +
           "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  };
  const std::string head = "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]",
                    tail = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]",
                    rest = "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", c = contractions;
  const std::pair<std::string, RegexDialect> patterns[] = {
      {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", RegexDialect::oniguruma},
      {llama("\\p{N}"), RegexDialect::oniguruma},
      {llama("\\p{N}{1,3}"), RegexDialect::oniguruma},
      {llama("\\p{N}+"), RegexDialect::oniguruma},
      {c + "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| "
           "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
       RegexDialect::oniguruma},
      {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| "
       "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s",
       RegexDialect::fancy},
      {head + "*" + tail + "+" + c + "?|" + head + "+" + tail + "*" + c + "?|\\p{N}{1,3}" + rest,
       RegexDialect::oniguruma},
      {head + "*" + tail + "+|" + head + "+" + tail + "*|\\p{N}" + rest, RegexDialect::fancy}};
  const std::u32string alphabet =
      U"aAzZ'sSdDlLrRvVeEmMtT\u017F "
      U"\u00A0\t\n\r\u0085\u3000019\u0661\u00BD.,/-!\u0301\u093E\u4F60\u01C5\u02B0\u00AA\U0001F642\u200D";
  uint64_t state = 1;
  auto random = [&](uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
  };
  for (const auto& [pattern, dialect] : patterns) {
    Scanner scanner = find_scanner(pattern, dialect);
    ASSERT_NE(scanner, Scanner::none) << pattern;
    Regex regex(pattern, dialect, "test");
    for (int round = 0; round < 3000; ++round) {
      std::u32string text;
      for (uint64_t n = 1 + random(12); text.size() < n;) text += alphabet[random(alphabet.size())];
      std::string s = to_utf8(text);
      std::vector<std::string> want, got;
      regex.for_each(s, [&](const Regex::Match& m) { want.push_back(s.substr(m.begin, m.end - m.begin)); });
      scan(scanner, s, [&](std::string_view piece) { got.emplace_back(piece); });
      ASSERT_EQ(got, want) << pattern << "\non: " << s;
    }
  }
}

}  // namespace
}  // namespace tenon::text
