// All tokens that are prefixes of a text, shortest first, in one walk: a double array over bytes.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace tenon::text {

class PrefixTrie {
 public:
  // `keys`: (string, value); empty strings are left out, of equal strings the last wins.
  void build(std::vector<std::pair<std::string_view, int32_t>> keys);

  // Calls found(length, value) for every key that `text` begins with.
  template <class F>
  void prefixes(std::string_view text, F&& found) const {
    if (units_.empty()) return;
    uint32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      uint32_t next = units_[node].base + static_cast<uint8_t>(text[i]);
      if (next >= units_.size() || units_[next].parent != node) return;
      node = next;
      if (units_[node].value >= 0) found(i + 1, units_[node].value);
    }
  }
  size_t memory_bytes() const { return units_.capacity() * sizeof(Unit); }

 private:
  struct Unit {
    uint32_t base = 0;
    uint32_t parent = kFree;
    int32_t value = -1;
  };
  static constexpr uint32_t kFree = 0xFFFFFFFFu;
  std::vector<Unit> units_;  // [0] is the root
};

}  // namespace tenon::text
