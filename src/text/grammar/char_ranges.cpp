#include "text/grammar/char_ranges.h"

#include <algorithm>

namespace tenon::text::grammar {
namespace {

constexpr char32_t kSurrogateFirst = 0xD800, kSurrogateLast = 0xDFFF;

}  // namespace

CharRanges CharRanges::range(char32_t first, char32_t last) {
  CharRanges r;
  r.add(first, last);
  return r;
}

void CharRanges::add(char32_t first, char32_t last) {
  if (first > last || first > kLast) return;
  ranges_.push_back({first, std::min(last, kLast)});
  normalize();
}

void CharRanges::add(const CharRanges& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  normalize();
}

void CharRanges::normalize() {
  std::vector<Range> cut;
  for (Range r : ranges_) {  // without surrogates
    if (r.first < kSurrogateFirst) cut.push_back({r.first, std::min<char32_t>(r.last, kSurrogateFirst - 1)});
    if (r.last > kSurrogateLast) cut.push_back({std::max<char32_t>(r.first, kSurrogateLast + 1), r.last});
  }
  std::sort(cut.begin(), cut.end(), [](Range a, Range b) { return a.first < b.first; });
  ranges_.clear();
  for (Range r : cut) {
    if (!ranges_.empty() && r.first <= ranges_.back().last + 1)
      ranges_.back().last = std::max(ranges_.back().last, r.last);
    else
      ranges_.push_back(r);
  }
}

CharRanges CharRanges::complement() const {
  CharRanges out;
  char32_t next = 0;
  for (Range r : ranges_) {
    if (r.first > next) out.ranges_.push_back({next, r.first - 1});
    next = r.last + 1;
  }
  if (next <= kLast) out.ranges_.push_back({next, kLast});
  out.normalize();
  return out;
}

CharRanges CharRanges::minus(const CharRanges& other) const {
  CharRanges outside = complement();
  outside.add(other);
  return outside.complement();
}

bool CharRanges::contains(char32_t c) const {
  auto it = std::upper_bound(ranges_.begin(), ranges_.end(), c, [](char32_t v, Range r) { return v < r.first; });
  return it != ranges_.begin() && c <= std::prev(it)->last;
}

}  // namespace tenon::text::grammar
