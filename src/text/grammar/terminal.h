// An automaton with what it makes of a vocabulary: which tokens it takes from each of its states, whatever follows.
#pragma once
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>

#include "text/grammar/dfa.h"

namespace tenon::text::grammar {

class TokenTrie;

// Tokens in a set, by whichever form is smaller.
class TokenSet {
 public:
  TokenSet(std::vector<int32_t> ids, size_t words);
  explicit TokenSet(std::vector<uint32_t> bits);
  void add_to(std::span<uint32_t> bits) const {
    if (dense_.empty())
      for (int32_t id : ids_) bits[static_cast<uint32_t>(id) >> 5] |= 1u << (id & 31);
    else
      for (size_t i = 0; i < dense_.size(); ++i) bits[i] |= dense_[i];
  }
  size_t bytes() const { return sizeof(*this) + ids_.capacity() * 4 + dense_.capacity() * 4; }

 private:
  std::vector<int32_t> ids_;
  std::vector<uint32_t> dense_;
};

// Tokens whose first part ends the terminal: what is left of them, as a trie in preorder.
struct Remainders {
  struct Node {
    uint32_t skip;
    uint32_t first_token, last_token;  // in `tokens`
    uint8_t byte;
    uint8_t depth;
  };
  std::vector<Node> nodes;
  std::vector<int32_t> tokens;
};

struct LocalMask {
  TokenSet inside;  // tokens that end inside of the terminal or with it
  Remainders beyond;
  size_t bytes() const;
};

class Terminal {
 public:
  // `trie` must outlive the terminal's use.
  Terminal(Dfa dfa, const TokenTrie& trie);

  const Dfa& dfa() const { return dfa_; }
  // The fewest bytes, each a token of its own, to an accepting state; kNever: not possible with this vocabulary.
  uint64_t distance(uint32_t state, uint32_t count) const {
    uint64_t d = distance_[state];
    if (d == kNever) return d;
    return d + (count < dfa_.min_count ? (dfa_.min_count - count) * per_character_ : 0);
  }
  bool moves(uint32_t state) const { return moves_[state]; }  // some byte may follow within the terminal
  // The next byte on such a way; the state is not accepting with this count.
  uint8_t nearest_byte(uint32_t state, uint32_t count) const;
  static constexpr uint64_t kNever = ~uint64_t{0};

  std::shared_ptr<const LocalMask> local_mask(const TokenTrie& trie, uint32_t state, uint32_t count) const;
  void warm(const TokenTrie& trie) const;  // computes the masks that take long
  size_t memory_bytes() const;

 private:
  void find_distances(const TokenTrie& trie);
  LocalMask compute(const TokenTrie& trie, uint32_t state, uint32_t count) const;
  uint64_t key(const TokenTrie& trie, uint32_t state, uint32_t& count) const;

  Dfa dfa_;
  std::vector<uint64_t> distance_;
  std::vector<uint8_t> moves_;
  uint64_t per_character_ = 0;
  mutable std::mutex mutex_;  // guards masks_ and mask_bytes_
  mutable std::unordered_map<uint64_t, std::shared_ptr<const LocalMask>> masks_;
  mutable size_t mask_bytes_ = 0;
};

}  // namespace tenon::text::grammar
