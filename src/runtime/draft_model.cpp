#include "runtime/draft_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "backend/cpu/elementwise.h"
#include "base/error.h"

namespace tenon::runtime {
namespace {

// The probability of the likeliest token. What is e^-20 times as likely or less counts nothing.
double probability(std::span<const float> logits, size_t likeliest) noexcept {
  const float most = logits[likeliest];
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

void DraftModel::run(std::span<const int32_t> more, BatchItem::Outputs outputs,
                     FunctionRef<void(const StepOutput&)> sink) {
  BatchItem item;
  item.tokens = more;
  item.outputs = outputs;
  TENON_CHECK(engine_.step({&item, 1}, sink));
  held_.insert(held_.end(), more.begin(), more.end());
}

// Leaves what the sequence shares with `tokens`, less the last token. False: this model does not know them all, or
// still lacks more than a step takes.
bool DraftModel::catch_up(std::span<const int32_t> tokens) {
  const auto most = std::min(held_.size(), tokens.size() - 1);
  const auto same = static_cast<size_t>(
      std::mismatch(held_.begin(), held_.begin() + static_cast<ptrdiff_t>(most), tokens.begin()).first - held_.begin());
  if (same < held_.size()) {
    const bool near = static_cast<int64_t>(held_.size() - same) <= engine_.options().prefill_chunk;
    held_.resize(near ? same : 0);
    near ? engine_.truncate(0, static_cast<int64_t>(same)) : engine_.reset(0);
  }
  const std::span<const int32_t> more = tokens.subspan(held_.size());
  if (std::any_of(more.begin(), more.end(), [&](int32_t t) { return t >= engine_.vocab(); })) return false;
  const auto chunk = static_cast<size_t>(engine_.options().prefill_chunk);
  if (more.size() <= chunk) return true;
  run(more.first(chunk), BatchItem::Outputs::none, [](const StepOutput&) {});
  return false;
}

// Runs what the sequence lacks of `tokens`.
DraftModel::Guess DraftModel::step(std::span<const int32_t> tokens, Choose choose) {
  Guess guess{};
  const std::span<const int32_t> more = tokens.subspan(held_.size());
  const double busy = engine_.busy_s();
  run(more, BatchItem::Outputs::last, [&](const StepOutput& out) {
    guess.token = static_cast<int32_t>(cpu::argmax(out.logits.data(), engine_.vocab()));
    guess.sure = probability(out.logits, static_cast<size_t>(guess.token));
    // Where this vocabulary is the shorter one the target's sampler cannot be asked.
    if (engine_.vocab() >= vocab_) guess.token = choose(out.logits.first(static_cast<size_t>(vocab_)));
  });
  if (more.size() <= kMostDrafted + 1) {  // more is a prompt
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
  if (most <= 0 || plain == 0) return {};
  const double cost = account_.row_cost() + token_s_ / plain;  // of a drafted token
  if (!account_.affords(cost) || !catch_up(tokens)) return {};
  // A token behind the others is right only if they are: it is worth that much of a plain step.
  double right = 1;
  while (static_cast<int64_t>(draft_.size()) < most && right >= std::min(cost, 1.0)) {
    const Guess guess = step(tokens, choose);
    right *= guess.sure + (1 - guess.sure) * trust_;
    if (right < account_.row_cost()) break;
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
