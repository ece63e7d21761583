// An automaton with what it makes of a vocabulary: which tokens it takes from each of its states, whatever follows.
#pragma once
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "text/grammar/dfa.h"

namespace tenon::text::grammar {

class TokenTrie;

// Tokens in a set, by whichever form is smaller.
class TokenSet {
 public:
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
  struct Token {
    int32_t id;
    uint16_t characters;  // counted up to the byte that ended the terminal
  };
  std::vector<Node> nodes;
  std::vector<Token> tokens;
};

// How the tokens of a vocabulary run through an automaton from one of its states, bounds on its count left aside: those
// are applied afterwards, since each position of a bounded string would need a walk of its own.
struct Walk {
  struct Branch {
    uint32_t node;
    uint16_t characters;
  };
  Remainders beyond;
  // Nodes of the vocabulary's trie that end the terminal, where so much lies below that it is not copied into `beyond`.
  std::vector<Branch> branches;
  std::vector<int32_t> inside;                       // by the characters they count
  std::vector<std::pair<int32_t, uint16_t>> closed;  // tokens and what they count, that end behind a closing byte
  std::vector<uint32_t> inside_up_to;                // [c]: how many of them count at most c
  size_t bytes() const;
};

// What a terminal makes of the vocabulary from a state, with `due` characters still to come and `left` at most.
struct LocalMask {
  TokenSet inside;  // tokens that end inside of the terminal or with it
  std::shared_ptr<const Walk> walk;
  uint32_t due, left;
  bool crosses() const { return !walk->beyond.nodes.empty() || !walk->branches.empty(); }
  bool may_end(uint16_t characters) const { return characters >= due && characters <= left; }
  size_t bytes() const { return sizeof(*this) + inside.bytes(); }
};

// The walks of all automata that differ in their bounds only.
class Walks {
 public:
  Walks(const Dfa& dfa, const TokenTrie& trie);
  std::shared_ptr<const Walk> from(const TokenTrie& trie, const Dfa& dfa, uint32_t state) const;
  // The fewest bytes, each a token of its own, to an accepting state; kNever: not possible with this vocabulary.
  const std::vector<uint64_t>& distances() const { return distance_; }
  uint64_t per_character() const { return per_character_; }
  size_t memory_bytes() const;
  static constexpr uint64_t kNever = ~uint64_t{0};

 private:
  Walk compute(const TokenTrie& trie, const Dfa& dfa, uint32_t state) const;
  std::vector<uint64_t> distance_;
  uint64_t per_character_ = kNever;  // the fewest bytes of a counted character
  mutable std::mutex mutex_;         // guards walks_ and walk_bytes_
  mutable std::unordered_map<uint32_t, std::shared_ptr<const Walk>> walks_;
  mutable size_t walk_bytes_ = 0;
};

class Terminal {
 public:
  Terminal(Dfa dfa, std::shared_ptr<const Walks> walks);

  const Dfa& dfa() const { return dfa_; }
  static constexpr uint64_t kNever = Walks::kNever;
  // As Walks::distances, with the characters that are still due.
  uint64_t distance(uint32_t state, uint32_t count) const {
    uint64_t d = walks_->distances()[state];
    if (d == kNever || count >= dfa_.min_count) return d;
    if (walks_->per_character() == kNever) return kNever;
    return d + (dfa_.min_count - count) * walks_->per_character();
  }
  bool moves(uint32_t state) const { return moves_[state]; }  // some byte may follow within the terminal
  // The next byte on the shortest way; the state is not accepting with this count.
  uint8_t nearest_byte(uint32_t state, uint32_t count) const;

  std::shared_ptr<const LocalMask> local_mask(const TokenTrie& trie, uint32_t state, uint32_t count) const;
  void warm(const TokenTrie& trie) const;  // does the walks that take long
  size_t memory_bytes() const;             // without the walks

 private:
  LocalMask compute(const TokenTrie& trie, uint32_t state, uint32_t due, uint32_t left) const;

  Dfa dfa_;
  std::shared_ptr<const Walks> walks_;
  std::vector<uint8_t> moves_;
  mutable std::mutex mutex_;  // guards masks_ and mask_bytes_, which has their walks' once for each state
  mutable std::unordered_map<uint64_t, std::shared_ptr<const LocalMask>> masks_;
  mutable std::unordered_set<uint32_t> masked_states_;
  mutable size_t mask_bytes_ = 0;
};

}  // namespace tenon::text::grammar
