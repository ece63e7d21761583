#include "runtime/scheduler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/checked.h"
#include "base/error.h"

namespace tenon::runtime {
namespace {

constexpr size_t kMostLogProbs = 64;
constexpr int64_t kLeastSlice = 32;  // rows; below, reading the weights costs as much as computing

bool before(const Sequence* a, const Sequence* b) {
  return a->priority != b->priority ? a->priority < b->priority : a->id < b->id;
}

int64_t blocks_for(int64_t tokens) { return ceil_div(tokens, cpu::kKvBlock); }

}  // namespace

Scheduler::Scheduler(Engine& engine, size_t most, DraftModel* draft)
    : engine_(engine), drafter_(draft), final_output_(engine.graph().output("final")) {
  const auto slots = static_cast<size_t>(engine.options().max_sequences);
  longest_ = engine.context();
  if (int64_t total = engine.kv_usage().total; total > 0) {
    bool windows_only = true;  // a window's ring is always there in full
    for (const graph::KvState& s : engine.graph().states) windows_only &= s.window != 0;
    if (!windows_only) longest_ = std::min(longest_, total * cpu::kKvBlock);
  }
  waiting_.reserve(most);
  running_.reserve(slots);
  batch_.reserve(slots);
  items_.reserve(slots);
  ended_.reserve(slots);
  drafted_.reserve(kMostDrafted + 1);
  for (size_t i = slots; i-- > 0;) free_slots_.push_back(static_cast<int64_t>(i));
  raw_ = engine.raw_logits();
  mask_ = engine.token_bits();
  top_.reserve(kMostLogProbs + 1);
}

uint64_t Scheduler::submit(Sequence& s, Clock::time_point now) {
  TENON_CHECK(waiting_.size() + running_.size() < waiting_.capacity() && s.listener && s.sampler);
  TENON_CHECK(s.prompt_length > 0 && s.max_tokens > 0 && s.prompt_length + s.max_tokens - 1 <= longest_);
  TENON_CHECK(s.top_logprobs <= static_cast<int>(kMostLogProbs));
  s.tokens.reserve(static_cast<size_t>(s.prompt_length + s.max_tokens));
  s.id = next_id_++;
  s.submitted = now;
  insert_waiting(s);
  return s.id;
}

void Scheduler::insert_waiting(Sequence& s) noexcept {
  waiting_.insert(std::upper_bound(waiting_.begin(), waiting_.end(), &s, before), &s);
}

void Scheduler::stop_running(Sequence& s) noexcept {
  engine_.reset(s.slot);
  free_slots_.push_back(std::exchange(s.slot, -1));
  std::erase(running_, &s);
}

void Scheduler::preempt(Sequence& s) noexcept {
  ++s.preemptions;
  ++totals_.preemptions;
  stop_running(s);
  insert_waiting(s);
}

template <class Wanted>
bool Scheduler::end_where(const Wanted& wanted, Finish finish) noexcept {
  bool any = false;
  for (auto* list : {&running_, &waiting_})
    for (size_t i = list->size(); i-- > 0;) {
      Sequence* s = (*list)[i];
      if (!wanted(*s)) continue;
      if (s->slot >= 0)
        stop_running(*s);
      else
        list->erase(list->begin() + static_cast<ptrdiff_t>(i));
      s->listener->finished(finish);
      any = true;
    }
  return any;
}

bool Scheduler::cancel(uint64_t id) noexcept {
  return end_where([id](const Sequence& s) { return s.id == id; }, Finish::cancelled);
}

// Past the length where all frequencies change, the whole sequence is one of the new regime.
int64_t Scheduler::regime_length(const Sequence& s) const noexcept {
  int64_t boundary = engine_.rope_boundary();
  return boundary && known(s) > boundary ? std::max(s.prompt_length, boundary + 1) : s.prompt_length;
}

// Blocks for `length` tokens, taken from less important sequences if need be; false: there are none to take.
bool Scheduler::make_room(Sequence& s, int64_t length) noexcept {
  while (!engine_.reserve(s.slot, length)) {
    Sequence* victim = running_.back();
    if (victim == &s) return false;
    preempt(*victim);
  }
  return true;
}

bool Scheduler::add(Sequence& s, int64_t count) {
  const int64_t from = computed(s);
  const bool last = from + count == known(s);
  BatchItem item;
  item.sequence = s.slot;
  item.tokens = std::span<const int32_t>(s.tokens).subspan(static_cast<size_t>(from), static_cast<size_t>(count));
  item.prompt_length = regime_length(s);
  item.adapter = s.adapter;
  const bool prompt_rows = (s.prompt_logprobs && s.output().empty()) || s.embed == Embed::all;
  item.outputs = prompt_rows ? BatchItem::Outputs::all : last ? BatchItem::Outputs::last : BatchItem::Outputs::none;
  batch_.push_back(item);
  items_.push_back({.sequence = &s, .last = last});
  rows_left_ -= count;
  return last;
}

void Scheduler::plan_decodes() {
  // Most important first: who is preempted comes later, so never after it was taken into the batch.
  for (size_t i = 0; i < running_.size() && rows_left_ > 0; ++i) {
    Sequence& s = *running_[i];
    if (!decoding(s)) continue;
    if (engine_.rope_boundary() && computed(s) == engine_.rope_boundary() && !s.long_regime) {
      engine_.reset(s.slot);  // computed anew as a prompt
      s.long_regime = true;
      continue;
    }
    if (!make_room(s, known(s)))
      preempt(s);
    else if (running_.size() == 1 && waiting_.empty())
      add_draft(s);
    else
      add(s, 1);
  }
}

// Drafts pay while reading the weights is what a step costs: for one sequence alone.
void Scheduler::add_draft(Sequence& s) {
  std::span<const int32_t> draft;
  if (engine_.options().speculate) {
    const int64_t left = s.max_tokens - static_cast<int64_t>(s.output().size()) - 1;
    draft = drafter_.draft(s.lookup, s.tokens, std::min({engine_.draft_limit(s.slot), left, rows_left_ - 1}),
                           [&](std::span<float> logits) { return choose(s, logits); });
  }
  const auto count = static_cast<int64_t>(draft.size());
  add(s, 1);
  if (draft.empty() || !engine_.reserve(s.slot, known(s) + count)) return;
  drafted_.assign(1, s.tokens.back());
  drafted_.insert(drafted_.end(), draft.begin(), draft.end());
  batch_.back().tokens = drafted_;
  batch_.back().outputs = BatchItem::Outputs::all;
  items_.back().drafted = count;
  rows_left_ -= count;
}

// Those who generate wait for the prompts of a step: no longer than they should. No bit depends on where a prompt is
// cut.
void Scheduler::slice_prefills() noexcept {
  const double slice = engine_.options().prefill_slice_s;
  if (batch_.empty() || slice <= 0 || row_s_ <= 0) return;
  const auto rows = static_cast<int64_t>(std::min(slice / row_s_, 1e9)) / kLeastSlice * kLeastSlice;
  rows_left_ = std::min(rows_left_, std::max(rows, kLeastSlice));
}

void Scheduler::learn_pace(double busy_s) noexcept {
  size_t rows = 0, most = 0;
  for (const BatchItem& b : batch_) rows += b.tokens.size(), most = std::max(most, b.tokens.size());
  if (most < static_cast<size_t>(kLeastSlice)) return;
  const double cost = busy_s / static_cast<double>(rows);
  row_s_ = row_s_ > 0 ? 0.75 * row_s_ + 0.25 * cost : cost;
}

void Scheduler::plan_prefills() {
  for (size_t i = 0; i < running_.size() && rows_left_ > 0; ++i) {
    Sequence& s = *running_[i];
    if (decoding(s)) continue;
    const int64_t count = std::min({known(s) - computed(s), engine_.options().prefill_chunk, rows_left_});
    if (engine_.reserve(s.slot, computed(s) + count)) {
      add(s, count);
    } else if (batch_.empty()) {  // nobody else makes progress that would free blocks
      if (make_room(s, computed(s) + count)) add(s, count);
    }
  }
}

// It shares the prompt of one that has not computed it yet.
bool Scheduler::blocked(const Sequence& s) const noexcept {
  if (!s.after) return false;
  auto computing = [&](const Sequence* other) { return other->id == s.after && other->output().empty(); };
  return std::any_of(waiting_.begin(), waiting_.end(), computing) ||
         std::any_of(running_.begin(), running_.end(), computing);
}

void Scheduler::admit(Clock::time_point now) {
  int64_t promised = 0;  // blocks that running prompts still need
  for (const Sequence* s : running_) promised += blocks_for(known(*s)) - blocks_for(computed(*s));
  for (size_t i = 0; i < waiting_.size() && rows_left_ > 0 && !free_slots_.empty();) {
    Sequence& s = *waiting_[i];
    if (blocked(s)) {
      ++i;
      continue;
    }
    const int64_t slot = free_slots_.back();
    const bool all_rows = (s.prompt_logprobs && s.output().empty()) || s.embed == Embed::all;
    const int64_t limit = all_rows ? 0 : known(s) - 1;
    const int64_t reused = engine_.adopt_prefix(slot, s.tokens, limit, regime_length(s), s.adapter);
    const int64_t needed = blocks_for(known(s)) - blocks_for(reused);
    // One block of reserve for each sequence that runs, so that a newcomer does not preempt at once.
    if (!running_.empty() && engine_.kv_usage().free() < needed + promised + static_cast<int64_t>(running_.size())) {
      engine_.reset(slot);
      return;
    }
    free_slots_.pop_back();
    waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(i));
    s.slot = slot;
    s.long_regime = regime_length(s) > engine_.rope_boundary();
    running_.insert(std::upper_bound(running_.begin(), running_.end(), &s, before), &s);
    if (s.started == Clock::time_point()) {
      s.started = now;
      s.reused = reused;
      totals_.reused_tokens += static_cast<uint64_t>(reused);
      totals_.prompt_tokens += static_cast<uint64_t>(s.prompt_length);
    }
    promised += needed;
    const int64_t count = std::min({known(s) - computed(s), engine_.options().prefill_chunk, rows_left_});
    if (!engine_.reserve(s.slot, computed(s) + count)) return;  // a window's pool; next step
    add(s, count);
  }
}

