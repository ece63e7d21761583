// Which tokens may come next, by a grammar or a schema.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>

namespace tenon::runtime {

constexpr float kNeverLogit = -std::numeric_limits<float>::infinity();

class TokenMask {
 public:
  // no: not this one after all, and nothing has changed. last: nothing may follow it.
  enum class Taken { yes, no, last };
  virtual ~TokenMask() = default;
  // Sets bit t % 32 of word t / 32 for every token t that may come next; all words are zero before.
  virtual void allow(std::span<uint32_t> bits) noexcept = 0;
  // `left`: how many tokens may follow this one.
  virtual Taken accept(int32_t token, int64_t left) noexcept = 0;
};

inline void drop_unmasked(std::span<float> logits, std::span<const uint32_t> bits) noexcept {
  for (size_t t = 0; t < logits.size(); ++t)
    if (!(bits[t / 32] >> t % 32 & 1)) logits[t] = kNeverLogit;
}

// Samples by `sample(logits)` what `mask` takes; -1: nothing that may come is taken. What is refused is left out and
// the step's one random number used again, so that an answer stays a function of its inputs. `raw` gets the logits as
// they were, less what was refused; `bits` is scratch for a bit per logit.
template <class Sample>
int32_t sample_masked(TokenMask& mask, std::span<float> logits, std::span<float> raw, std::span<uint32_t> bits,
                      int64_t left, TokenMask::Taken& taken, const Sample& sample) noexcept {
  constexpr int kMostRefused = 64;
  std::copy(logits.begin(), logits.end(), raw.begin());
  for (int refused = 0; refused < kMostRefused; ++refused) {
    std::fill(bits.begin(), bits.end(), 0);
    mask.allow(bits);
    drop_unmasked(logits, bits);
    const int32_t token = sample(logits);
    taken = mask.accept(token, left);
    if (taken != TokenMask::Taken::no) return token;
    raw[static_cast<size_t>(token)] = kNeverLogit;
    std::copy(raw.begin(), raw.end(), logits.begin());
  }
  return -1;
}

}  // namespace tenon::runtime
