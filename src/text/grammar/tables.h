// What a constraint remembers between steps: continuations, sets of positions, the moves between them, masks. All of it
// can be found again from a set's content, so that it may be dropped at any time.
#pragma once
#include <array>
#include <memory>
#include <unordered_map>
#include <vector>

#include "text/grammar/program.h"

namespace tenon::text::grammar {

class Tables {
 public:
  static constexpr uint32_t kDead = 0xFFFFFFFF;
  static constexpr size_t kMostConfigs = 4096;
  // Positions looked at for one mask. What is beyond forbids tokens that cross from one terminal into the next; the
  // tokens within a terminal, single bytes among them, stay allowed.
  static constexpr uint64_t kMostWork = 1'000'000;
  static constexpr size_t kMostBytes = size_t{16} << 20;
  static constexpr uint64_t kMostStepVisits = 1 << 14;  // of nodes behind the terminals that a byte ends

  Tables(const Program& program, const TokenTrie& trie);

  uint32_t start();
  uint32_t step(uint32_t set, uint8_t byte);
  uint32_t step(uint32_t set, std::string_view bytes);
  bool can_end(uint32_t set) const { return sets_[set].can_end; }
  bool only_end(uint32_t set) const { return sets_[set].can_end && sets_[set].configs.empty(); }
  // Can be completed with the tokens there are.
  bool live(uint32_t set) const { return sets_[set].live; }
  const TokenSet& mask(uint32_t set);

  uint64_t closing_bytes(uint32_t set) const;
  uint8_t closing_byte(uint32_t set) const;
  int only_byte(uint32_t set) const;  // the one that may follow, or -1

  uint32_t adopt(const Tables& other, uint32_t set);  // the same set in this
  size_t bytes() const { return bytes_; }

 private:
  // What follows a terminal or a rule: a node, and behind its end another continuation.
  struct Frame {
    uint32_t node, count, parent, depth;
    uint64_t length;           // of the shortest way to the end of everything
    uint32_t closure = kDead;  // the set of what may come at once, when known
    uint32_t visits = 0;       // that finding it took
  };
  struct Config {
    uint32_t terminal, state, count, frame;
    auto operator<=>(const Config&) const = default;
  };
  struct Set {
    std::vector<Config> configs;
    bool can_end = false, live = false;
    std::unique_ptr<TokenSet> mask;
    std::unique_ptr<std::array<uint64_t, 4>> first;  // bytes that may follow
  };
  struct Positions {
    std::vector<Config> configs;
    bool can_end = false;
    uint32_t visits = 0;
  };

  uint32_t frame(uint32_t node, uint32_t count, uint32_t parent);
  uint32_t continuation(uint32_t node, uint32_t parent);
  uint32_t closure(uint32_t frame);
  void expand(uint32_t node, uint32_t count, uint32_t parent, Positions& out);
  uint32_t intern(Positions positions);
  void tidy(std::vector<Config>& configs) const;
  bool exhausted() const { return work_ > most_work_ || bytes_ > most_bytes_; }
  const std::array<uint64_t, 4>& first_bytes(uint32_t set);
  void walk(const LocalMask& local, uint32_t from, std::vector<uint32_t>& bits);
  void walk_branch(uint32_t node, uint32_t from, std::vector<uint32_t>& bits);
  uint64_t distance(const Config& c) const;

  struct Key {
    uint64_t a, b;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& k) const {
      uint64_t h = (k.a ^ (k.b * 0x9E3779B97F4A7C15u)) * 0xD6E8FEB86659FD93u;
      return static_cast<size_t>(h ^ (h >> 32));
    }
  };

  const Program& program_;
  const TokenTrie& trie_;
  std::vector<Frame> frames_;
  std::unordered_map<Key, uint32_t, Hash> frame_ids_;
  std::vector<Set> sets_;
  std::unordered_multimap<uint64_t, uint32_t> set_ids_;  // by hash
  std::unordered_map<Key, uint32_t, Hash> moves_;
  size_t bytes_ = 0, most_bytes_ = 0;
  uint64_t work_ = 0, most_work_ = 0;
};

}  // namespace tenon::text::grammar
