// Structured output: grammars compiled for a model's vocabulary, and the masks that hold an answer to one.
#pragma once
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/token_mask.h"
#include "text/grammar/constraint.h"

namespace tenon::pipelines {

// What tries, compiled grammars and remembered masks of a server's models may take, as a rule: part of a plan's
// overhead.
constexpr uint64_t kConstraintBytes = uint64_t{64} << 20;

// A model's grammars. Safe to use from several threads.
class Constraints {
 public:
  using Compiled = std::shared_ptr<const text::grammar::Constraint>;
  explicit Constraints(std::shared_ptr<const text::Tokenizer> tokenizer) : tokenizer_(std::move(tokenizer)) {}

  // The vocabulary's trie, built when first needed. Throws Error{not_found}: the model has no tokenizer.
  std::shared_ptr<const text::grammar::TokenTrie> trie();
  // Compiles what `grammar` makes of the trie, or finds what was compiled under `key`. Throws what either throws.
  Compiled compile(const std::string& key,
                   const std::function<text::grammar::Grammar(const text::grammar::TokenTrie&)>& grammar);

 private:
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::mutex mutex_;  // guards what follows
  std::shared_ptr<const text::grammar::TokenTrie> trie_;
  std::list<std::pair<std::string, Compiled>> known_;  // the one used last is the first
};

// Throws Error{invalid_argument}: the shortest answer has more than `most` tokens.
void check_room(const Constraints::Compiled& constraint, int64_t most);

// Holds one answer to a grammar, and completes it within the tokens it may have: a token after which the rest could not
// be finished in time is refused, and where most are, the shortest way to the end is taken.
class GrammarMask : public runtime::TokenMask {
 public:
  // Precondition: check_room() of the sequence's max_tokens.
  explicit GrammarMask(Constraints::Compiled constraint);
  void allow(std::span<uint32_t> bits) noexcept override;
  Taken accept(int32_t token, int64_t left) noexcept override;

 private:
  text::grammar::ConstraintState state_;
  std::vector<uint32_t> bits_;
  std::vector<int32_t> closing_;  // what completes the answer, last token first, once only that may come
  int refused_ = 0;               // in this step
};

}  // namespace tenon::pipelines
