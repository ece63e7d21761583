// Any bytes as a grammar in any notation: an Error, or masks from which tokens can be taken until the text ends.
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "text/grammar/constraint.h"
#include "text/grammar/grammar_text.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/regex_grammar.h"

namespace {

using namespace tenon;
using namespace tenon::text::grammar;

std::shared_ptr<const TokenTrie> trie() {
  static const auto shared = [] {
    std::vector<std::string> spellings(259);
    for (size_t b = 0; b < 256; ++b) spellings[b] = std::string(1, static_cast<char>(b));
    spellings[256] = kSpecialMark + std::string("<end>");
    spellings[257] = "{\"";
    spellings[258] = "\": ";
    return std::make_shared<const TokenTrie>(spellings, std::vector<int32_t>{256});
  }();
  return shared;
}

Grammar read(uint8_t notation, std::string_view text) {
  switch (notation % 4) {
    case 0:
      return json_schema_grammar(parse_json(text, "fuzz", 64));
    case 1:
      return regex_grammar(text);
    case 2:
      return gbnf_grammar(text);
    default:
      return lark_grammar(text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  try {
    const Grammar grammar = read(data[0], {reinterpret_cast<const char*>(data) + 1, size - 1});
    CompileLimits limits;
    limits.steps = 400'000;
    limits.dfa_states = 2'000;
    limits.nodes = 20'000;
    limits.cache_bytes = 1 << 20;
    ConstraintState state(Constraint::compile(grammar, trie(), limits));
    std::vector<uint32_t> bits(trie()->mask_words());
    for (size_t step = 0; step < 40 && !state.finished(); ++step) {
      state.mask(bits);
      std::vector<int32_t> may;
      for (int32_t t = 0; t < trie()->vocab_size(); ++t)
        if (bits[static_cast<size_t>(t) / 32] >> t % 32 & 1) may.push_back(t);
      if (may.empty()) std::abort();  // a dead end
      if (!state.accept(may[data[step % size] % may.size()])) std::abort();
    }
    for (int32_t t : state.closing_tokens())
      if (!state.accept(t)) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
