// Any text as a grammar: the first byte chooses the front end. It may be refused, but not crash, hang or grow; what is
// compiled is walked at random and must never lead to where nothing is allowed.
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "text/grammar/choices.h"
#include "text/grammar/constraint.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/lark.h"
#include "text/grammar/regex_grammar.h"

namespace {

using namespace tenon::text::grammar;

std::shared_ptr<const TokenTrie> vocabulary() {
  std::vector<std::string> spellings;
  for (int b = 0; b < 256; ++b) spellings.emplace_back(1, static_cast<char>(b));
  for (const char* piece : {"{\"",   "\":",      "\",\"",    "\"}",      "},{", "}]",   "[[",  "true", "fal",
                            "12",    "-1",       "0.",       "1}",       "a",   "ab",   "abc", "a b",  "\\n",
                            "\\u00", "\xC3\xA9", "\xE4\xBD", "\x9F\x98", "  ",  "\n  ", "the", "))",   "+("})
    spellings.emplace_back(piece);
  const auto end = static_cast<int32_t>(spellings.size());
  spellings.push_back(special_spelling("<end>"));
  return std::make_shared<const TokenTrie>(std::move(spellings), std::vector<int32_t>{end});
}

Grammar read(uint8_t kind, std::string_view text) {
  switch (kind % 6) {
    case 0:
      return json_schema_grammar(tenon::parse_json(text, "fuzz"));
    case 1:
      return json_schema_grammar(tenon::parse_json(text, "fuzz"), {.whitespace = false});
    case 2:
      return regex_grammar(text);
    case 3:
      return gbnf_grammar(text);
    case 4:
      return lark_grammar(text);
    default: {
      std::vector<std::string> choices(1);
      for (char c : text)
        if (c == '\n')
          choices.emplace_back();
        else
          choices.back().push_back(c);
      return choices_grammar(choices);
    }
  }
}

void walk(const std::shared_ptr<const Constraint>& constraint, uint32_t seed) {
  const TokenTrie& trie = constraint->trie();
  std::mt19937 random(seed);
  ConstraintState state(constraint);
  std::vector<uint32_t> bits(trie.mask_words());
  for (int step = 0; step < 16 && !state.finished(); ++step) {
    state.mask(bits);
    std::vector<int32_t> ids;
    for (int32_t id = 0; id < trie.vocab_size(); ++id)
      if (bits[static_cast<size_t>(id) >> 5] >> (id & 31) & 1) ids.push_back(id);
    if (ids.empty()) std::abort();
    state.forced(32);
    if (!state.accept(ids[random() % ids.size()])) std::abort();
  }
  if (state.closing_bytes() > 1000) return;
  for (int32_t id : state.closing_tokens())
    if (!state.accept(id)) std::abort();
  if (!state.can_end()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::shared_ptr<const TokenTrie> trie = vocabulary();
  if (size == 0) return 0;
  try {
    Grammar g = read(data[0], {reinterpret_cast<const char*>(data) + 1, size - 1});
    walk(Constraint::compile(
             g, trie, {.steps = 2'000'000, .dfa_states = 2'000, .nodes = 50'000, .depth = 64, .cache_bytes = 1 << 18}),
         static_cast<uint32_t>(size));
  } catch (const tenon::Error& e) {
    if (e.code() == tenon::ErrorCode::internal) std::abort();
  }
  return 0;
}