bool Scheduler::step(Clock::time_point now) {
  end_where([&](const Sequence& s) { return s.deadline && *s.deadline <= now; }, Finish::deadline);
  batch_.clear();
  items_.clear();
  rows_left_ = engine_.max_rows();
  const uint64_t preempted = totals_.preemptions;
  plan_decodes();
  slice_prefills();
  plan_prefills();
  if (totals_.preemptions == preempted) admit(now);
  if (batch_.empty()) return false;

  const double busy = engine_.busy_s();
  const bool ran = engine_.step(batch_, [&](const StepOutput& out) { sample(out); });
  TENON_CHECK(ran);
  ++totals_.steps;
  learn_pace(engine_.busy_s() - busy);
  if (items_.size() == 1 && items_[0].taken > 0 && (items_[0].drafted > 0 || batch_[0].tokens.size() == 1)) {
    const Item& i = items_[0];
    Sequence& s = *i.sequence;
    if (i.drafted > 0) engine_.truncate(s.slot, known(s) - 1);
    drafter_.learn(s.lookup, i.drafted, i.taken - 1, engine_.busy_s() - busy);
    totals_.drafted_tokens += static_cast<uint64_t>(i.drafted);
    totals_.accepted_tokens += static_cast<uint64_t>(i.taken - 1);
  }
  for (const Item& i : items_)
    engine_.keep_prefix(i.sequence->slot, i.sequence->tokens, regime_length(*i.sequence), i.sequence->adapter);
  for (auto [s, finish] : ended_) {
    stop_running(*s);
    s->listener->finished(finish);
  }
  ended_.clear();
  return true;
}

