#include "text/grammar/constraint.h"

#include <algorithm>

#include "base/error.h"
#include "text/grammar/program.h"
#include "text/grammar/tables.h"

namespace tenon::text::grammar {

Constraint::Constraint(std::shared_ptr<const TokenTrie> trie, std::unique_ptr<const Program> program)
    : trie_(std::move(trie)), program_(std::move(program)), tables_(std::make_shared<Tables>(*program_, *trie_)) {}

Constraint::~Constraint() = default;

std::shared_ptr<const Constraint> Constraint::compile(const Grammar& grammar, std::shared_ptr<const TokenTrie> trie,
                                                      const CompileLimits& limits) {
  auto program = Program::compile(grammar, *trie, limits);
  std::shared_ptr<const Constraint> c(new Constraint(std::move(trie), std::move(program)));
  const uint32_t start = c->tables_->start();
  if (start == Tables::kDead || !c->tables_->live(start))
    fail(ErrorCode::invalid_argument, "the grammar is too complex: too many ways to begin");
  return c;
}

size_t Constraint::memory_bytes() const {
  std::lock_guard lock(mutex_);
  return sizeof(*this) + program_->memory_bytes() + tables_->bytes();
}

// With mutex_ held. Full tables are left to the sequences that still use them.
std::shared_ptr<Tables> Constraint::current_tables() const {
  if (tables_->bytes() > program_->cache_bytes()) tables_ = std::make_shared<Tables>(*program_, *trie_);
  return tables_;
}

ConstraintState::ConstraintState(std::shared_ptr<const Constraint> constraint) : constraint_(std::move(constraint)) {
  std::lock_guard lock(constraint_->mutex_);
  tables_ = constraint_->current_tables();
  set_ = tables_->start();
  look();
}

// With the mutex held.
void ConstraintState::look() {
  can_end_ = tables_->can_end(set_);
  only_end_ = tables_->only_end(set_);
}

// With the mutex held.
void ConstraintState::move_in() {
  std::shared_ptr<Tables> current = constraint_->current_tables();
  if (current == tables_) return;
  set_ = current->adopt(*tables_, set_);
  tables_ = std::move(current);
}

void ConstraintState::mask(std::span<uint32_t> bits) {
  const TokenTrie& trie = constraint_->trie();
  TENON_CHECK(bits.size() >= trie.mask_words());
  std::fill(bits.begin(), bits.end(), 0);
  if (ended_) return;
  {
    std::lock_guard lock(constraint_->mutex_);
    move_in();
    tables_->mask(set_).add_to(bits);
  }
  if (can_end_)
    for (int32_t id : trie.end_ids())
      if (id >= 0 && id < trie.vocab_size()) bits[static_cast<uint32_t>(id) >> 5] |= 1u << (id & 31);
}

bool ConstraintState::accept(int32_t token) {
  const TokenTrie& trie = constraint_->trie();
  if (ended_ || token < 0 || token >= trie.vocab_size()) return false;
  if (trie.is_end(token)) {
    ended_ = can_end_;
    return ended_;
  }
  std::string_view bytes = trie.spelling(token);
  if (bytes.empty() || bytes.size() > TokenTrie::kLongest) return false;
  std::lock_guard lock(constraint_->mutex_);
  move_in();
  uint32_t to = tables_->step(set_, bytes);
  if (to == Tables::kDead || !tables_->live(to)) return false;
  set_ = to;
  look();
  return true;
}

std::string ConstraintState::forced(size_t most) {
  std::string out;
  if (ended_) return out;
  std::lock_guard lock(constraint_->mutex_);
  move_in();
  uint32_t set = set_;
  size_t whole = 0;  // up to here no character is cut
  while (out.size() < most) {
    int byte = tables_->only_byte(set);
    if (byte < 0 || byte == static_cast<uint8_t>(kSpecialMark)) break;
    set = tables_->step(set, static_cast<uint8_t>(byte));
    if (set == Tables::kDead) break;
    out.push_back(static_cast<char>(byte));
    int next = tables_->only_byte(set);
    if (next < 0x80 || next >= 0xC0) whole = out.size();
  }
  out.resize(whole);
  return out;
}

uint64_t ConstraintState::closing_bytes() const {
  if (ended_) return 0;
  std::lock_guard lock(constraint_->mutex_);
  return tables_->closing_bytes(set_);
}

std::vector<int32_t> ConstraintState::closing_tokens() const {
  constexpr uint64_t kMost = 1 << 16;
  std::vector<int32_t> out;
  if (ended_) return out;
  const TokenTrie& trie = constraint_->trie();
  std::string text;
  {
    std::lock_guard lock(constraint_->mutex_);
    if (tables_->closing_bytes(set_) > kMost) return out;
    for (uint32_t set = set_; !tables_->can_end(set);) {
      uint8_t byte = tables_->closing_byte(set);
      text.push_back(static_cast<char>(byte));
      set = tables_->step(set, byte);
      TENON_CHECK(set != Tables::kDead && text.size() <= kMost);
    }
  }
  for (size_t at = 0; at < text.size();) {
    int32_t token = trie.longest_prefix(std::string_view(text).substr(at));
    TENON_CHECK(token >= 0);
    out.push_back(token);
    at += trie.spelling(token).size();
  }
  return out;
}

}  // namespace tenon::text::grammar
