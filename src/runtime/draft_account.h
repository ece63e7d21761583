// What drafts have cost and won so far, in steps without one, so that they stop where they lose.
#pragma once
#include <algorithm>
#include <cstdint>

namespace tenon::runtime {

constexpr int64_t kMostDrafted = 7;  // tokens of a draft

class DraftAccount {
 public:
  bool affords(double plain_steps) const noexcept { return balance_ >= plain_steps; }
  double row_cost() const noexcept { return row_cost_; }  // of a drafted token in the step that verifies it
  double plain_s() const noexcept { return plain_s_; }    // of a step without a draft; 0: not known

  // After a step: how many tokens of a draft it had, how many of them were right, how long the model took, and how long
  // the draft.
  void learn(int64_t drafted, int64_t right, double seconds, double drafting_s = 0) noexcept {
    auto follow = [](double& mean, double value, double weight) { mean += weight * (value - mean); };
    if (drafted == 0) {
      if (plain_s_ == 0) plain_s_ = seconds;
      follow(plain_s_, seconds, 0.1);
      balance_ = std::min(balance_ + kAllowance - drafting_s / plain_s_, kMostBalance);
      return;
    }
    const auto rows = static_cast<double>(drafted);
    // One slow step among others' noise must not decide.
    if (plain_s_ > 0) follow(row_cost_, std::clamp((seconds / plain_s_ - 1) / rows, 0.02, 1.0), 0.2);
    const double drafting = plain_s_ > 0 ? drafting_s / plain_s_ : 0;
    balance_ = std::min(balance_ + static_cast<double>(right) - row_cost_ * rows - drafting, kMostBalance);
  }

 private:
  static constexpr double kAllowance = 0.01, kMostBalance = 6;
  double plain_s_ = 0, row_cost_ = 0.25;
  double balance_ = 2;  // plain steps that drafts may lose from here on
};

}  // namespace tenon::runtime