void Scheduler::sample(const StepOutput& out) {
  Item& item = items_[out.item];
  const bool final_row = out.row + 1 == static_cast<int64_t>(batch_[out.item].tokens.size());
  if (item.sequence->embed != Embed::none) {
    std::span<const float> rows = engine_.hidden(final_output_);
    const size_t width = static_cast<size_t>(engine_.graph().nodes[static_cast<size_t>(final_output_)].type.features());
    item.sequence->listener->hidden(rows.subspan(static_cast<size_t>(out.index) * width, width));
    if (item.last && final_row) ended_.emplace_back(item.sequence, Finish::stop);
    return;
  }
  if (item.sequence->prompt_logprobs) report_prompt(*item.sequence, out);
  if (!item.last || !item.open || (item.drafted == 0 && !final_row)) return;
  Sequence& s = *item.sequence;
  const size_t ended = ended_.size();
  take_token(s, out.logits, Clock::now());
  ++item.taken;
  item.open = ended_.size() == ended && item.taken <= item.drafted &&
              s.tokens.back() == drafted_[static_cast<size_t>(item.taken)];
}

void Scheduler::report_prompt(Sequence& s, const StepOutput& out) {
  // The engine's length already counts this step's tokens.
  const int64_t position = computed(s) - static_cast<int64_t>(batch_[out.item].tokens.size()) + out.row;
  if (position + 1 >= s.prompt_length || !s.output().empty()) return;
  const int32_t next = s.tokens[static_cast<size_t>(position + 1)];
  const Likeliest model = likeliest(out.logits, std::max(0, s.top_logprobs));
  s.listener->prompt_token(position + 1,
                           {static_cast<float>(out.logits[static_cast<size_t>(next)] - model.shift), model.top});
}

