// Histograms as plain objects; whoever shares one between threads locks it.
#pragma once
#include <array>
#include <cstdint>
#include <span>

namespace tenon {

// Seconds, in buckets of a factor of about 2 from 1 ms to 65 s.
class Histogram {
 public:
  static constexpr std::array<double, 17> kBounds = {0.001, 0.002, 0.004, 0.008, 0.016, 0.032,  0.064,  0.128, 0.256,
                                                     0.512, 1.024, 2.048, 4.096, 8.192, 16.384, 32.768, 65.536};

  void add(double seconds) {
    size_t i = 0;
    while (i < kBounds.size() && seconds > kBounds[i]) ++i;
    ++counts_[i];
    sum_ += seconds;
  }
  std::span<const uint64_t> counts() const { return counts_; }  // of each bucket; the last is beyond all bounds
  double sum() const { return sum_; }

 private:
  std::array<uint64_t, kBounds.size() + 1> counts_{};
  double sum_ = 0;
};

}  // namespace tenon
