// A grammar as a pushdown automaton: nodes that continue with their `next`, terminals between them.
#pragma once
#include <limits>
#include <memory>
#include <vector>

#include "text/grammar/grammar.h"
#include "text/grammar/token_trie.h"

namespace tenon::text::grammar {

struct CompileLimits;

class Program {
 public:
  static constexpr uint64_t kNever = Terminal::kNever;

  struct Node {
    enum class Op : uint8_t {
      accept,    // the whole output is complete
      end,       // of a rule or of a repeated part: go on behind the call
      terminal,  // `target`, then next
      call,      // the node `target`, then next
      choice,    // one of choices [target, target + count), the nearest to completion first
      loop,      // min to max times the node `target`, then next
    } op;
    uint32_t target = 0, next = 0, count = 0;
    uint32_t min = 0, max = 0;  // max kNoLimit: unbounded
    // Of the shortest way to the end of the rule: bytes, and how deep it nests.
    uint64_t length = kNever;
    uint32_t height = 0;
  };
  static constexpr uint32_t kNoLimit = 0xFFFFFFFF;

  // Throws Error as Constraint::compile says.
  static std::unique_ptr<const Program> compile(const Grammar& grammar, const TokenTrie& trie,
                                                const CompileLimits& limits);

  const Node& node(uint32_t n) const { return nodes_[n]; }
  uint32_t choice(uint32_t i) const { return choices_[i]; }
  const Terminal& terminal(uint32_t t) const { return *terminals_[t]; }
  uint32_t start() const { return start_; }
  uint32_t deepest() const { return deepest_; }
  size_t cache_bytes() const { return cache_bytes_; }
  size_t memory_bytes() const;

  // What is left behind `count` rounds of a loop; of other nodes, all of it.
  uint64_t length(uint32_t n, uint32_t count) const;
  uint32_t height(uint32_t n, uint32_t count) const;

  static constexpr uint32_t kAccept = 0, kEnd = 1;  // the first nodes

 private:
  friend class ProgramBuilder;
  std::vector<Node> nodes_;
  std::vector<uint32_t> choices_;
  std::vector<std::shared_ptr<const Terminal>> terminals_;
  uint32_t start_ = 0, deepest_ = 0;
  size_t cache_bytes_ = 0;
};

}  // namespace tenon::text::grammar
