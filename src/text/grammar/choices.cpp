#include "text/grammar/choices.h"

#include "text/grammar/regular.h"

namespace tenon::text::grammar {

Grammar choices_grammar(std::span<const std::string> choices) {
  if (choices.empty()) fail(ErrorCode::invalid_argument, "the list of choices is empty");
  Grammar g;
  std::vector<Grammar::Id> ways;
  for (const std::string& c : choices) ways.push_back(g.text(c));
  Meter meter(20'000'000);
  g.set_root(g.terminal(regular(g, g.choice(std::move(ways)), Spelling::plain, {.dfa_states = 100'000}, meter)));
  return g;
}

}  // namespace tenon::text::grammar
