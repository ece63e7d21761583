#include "text/prefix_trie.h"

#include <algorithm>

namespace tenon::text {

// Breadth first. A node's children go to the first place where all of them find free units; the search starts where the
// last one left off, so that building stays near linear at the price of some holes.
void PrefixTrie::build(std::vector<std::pair<std::string_view, int32_t>> keys) {
  std::stable_sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  struct Range {
    size_t begin, end, depth;
    uint32_t node;
  };
  units_.assign(1, Unit{});
  units_[0].parent = kFree - 1;
  std::vector<Range> queue{{0, keys.size(), 0, 0}};
  std::vector<std::pair<uint8_t, Range>> children;
  uint32_t from = 1;
  for (size_t q = 0; q < queue.size(); ++q) {
    Range r = queue[q];
    for (; r.begin < r.end && keys[r.begin].first.size() == r.depth; ++r.begin)
      if (r.depth > 0) units_[r.node].value = keys[r.begin].second;
    children.clear();
    for (size_t i = r.begin, j; i < r.end; i = j) {
      char c = keys[i].first[r.depth];
      for (j = i; j < r.end && keys[j].first[r.depth] == c;) ++j;
      children.push_back({static_cast<uint8_t>(c), {i, j, r.depth + 1, 0}});
    }
    if (children.empty()) continue;
    const uint32_t first = children.front().first;
    uint32_t tries = 0;
    uint32_t at = std::max(from, first + 1);
    auto fits = [&](uint32_t base) {
      return std::all_of(children.begin(), children.end(), [&](const auto& c) {
        return base + c.first >= units_.size() || units_[base + c.first].parent == kFree;
      });
    };
    while (!fits(at - first)) {
      ++at;
      if (++tries > 64) from = std::max(from, at - 32);
    }
    while (from < units_.size() && units_[from].parent != kFree) ++from;
    uint32_t base = at - first;
    units_[r.node].base = base;
    units_.resize(std::max(units_.size(), static_cast<size_t>(base) + children.back().first + 1));
    for (auto& [c, range] : children) {
      units_[base + c].parent = r.node;
      range.node = base + c;
      queue.push_back(range);
    }
  }
  units_.shrink_to_fit();
}

}  // namespace tenon::text
