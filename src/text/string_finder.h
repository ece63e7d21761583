// Many strings looked for at once.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::text {

// A set of strings to find, leftmost and longest first, in one walk over the text.
class StringFinder {
 public:
  // `strings` must not be empty strings; of equal ones the last wins.
  void build(std::vector<std::pair<std::string, uint32_t>> strings);
  struct Match {
    size_t begin, end;
    uint32_t value;
  };
  // The next match that begins at or after `from`; false when there is none.
  bool next(std::string_view text, size_t from, Match& match) const;
  // The longest string at the start of `text`.
  bool longest_at(std::string_view text, Match& match) const;
  bool empty() const { return nodes_.empty(); }
  size_t memory_bytes() const { return nodes_.capacity() * sizeof(Node) + edges_.capacity() + sizeof(*this); }

 private:
  struct Node {
    uint32_t first_child;  // children are nodes_[first_child + k], reached by edges_[first_child + k]
    uint32_t value;        // kNone: no string ends here
    uint16_t children;
  };
  static constexpr uint32_t kNone = 0xFFFFFFFFu;
  std::vector<Node> nodes_;  // [0] is the root
  std::vector<char> edges_;
  bool starts_[256] = {};
  int only_start_ = -1;  // the one byte that all strings begin with
};

}  // namespace tenon::text
