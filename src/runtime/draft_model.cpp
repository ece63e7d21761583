#include "runtime/draft_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"

namespace tenon::runtime {
namespace {

// How sure the likeliest token is. What is e^-20 times as likely or less counts nothing.
double surest(std::span<const float> logits) noexcept {
  float most = -std::numeric_limits<float>::infinity();
  for (float x : logits) most = std::max(most, x);
  double sum = 0;
  for (float x : logits)
    if (x > most - 20) sum += std::exp(static_cast<double>(x) - most);
  return sum > 0 ? 1 / sum : 0;
}

}  // namespace

DraftModel::DraftModel(const Engine& target)
    : engine_(target.options().draft, *target.layout().draft, target.threads()), vocab_(target.vocab()) {
  held_.reserve(static_cast<size_t>(engine_.context()));
  draft_.reserve(kMostDrafted);
  sure_.reserve(kMostDrafted);
}

// Leaves what the sequence shares with `tokens`, less the last token. False: it still lacks more than a step takes.
bool DraftModel::catch_up(std::span<const int32_t> tokens) {
  const auto most = std::min(held_.size(), tokens.size() - 1);
  const auto same = static_cast<size_t>(
      std::mismatch(held_.begin(), held_.begin() + static_cast<ptrdiff_t>(most), tokens.begin()).first - held_.begin());
  if (same < held_.size()) {
    const bool near = static_cast<int64_t>(held_.size() - same) <= engine_.options().prefill_chunk;
    held_.resize(near ? same : 0);
    near ? engine_.truncate(0, static_cast<int64_t>(same)) : engine_.reset(0);
  }
  const auto chunk = static_cast<size_t>(engine_.options().prefill_chunk);
  if (tokens.size() - held_.size() <= chunk) return true;
  BatchItem item;
  item.tokens = tokens.subspan(held_.size(), chunk);
  item.outputs = BatchItem::Outputs::none;
  TENON_CHECK(engine_.step({&item, 1}, [](const StepOutput&) {}));
  held_.insert(held_.end(), item.tokens.begin(), item.tokens.end());
  return false;
}

// Runs what the sequence lacks of `tokens`.
DraftModel::Guess DraftModel::step(std::span<const int32_t> tokens, Choose choose) {
  Guess guess{-1, 0};
  BatchItem item;
  item.tokens = tokens.subspan(held_.size());
  const double busy = engine_.busy_s();
  TENON_CHECK(engine_.step({&item, 1}, [&](const StepOutput& out) {
    guess.sure = surest(out.logits);
    // Where this vocabulary is the shorter one the target's sampler cannot be asked.
    guess.token =
        engine_.vocab() >= vocab_
            ? choose(out.logits.first(static_cast<size_t>(vocab_)))
            : static_cast<int32_t>(std::max_element(out.logits.begin(), out.logits.end()) - out.logits.begin());
  }));
  held_.insert(held_.end(), item.tokens.begin(), item.tokens.end());
  if (item.tokens.size() <= kMostDrafted + 1) {  // more is a prompt
    const double seconds = engine_.busy_s() - busy;
    token_s_ = token_s_ > 0 ? token_s_ + 0.1 * (seconds - token_s_) : seconds;
    spent_s_ += seconds;
  }
  return guess;
}

std::span<const int32_t> DraftModel::draft(std::vector<int32_t>& tokens, int64_t most, Choose choose) {
  draft_.clear();
  sure_.clear();
  spent_s_ = 0;
  int64_t room = engine_.context();
  if (engine_.rope_boundary()) room = std::min(room, engine_.rope_boundary());
  const size_t known = tokens.size();
  most = std::min({most, kMostDrafted, room - static_cast<int64_t>(known)});
  const double plain = account_.plain_s();
  const double cost = account_.row_cost() + (plain > 0 ? token_s_ / plain : 0);  // of a drafted token
  auto unknown = [&](int32_t t) { return t < 0 || t >= engine_.vocab(); };
  if (most <= 0 || plain == 0 || !account_.affords(cost) || std::any_of(tokens.begin(), tokens.end(), unknown) ||
      !catch_up(tokens))
    return {};
  // A token behind the others is right only if they are: it is worth that much of a plain step.
  double right = 1;
  while (static_cast<int64_t>(draft_.size()) < most && right >= std::min(cost, 1.0)) {
    const Guess guess = step(tokens, choose);
    right *= guess.sure + (1 - guess.sure) * trust_;
    if (unknown(guess.token) || guess.token >= vocab_ || right < account_.row_cost()) break;
    draft_.push_back(guess.token);
    sure_.push_back(guess.sure);
    tokens.push_back(guess.token);
  }
  tokens.resize(known);
  return draft_;
}

void DraftModel::learn(int64_t drafted, int64_t right, double seconds) noexcept {
  // Of what follows the first wrong token nothing can be learnt.
  for (int64_t i = 0; i < std::min(right + 1, drafted); ++i) {
    const double sure = sure_[static_cast<size_t>(i)], was = i < right ? 1 : 0;
    trust_ = std::clamp(trust_ + 0.1 * (was - sure - (1 - sure) * trust_), 0.0, 1.0);
  }
  account_.learn(drafted, right, seconds, std::exchange(spent_s_, 0));
}

}  // namespace tenon::runtime
