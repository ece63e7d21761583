#include "runtime/prompt_lookup.h"

#include <algorithm>

namespace tenon::runtime {
namespace {

constexpr int64_t kLeast = 3, kEnough = 12;  // tokens that must have stood there before; that make the place certain
constexpr int kMostPlaces = 32;

}  // namespace

std::span<const int32_t> PromptLookup::draft(std::span<const int32_t> tokens, int64_t most) const noexcept {
  const int64_t length = std::min({length_, most, kMostDrafted}), n = static_cast<int64_t>(tokens.size());
  if (length <= 0 || !account_.affords(account_.row_cost() * static_cast<double>(length))) return {};
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
  account_.learn(drafted, right, seconds);
  if (drafted > 0) length_ = right == drafted ? std::min(2 * length_, kMostDrafted) : std::max<int64_t>(2, right + 1);
}

}  // namespace tenon::runtime
