// Sets of code points as sorted, disjoint ranges; surrogates never belong to one.
#pragma once
#include <cstddef>
#include <vector>

namespace tenon::text::grammar {

class CharRanges {
 public:
  struct Range {
    char32_t first, last;
    bool operator==(const Range&) const = default;
  };
  static constexpr char32_t kLast = 0x10FFFF;

  CharRanges() = default;
  static CharRanges one(char32_t c) { return range(c, c); }
  static CharRanges range(char32_t first, char32_t last);
  static CharRanges all() { return range(0, kLast); }

  void add(char32_t first, char32_t last);
  void add(const CharRanges& other);
  CharRanges complement() const;
  CharRanges minus(const CharRanges& other) const;
  bool contains(char32_t c) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<Range>& ranges() const { return ranges_; }
  bool operator==(const CharRanges&) const = default;

 private:
  void normalize();
  std::vector<Range> ranges_;
};

}  // namespace tenon::text::grammar
