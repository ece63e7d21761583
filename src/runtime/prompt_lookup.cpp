#include "runtime/prompt_lookup.h"

#include <algorithm>

namespace tenon::runtime {
namespace {

constexpr int64_t kLeast = 3, kEnough = 12;  // tokens that must have stood there before; that make the place certain
constexpr int kMostPlaces = 32;
constexpr double kAllowance = 0.01, kMostBalance = 6;

}  // namespace

std::span<const int32_t> PromptLookup::draft(std::span<const int32_t> tokens, int64_t most) const noexcept {
  const int64_t length = std::min({length_, most, kMostDrafted}), n = static_cast<int64_t>(tokens.size());
  if (length <= 0 || balance_ < row_cost_ * static_cast<double>(length)) return {};
  const int32_t* t = tokens.data();
  int64_t best = 0, longest = kLeast - 1;
  int places = 0;
  for (int64_t end = n - 1; end >= kLeast && places < kMostPlaces; --end) {  // t[end) would come next
    if (t[end - 1] != t[n - 1] || t[end - 2] != t[n - 2] || t[end - 3] != t[n - 3]) continue;
    ++places;
    int64_t same = kLeast;
    while (same < end && same < kEnough && t[end - 1 - same] == t[n - 1 - same]) ++same;
    if (same <= longest) continue;
    longest = same;
    best = end;
    if (same == kEnough) break;
  }
  if (longest < kLeast) return {};
  return tokens.subspan(static_cast<size_t>(best), static_cast<size_t>(std::min(length, n - best)));
}

void PromptLookup::learn(int64_t drafted, int64_t right, double seconds) noexcept {
  auto follow = [](double& mean, double value, double weight) { mean += weight * (value - mean); };
  if (drafted == 0) {
    if (plain_s_ == 0) plain_s_ = seconds;
    follow(plain_s_, seconds, 0.1);
    balance_ = std::min(balance_ + kAllowance, kMostBalance);
    return;
  }
  const auto rows = static_cast<double>(drafted);
  // One slow step among others' noise must not decide.
  if (plain_s_ > 0) follow(row_cost_, std::clamp((seconds / plain_s_ - 1) / rows, 0.02, 1.0), 0.2);
  balance_ = std::min(balance_ + static_cast<double>(right) - row_cost_ * rows, kMostBalance);
  length_ = right == drafted ? std::min(2 * length_, kMostDrafted) : std::max<int64_t>(2, right + 1);
}

}  // namespace tenon::runtime
