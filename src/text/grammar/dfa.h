// Deterministic automata over bytes: what the regular parts of a grammar (its terminals) become.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/meter.h"

namespace tenon::text::grammar {

// State 0 is the start. Every state reaches an accepting one. An automaton may count characters: the strings of a JSON
// schema with bounds on their length would otherwise need a state per character.
struct Dfa {
  static constexpr uint32_t kDead = 0x3FFFFFFF;
  static constexpr uint32_t kCounts = 0x80000000;    // flag of a transition: it begins one more counted character
  static constexpr uint32_t kNeedsMin = 0x40000000;  // flag: only once min_count characters have come
  static constexpr uint32_t kTarget = 0x3FFFFFFF;
  static constexpr uint32_t kNoLimit = 0xFFFFFFFF;

  std::array<uint8_t, 256> byte_class{};
  uint32_t classes = 0;
  std::vector<uint32_t> next;  // [state * classes + class]: target and flags
  std::vector<uint8_t> accepting;
  uint32_t min_count = 0, max_count = kNoLimit;  // accepting states accept within these only

  uint32_t states() const { return static_cast<uint32_t>(accepting.size()); }
  bool counted() const { return min_count != 0 || max_count != kNoLimit; }
  bool empty() const { return accepting.empty(); }

  // Follows one byte; false: dead. `count` stops at min_count where there is no upper bound.
  bool step(uint32_t& state, uint32_t& count, uint8_t byte) const {
    uint32_t t = next[state * classes + byte_class[byte]];
    if (t == kDead || ((t & kNeedsMin) && count < min_count)) return false;
    if (t & kCounts) {
      if (count >= max_count) return false;
      if (max_count != kNoLimit || count < min_count) ++count;
    }
    state = t & kTarget;
    return true;
  }
  bool accepts(uint32_t state, uint32_t count) const { return accepting[state] && count >= min_count; }
  bool matches(std::string_view text) const;
  // Whether most letters may follow: a large part of any vocabulary.
  bool wide(uint32_t state) const;
  uint32_t wide_states() const;
  size_t bytes() const { return sizeof(*this) + next.capacity() * 4 + accepting.capacity(); }
  std::string key() const;  // equal for equal automata
};

enum class Combine { both, either, first_only };

// None of these takes counted automata. Throws Error when the meter or `max_states` is exceeded. The result may be
// empty (no states): it matches nothing.
Dfa combine(const Dfa& a, const Dfa& b, Combine how, uint32_t max_states, Meter& meter);
Dfa minimize(const Dfa& dfa, Meter& meter);  // also drops states that lead nowhere
// `prefix` + any match + `suffix`; no match may contain the first byte of `suffix`.
Dfa enclose(const Dfa& dfa, char prefix, char suffix);
// Between min and max matches of `one`, none of which is another's prefix.
Dfa repeat_counted(const Dfa& one, uint32_t min, uint32_t max);
// A match of a counted automaton and then one byte of `ends`, with none of which a match goes on.
Dfa followed(const Dfa& counted, std::string_view ends);
Dfa match_text(std::string_view text);

}  // namespace tenon::text::grammar
