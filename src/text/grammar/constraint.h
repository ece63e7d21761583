// Grammar-constrained decoding: which tokens may come next so that the output can still become a sentence of a grammar.
//
//   auto trie = TokenTrie::build(*tokenizer);                      // once per tokenizer
//   auto constraint = Constraint::compile(json_schema_grammar(schema), trie);  // once per request, before admission
//   ConstraintState state(constraint);                             // per sequence
//   state.mask(bits);  ... sample ...  state.accept(token);        // per step, until state.finished()
//
// Goals: whatever is sampled from the masks ends in a sentence of the grammar (no dead ends, also for vocabularies that
// cannot spell everything); bounded memory. Non-goals: all parses of very ambiguous grammars (beyond 4,096 positions at
// once, or too many steps for one mask, some are dropped, which can only forbid tokens).
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "text/grammar/grammar.h"
#include "text/grammar/token_trie.h"

namespace tenon::text::grammar {

struct CompileLimits {
  uint64_t steps = 40'000'000;  // well below a second
  uint32_t dfa_states = 20'000;
  uint32_t nodes = 1'000'000;
  uint32_t depth = 256;                  // of nested rules and repetitions in the output
  size_t cache_bytes = size_t{8} << 20;  // for what is remembered between steps
};

class Program;
class Tables;

// Immutable as seen from outside and safe to share between threads; remembers masks inside.
class Constraint {
 public:
  // Throws Error{invalid_argument}: the grammar matches nothing, calls itself without progress, cannot be spelled by
  // the vocabulary, or exceeds the limits.
  static std::shared_ptr<const Constraint> compile(const Grammar& grammar, std::shared_ptr<const TokenTrie> trie,
                                                   const CompileLimits& limits = {});
  ~Constraint();
  const TokenTrie& trie() const { return *trie_; }
  size_t memory_bytes() const;  // without the trie and its terminals

 private:
  friend class ConstraintState;
  Constraint(std::shared_ptr<const TokenTrie> trie, std::unique_ptr<const Program> program);
  std::shared_ptr<Tables> current_tables() const;

  std::shared_ptr<const TokenTrie> trie_;
  std::unique_ptr<const Program> program_;
  mutable std::mutex mutex_;  // guards tables_ and, as their users hold it, what is in them
  mutable std::shared_ptr<Tables> tables_;
};

// Where one sequence is. Copying is cheap: speculation keeps a copy to return to.
class ConstraintState {
 public:
  explicit ConstraintState(std::shared_ptr<const Constraint> constraint);

  // One bit per token id, bit id & 31 of word id >> 5; `bits` has trie().mask_words() words or more and is overwritten.
  // At least one bit is set unless the sequence ended. End tokens are set where can_end().
  void mask(std::span<uint32_t> bits);
  // False, and nothing changes, when the token is not allowed. An end token ends the sequence.
  bool accept(int32_t token);
  bool can_end() const { return ended_ || can_end_; }
  // Nothing may follow: the sequence ended, or only an end token is left to choose.
  bool finished() const { return ended_ || only_end_; }

  // The text that must come next whatever is sampled, up to `most` bytes; "" where there is a choice.
  std::string forced(size_t most = 256);
  // The fewest bytes that complete the output; 0 when it can end. As many tokens suffice.
  uint64_t closing_bytes() const;
  // Tokens that complete the output in few steps. For max_tokens: sample while closing_tokens() of the state after the
  // token still fits, then emit these.
  std::vector<int32_t> closing_tokens() const;

 private:
  void look();
  void move_in();

  std::shared_ptr<const Constraint> constraint_;
  std::shared_ptr<Tables> tables_;
  uint32_t set_ = 0;
  bool can_end_ = false, only_end_ = false, ended_ = false;
};

}  // namespace tenon::text::grammar