// Log softmax in f64 over ids ascending.
Scheduler::Likeliest Scheduler::likeliest(std::span<const float> logits, int top) noexcept {
  float most = kNeverLogit;
  for (float x : logits) most = std::max(most, x);
  double sum = 0;
  for (float x : logits) sum += std::exp(static_cast<double>(x) - most);
  const double shift = most + std::log(sum);
  top_.clear();
  auto better = [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  };
  for (size_t id = 0; id < logits.size() && top > 0; ++id) {  // a heap whose front is the least likely kept
    std::pair<int32_t, float> entry{static_cast<int32_t>(id), logits[id]};
    if (top_.size() == static_cast<size_t>(top)) {
      if (!better(entry, top_.front())) continue;
      std::pop_heap(top_.begin(), top_.end(), better);
      top_.pop_back();
    }
    top_.push_back(entry);
    std::push_heap(top_.begin(), top_.end(), better);
  }
  std::sort(top_.begin(), top_.end(), better);
  for (auto& entry : top_) entry.second = static_cast<float>(entry.second - shift);
  return {shift, top_};
}

void Scheduler::restrict(const Sequence& s, std::span<float> logits) noexcept {
  if (static_cast<int64_t>(s.output().size()) < s.min_tokens)
    for (int32_t t : s.end_tokens)
      if (t < engine_.vocab()) logits[static_cast<size_t>(t)] = kNeverLogit;
  for (int32_t t : s.forbidden) logits[static_cast<size_t>(t)] = kNeverLogit;
  if (!s.allowed.empty()) {
    std::fill(mask_.begin(), mask_.end(), 0);
    for (int32_t t : s.allowed) mask_[static_cast<size_t>(t) / 32] |= 1u << t % 32;
    drop_unmasked(logits, mask_);
  }
}

int32_t Scheduler::choose(Sequence& s, std::span<float> logits) noexcept {
  restrict(s, logits);
  return s.sampler->next(logits, s.prompt(), s.output(), s.choice);
}

void Scheduler::take_token(Sequence& s, std::span<float> logits, Clock::time_point now) {
  Likeliest model{};
  const bool wanted = s.top_logprobs >= 0;
  if (wanted) model = likeliest(logits, s.top_logprobs);
  TokenMask::Taken taken = TokenMask::Taken::yes;
  int32_t token;
  if (s.mask) {
    const int64_t left = s.max_tokens - static_cast<int64_t>(s.output().size()) - 1;
    token = sample_masked(*s.mask, logits, raw_, mask_, left, taken, [&](std::span<float> l) { return choose(s, l); });
    if (token < 0) return ended_.emplace_back(&s, Finish::stop), void();
  } else {
    if (wanted) std::copy(logits.begin(), logits.end(), raw_.begin());  // the sampler changes them
    token = choose(s, logits);
  }
  s.tokens.push_back(token);
  if (s.output().size() == 1) s.first_token = now;
  ++totals_.generated_tokens;
  LogProbs probs;
  if (wanted) probs = {static_cast<float>(raw_[static_cast<size_t>(token)] - model.shift), model.top};
  const bool go_on = s.listener->token(token, wanted ? &probs : nullptr);
  if (!go_on || taken == TokenMask::Taken::last || std::binary_search(s.end_tokens.begin(), s.end_tokens.end(), token))
    ended_.emplace_back(&s, Finish::stop);
  else if (static_cast<int64_t>(s.output().size()) >= s.max_tokens)
    ended_.emplace_back(&s, Finish::length);
}

}  // namespace tenon::runtime
