#include "runtime/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "backend/cpu/elementwise.h"
#include "base/error.h"
#include "base/rng.h"

namespace tenon::runtime {
namespace {

// Ascending keys are descending logits, then ascending ids. NaN sorts last.
uint64_t sort_key(float logit, uint32_t id) {
  auto bits = std::bit_cast<uint32_t>(logit);
  uint32_t ascending = std::isnan(logit) ? 0 : bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return uint64_t{~ascending} << 32 | id;
}

int32_t id_of(uint64_t key) { return static_cast<int32_t>(static_cast<uint32_t>(key)); }

float logit_of(uint64_t key) {
  uint32_t ascending = ~static_cast<uint32_t>(key >> 32);
  return std::bit_cast<float>(ascending & 0x80000000u ? ascending & 0x7FFFFFFFu : ~ascending);
}

// Least significant digit first over the logit's 32 bits: stable, so ids stay ascending among equals.
void radix_sort(std::span<uint64_t> keys, std::span<uint64_t> spare) {
  constexpr int kBits = 11;
  for (int shift = 32; shift < 64; shift += kBits) {
    uint32_t counts[(1 << kBits) + 1] = {};
    auto digit = [&](uint64_t k) { return (k >> shift) & ((1 << kBits) - 1); };
    for (uint64_t k : keys) ++counts[digit(k) + 1];
    for (int i = 0; i < 1 << kBits; ++i) counts[i + 1] += counts[i];
    for (uint64_t k : keys) spare[counts[digit(k)]++] = k;
    std::swap(keys, spare);
  }
  // 32 bits take three passes: the result ends in what was the spare array.
  std::copy(keys.begin(), keys.end(), spare.begin());
}

}  // namespace

void SamplingOptions::check() const {
  auto require = [](bool ok, const char* name, double value, const char* range) {
    if (!ok) fail(ErrorCode::invalid_argument, "{} is {}, wanted {}", name, value, range);
  };
  require(temperature >= 0 && std::isfinite(temperature), "temperature", temperature, "a number >= 0");
  require(top_k >= 0, "top_k", static_cast<double>(top_k), ">= 0 (0: off)");
  require(top_p > 0 && top_p <= 1, "top_p", top_p, "more than 0, at most 1");
  require(min_p >= 0 && min_p <= 1, "min_p", min_p, "0 to 1");
  require(typical_p > 0 && typical_p <= 1, "typical_p", typical_p, "more than 0, at most 1");
  require(repetition_penalty > 0 && std::isfinite(repetition_penalty), "repetition_penalty", repetition_penalty,
          "more than 0");
  require(std::abs(presence_penalty) <= 100, "presence_penalty", presence_penalty, "-100 to 100");
  require(std::abs(frequency_penalty) <= 100, "frequency_penalty", frequency_penalty, "-100 to 100");
}

void SamplingOptions::check(int64_t vocab) const {
  check();
  for (const auto& [id, bias] : logit_bias)
    if (id < 0 || id >= vocab)
      fail(ErrorCode::invalid_argument, "logit_bias names token {}, the vocabulary has {}", id, vocab);
}

Sampler::Sampler(SamplingOptions options, int64_t vocab, std::span<uint64_t> scratch) : options_(std::move(options)) {
  options_.check(vocab);
  auto n = static_cast<size_t>(vocab);
  TENON_CHECK(scratch.size() >= 2 * n);
  keys_ = scratch.subspan(0, n);
  spare_ = scratch.subspan(n, n);
  // One after the other in the same memory: counts, the sort's second array, probabilities.
  counts_ = spare_;
  probabilities_ = {reinterpret_cast<double*>(spare_.data()), n};
}

void Sampler::penalise(std::span<float> logits, std::span<const int32_t> prompt, std::span<const int32_t> output) {
  auto each_distinct = [&](auto&& list, auto&& apply) {
    for (int32_t t : list) counts_[static_cast<size_t>(t)] = 0;
    for (int32_t t : list) counts_[static_cast<size_t>(t)]++;
    for (int32_t t : list)
      if (uint64_t& c = counts_[static_cast<size_t>(t)]; c) apply(logits[static_cast<size_t>(t)], std::exchange(c, 0));
  };
  if (options_.repetition_penalty != 1) {
    auto p = static_cast<float>(options_.repetition_penalty);
    for (auto list : {prompt, output})
      for (int32_t t : list) counts_[static_cast<size_t>(t)] = 1;
    for (auto list : {prompt, output})
      for (int32_t t : list)
        if (std::exchange(counts_[static_cast<size_t>(t)], 0)) {
          float& x = logits[static_cast<size_t>(t)];
          x = x > 0 ? x / p : x * p;
        }
  }
  if (options_.presence_penalty != 0 || options_.frequency_penalty != 0)
    each_distinct(output, [&](float& x, uint64_t count) {
      x -= static_cast<float>(options_.presence_penalty + options_.frequency_penalty * static_cast<double>(count));
    });
}

size_t Sampler::sort_candidates(std::span<const float> logits) {
  for (size_t i = 0; i < logits.size(); ++i) keys_[i] = sort_key(logits[i], static_cast<uint32_t>(i));
  auto k = static_cast<size_t>(options_.top_k);
  if (k > 0 && k < logits.size() / 8) {
    std::nth_element(keys_.begin(), keys_.begin() + static_cast<ptrdiff_t>(k), keys_.end());
    std::sort(keys_.begin(), keys_.begin() + static_cast<ptrdiff_t>(k));
    return k;
  }
  radix_sort(keys_, spare_);
  return k > 0 ? std::min(k, logits.size()) : logits.size();
}

int32_t Sampler::next(std::span<float> logits, std::span<const int32_t> prompt, std::span<const int32_t> output,
                      uint32_t choice) {
  for (const auto& [id, bias] : options_.logit_bias) logits[static_cast<size_t>(id)] += bias;
  penalise(logits, prompt, output);
  if (options_.temperature == 0)
    return static_cast<int32_t>(cpu::argmax(logits.data(), static_cast<int64_t>(logits.size())));

  size_t n = sort_candidates(logits);
  double top = logit_of(keys_[0]);
  if (!(top > -std::numeric_limits<double>::infinity())) return id_of(keys_[0]);
  // Unnormalised probabilities of the first n candidates and their sum.
  double sum = 0;
  auto resum = [&] {
    sum = std::accumulate(probabilities_.begin(), probabilities_.begin() + static_cast<ptrdiff_t>(n), 0.0);
  };
  for (size_t i = 0; i < n; ++i) {
    double x = logit_of(keys_[i]);
    probabilities_[i] = std::isnan(x) ? 0 : std::exp((x - top) / options_.temperature);
  }
  resum();
  if (options_.top_p < 1) {
    double mass = 0;
    for (size_t i = 0; i < n; ++i) {
      mass += probabilities_[i];
      if (mass >= options_.top_p * sum) n = i + 1;
    }
    resum();
  }
  if (options_.min_p > 0) {
    size_t keep = 1;
    while (keep < n && probabilities_[keep] >= options_.min_p * probabilities_[0]) ++keep;
    n = keep;
    resum();
  }
  if (options_.typical_p < 1) {  // Meister et al. 2022: nearest to the expected information first
    double entropy = 0;
    for (size_t i = 0; i < n; ++i)
      if (double p = probabilities_[i] / sum; p > 0) entropy -= p * std::log(p);
    auto distance = [&](size_t i) {
      double p = probabilities_[i] / sum;
      return p > 0 ? std::abs(-std::log(p) - entropy) : std::numeric_limits<double>::infinity();
    };
    auto order = reinterpret_cast<uint32_t*>(logits.data());  // the logits are in the keys by now
    std::iota(order, order + n, 0u);
    std::sort(order, order + n, [&](uint32_t a, uint32_t b) {
      double da = distance(a), db = distance(b);
      return da < db || (da == db && a < b);
    });
    double mass = 0;
    size_t kept = 0;
    while (kept < n && mass < options_.typical_p * sum) mass += probabilities_[order[kept++]];
    std::sort(order, order + kept);
    for (size_t i = 0; i < kept; ++i) {
      keys_[i] = keys_[order[i]];
      probabilities_[i] = probabilities_[order[i]];
    }
    n = kept;
    resum();
  }
  double u = philox_uniform(options_.seed, choice, output.size(), 0) * sum, mass = 0;
  for (size_t i = 0; i < n; ++i) {
    mass += probabilities_[i];
    if (u < mass) return id_of(keys_[i]);
  }
  return id_of(keys_[n - 1]);
}

}  // namespace tenon::runtime
