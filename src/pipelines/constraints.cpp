#include "pipelines/constraints.h"

#include <algorithm>

#include "base/error.h"

namespace tenon::pipelines {

using text::grammar::Constraint;
using text::grammar::ConstraintState;
using text::grammar::TokenTrie;

namespace {
constexpr size_t kMostKnown = 16;
constexpr int kMostRefused = 8;
}  // namespace

std::shared_ptr<const TokenTrie> Constraints::trie() {
  std::lock_guard lock(mutex_);
  if (!tokenizer_) fail(ErrorCode::not_found, "structured output needs a tokenizer, and the model has none");
  if (!trie_) trie_ = TokenTrie::build(*tokenizer_);
  return trie_;
}

Constraints::Compiled Constraints::compile(const std::string& key,
                                           const std::function<text::grammar::Grammar(const TokenTrie&)>& grammar) {
  auto trie = this->trie();
  {
    std::lock_guard lock(mutex_);
    for (auto k = known_.begin(); k != known_.end(); ++k)
      if (k->first == key) {
        known_.splice(known_.begin(), known_, k);
        return k->second;
      }
  }
  auto compiled = Constraint::compile(grammar(*trie), trie, {.cache_bytes = size_t{2} << 20});
  std::lock_guard lock(mutex_);
  known_.emplace_front(key, compiled);
  if (known_.size() > kMostKnown) known_.pop_back();
  return compiled;
}

namespace {

constexpr int64_t kFarTooMany = int64_t{1} << 40;

// Tokens that complete what `state` has begun; far too many where closing_tokens() gives none.
int64_t tokens_to_close(const ConstraintState& state) {
  if (state.can_end()) return 0;
  const auto tokens = static_cast<int64_t>(state.closing_tokens().size());
  return tokens > 0 ? tokens : kFarTooMany;
}

}  // namespace

void check_room(const Constraints::Compiled& constraint, int64_t most) {
  const int64_t least = std::max<int64_t>(tokens_to_close(ConstraintState(constraint)), 1);
  if (least == kFarTooMany)
    fail(ErrorCode::invalid_argument, "the shortest answer of the asked form is longer than any that may be generated");
  if (least > most)
    fail(ErrorCode::invalid_argument, "the shortest answer of the asked form has {} tokens, only {} may be generated",
         least, most);
}

GrammarMask::GrammarMask(Constraints::Compiled constraint)
    : state_(constraint), bits_(constraint->trie().mask_words()) {}

// The vocabulary and the model's logits may differ in length.
void GrammarMask::allow(std::span<uint32_t> bits) noexcept {
  if (closing_.empty() && refused_ >= kMostRefused) {
    closing_ = state_.closing_tokens();
    std::reverse(closing_.begin(), closing_.end());
  }
  if (closing_.empty()) {
    state_.mask(bits_);
  } else {
    std::fill(bits_.begin(), bits_.end(), 0);
    bits_[static_cast<size_t>(closing_.back()) / 32] |= 1u << closing_.back() % 32;
  }
  std::copy_n(bits_.begin(), std::min(bits.size(), bits_.size()), bits.begin());
}

runtime::TokenMask::Taken GrammarMask::accept(int32_t token, int64_t left) noexcept {
  ConstraintState next = state_;
  const bool in_time =
      next.accept(token) && (next.closing_bytes() <= static_cast<uint64_t>(left) || tokens_to_close(next) <= left);
  if (!in_time) {
    ++refused_;
    return Taken::no;
  }
  state_ = std::move(next);
  refused_ = 0;
  if (!closing_.empty()) closing_.pop_back();
  return state_.finished() ? Taken::last : Taken::yes;
}

}  // namespace tenon::pipelines
