// Vocabularies for the tests of grammars, and what is asked of a grammar with them.
#pragma once
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "support/kit.h"
#include "text/grammar/constraint.h"
#include "text/tokenizer.h"

namespace tenon::test {

using TriePtr = std::shared_ptr<const text::grammar::TokenTrie>;

// Ids 0 to 255 are the bytes, then `pieces`, then <|end|>, which ends, and <|call|>, another special token.
inline TriePtr vocabulary(const std::vector<std::string>& pieces = {}) {
  std::vector<std::string> spellings;
  for (int b = 0; b < 256; ++b) spellings.emplace_back(1, static_cast<char>(b));
  spellings.insert(spellings.end(), pieces.begin(), pieces.end());
  const auto end = static_cast<int32_t>(spellings.size());
  spellings.push_back(text::grammar::special_spelling("<|end|>"));
  spellings.push_back(text::grammar::special_spelling("<|call|>"));
  return std::make_shared<const text::grammar::TokenTrie>(std::move(spellings), std::vector<int32_t>{end});
}

inline TriePtr byte_vocabulary() {
  static const TriePtr trie = vocabulary();
  return trie;
}

// Tokens as real ones are: across brackets, quotes, digits and parts of characters; some twice.
inline TriePtr piece_vocabulary() {
  static const TriePtr trie =
      vocabulary({"{\"",  "\":",      "\": ",     "\",\"",        "\", \"",   "\"}",      "},{",
                  "}]",   "[[",       "]]",       "[]",           "{}",       "\"\"",     ", ",
                  ",\"",  "true",     "false",    "null",         "tr",       "ue",       "fal",
                  "se",   "1",        "12",       "123",          "00",       "-1",       "0.",
                  ".5",   "e+",       "1}",       "1]",           "1,",       "2, ",      "a",
                  "aa",   "aaa",      "ab",       "abc",          "b\"",      "c\",",     "d\"}",
                  "name", "name\"",   "\"na",     "\\n",          "\\u",      "\\u00",    "\\\"",
                  "\xC3", "\xC3\xA9", "\xE4\xBD", "\xE4\xBD\xA0", "\x9F\x98", "\xF0\x9F", " ",
                  "  ",   "\n",       "\n  ",     "\n    ",       "the",      " the",     "ing",
                  "foo",  "bar",      "foobar",   "-0",           "2024-",    "-01",      ":00",
                  "://",  "::",       "@",        ".com",         "+",        "*",        "(",
                  ")",    "((",       "))"});
  return trie;
}

inline TriePtr trie_of(const std::filesystem::path& tokenizer) {
  static std::map<std::string, TriePtr> loaded;
  TriePtr& trie = loaded[tokenizer.string()];
  if (!trie) trie = text::grammar::TokenTrie::build(*text::Tokenizer::load(tokenizer));
  return trie;
}

// Of a published model where the kit is present, else of the golden data.
inline TriePtr real_vocabulary() {
  if (auto qwen = kit("tokenizers/qwen2.5/tokenizer.json")) return trie_of(*qwen);
  return trie_of(golden("tokenizers/bpe-bytelevel/tokenizer.json"));
}

inline bool has_bit(const std::vector<uint32_t>& bits, int32_t id) {
  return bits[static_cast<uint32_t>(id) >> 5] >> (id & 31) & 1;
}

inline std::vector<uint32_t> mask_of(text::grammar::ConstraintState& state, const text::grammar::TokenTrie& trie) {
  std::vector<uint32_t> bits(trie.mask_words());
  state.mask(bits);
  return bits;
}

inline std::vector<int32_t> ids_of(const std::vector<uint32_t>& bits) {
  std::vector<int32_t> ids;
  for (size_t w = 0; w < bits.size(); ++w)
    for (uint32_t b = bits[w]; b != 0; b &= b - 1)
      ids.push_back(static_cast<int32_t>(w * 32 + static_cast<size_t>(__builtin_ctz(b))));
  return ids;
}

// Whether a text is a sentence of the grammar, written with the longest tokens; masks and accept() must agree.
inline bool accepts(const std::shared_ptr<const text::grammar::Constraint>& constraint, std::string_view text) {
  const auto& trie = constraint->trie();
  text::grammar::ConstraintState state(constraint);
  for (size_t at = 0; at < text.size();) {
    const int32_t token = trie.longest_prefix(text.substr(at));
    if (token < 0) return false;
    const bool allowed = has_bit(mask_of(state, trie), token);
    const bool taken = state.accept(token);
    EXPECT_EQ(allowed, taken) << "token \"" << trie.spelling(token) << "\" at " << at << " of " << text;
    if (!taken) return false;
    at += trie.spelling(token).size();
  }
  return state.can_end();
}

// Any token of the masks until the sentence ends; from `budget` on the nearest way out. Returns the text.
inline std::string sample(const std::shared_ptr<const text::grammar::Constraint>& constraint, std::mt19937& random,
                          size_t budget) {
  const auto& trie = constraint->trie();
  text::grammar::ConstraintState state(constraint);
  std::string out;
  for (size_t step = 0; !state.finished(); ++step) {
    const std::vector<int32_t> ids = ids_of(mask_of(state, trie));
    if (ids.empty()) {
      ADD_FAILURE() << "a dead end behind " << out;
      return out;
    }
    int32_t token = ids[random() % ids.size()];
    // Half of the time what is short, so that texts get somewhere.
    if (random() % 2)
      for (int i = 0; i < 4; ++i)
        if (int32_t other = ids[random() % ids.size()]; trie.spelling(other).size() < trie.spelling(token).size())
          token = other;
    text::grammar::ConstraintState ahead = state;
    if (!ahead.accept(token)) {
      ADD_FAILURE() << "token " << token << " of the mask is not accepted behind " << out;
      return out;
    }
    if (step + ahead.closing_tokens().size() > budget) {
      for (int32_t closing : state.closing_tokens()) {
        EXPECT_TRUE(has_bit(mask_of(state, trie), closing)) << out;
        EXPECT_TRUE(state.accept(closing)) << "a closing token behind " << out;
        out += trie.spelling(closing);
      }
      EXPECT_TRUE(state.can_end()) << out;
      return out;
    }
    if (trie.is_end(token)) return out;
    out += trie.spelling(token);
    state = ahead;
  }
  return out;
}

}  // namespace tenon::test
