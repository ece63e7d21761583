// The vocabulary as a trie of bytes, built once per tokenizer and shared by all grammars.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/grammar/terminal.h"
#include "text/tokenizer.h"

namespace tenon::text::grammar {

class TokenTrie {
 public:
  // Preorder: a node's children follow it, `skip` is the next node that is not below it.
  struct Node {
    uint32_t skip;
    int32_t token;  // that ends here; -1: none
    uint8_t byte;
    uint8_t depth;  // of this byte in its tokens, from 0
  };
  static constexpr size_t kLongest = 255;  // bytes; longer tokens are never allowed

  // What each id spells: "" where it spells nothing; of special tokens their special_spelling().
  TokenTrie(std::vector<std::string> spellings, std::vector<int32_t> end_ids);
  static std::shared_ptr<const TokenTrie> build(const Tokenizer& tokenizer);

  int32_t vocab_size() const { return vocab_size_; }
  size_t mask_words() const { return (static_cast<size_t>(vocab_size_) + 31) / 32; }
  const std::vector<int32_t>& end_ids() const { return end_ids_; }
  bool is_end(int32_t id) const;
  // Whether some token goes on with this byte alone, or is special and has it as its mark.
  bool has_byte(uint8_t b) const { return byte_token_[b] >= 0 || (b == 0xFF && specials_); }
  int32_t byte_token(uint8_t b) const { return byte_token_[b]; }
  bool has_special(std::string_view spelling) const;  // without the mark
  std::string_view spelling(int32_t id) const;
  int32_t longest_prefix(std::string_view text) const;  // the longest token that `text` begins with; -1: none
  uint32_t longest() const { return longest_; }

  const std::vector<Node>& nodes() const { return nodes_; }
  // Further ids that spell the same as `token`.
  int32_t next_same(int32_t token) const { return same_.empty() ? -1 : same_[static_cast<size_t>(token)]; }

  // The terminal for an automaton; equal automata share one and with it their masks.
  std::shared_ptr<const Terminal> terminal(Dfa dfa) const;

  size_t memory_bytes() const;

 private:
  void build_nodes(const std::vector<std::pair<std::string_view, int32_t>>& sorted);

  int32_t vocab_size_;
  std::vector<int32_t> end_ids_;
  std::string blob_;
  std::vector<uint32_t> begin_;
  std::vector<Node> nodes_;
  std::vector<int32_t> same_;
  std::array<int32_t, 256> byte_token_;
  uint32_t longest_ = 0;
  bool specials_ = false;

  mutable std::mutex mutex_;  // guards what follows
  mutable size_t made_ = 0;   // terminals, ever
  mutable std::unordered_map<std::string, std::shared_ptr<const Terminal>> terminals_;
  mutable std::unordered_map<std::string, std::shared_ptr<const Walks>> walks_;
};

}  // namespace tenon::text::grammar
