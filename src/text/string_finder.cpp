#include "text/string_finder.h"

#include <algorithm>
#include <cstring>

namespace tenon::text {

void StringFinder::build(std::vector<std::pair<std::string, uint32_t>> strings) {
  nodes_.clear();
  edges_.clear();
  std::fill(std::begin(starts_), std::end(starts_), false);
  if (strings.empty()) return;
  std::stable_sort(strings.begin(), strings.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  // Breadth first over ranges of the sorted list that share a prefix.
  struct Range {
    size_t begin, end, depth, node;
  };
  nodes_.push_back({0, kNone, 0});
  edges_.push_back(0);
  std::vector<Range> queue{{0, strings.size(), 0, 0}};
  for (size_t q = 0; q < queue.size(); ++q) {
    Range r = queue[q];
    while (r.begin < r.end && strings[r.begin].first.size() == r.depth)
      nodes_[r.node].value = strings[r.begin++].second;
    nodes_[r.node].first_child = static_cast<uint32_t>(nodes_.size());
    for (size_t i = r.begin; i < r.end;) {
      char c = strings[i].first[r.depth];
      size_t j = i;
      while (j < r.end && strings[j].first[r.depth] == c) ++j;
      queue.push_back({i, j, r.depth + 1, nodes_.size()});
      nodes_.push_back({0, kNone, 0});
      edges_.push_back(c);
      ++nodes_[r.node].children;
      if (r.depth == 0) starts_[static_cast<uint8_t>(c)] = true;
      i = j;
    }
  }
  only_start_ = nodes_[0].children == 1 ? static_cast<uint8_t>(edges_[1]) : -1;
  nodes_.shrink_to_fit();
  edges_.shrink_to_fit();
}

bool StringFinder::longest_at(std::string_view text, Match& match) const {
  if (nodes_.empty()) return false;
  bool found = false;
  const Node* node = nodes_.data();
  for (size_t i = 0; i < text.size(); ++i) {
    const char* first = edges_.data() + node->first_child;
    const char* last = first + node->children;
    const char* it = std::find(first, last, text[i]);
    if (it == last) break;
    node = &nodes_[static_cast<size_t>(it - edges_.data())];
    if (node->value != kNone) {
      match = {0, i + 1, node->value};
      found = true;
    }
  }
  return found;
}

bool StringFinder::next(std::string_view text, size_t from, Match& match) const {
  if (nodes_.empty()) return false;
  for (size_t at = from; at < text.size(); ++at) {
    if (only_start_ >= 0) {
      const void* found = std::memchr(text.data() + at, only_start_, text.size() - at);
      if (!found) return false;
      at = static_cast<size_t>(static_cast<const char*>(found) - text.data());
    }
    if (!starts_[static_cast<uint8_t>(text[at])] || !longest_at(text.substr(at), match)) continue;
    match.begin += at;
    match.end += at;
    return true;
  }
  return false;
}

}  // namespace tenon::text
