#include "text/post_process.h"

#include <algorithm>
#include <span>

#include "base/error.h"

namespace tenon::text {
namespace {

using Sequences = std::vector<Encoding>;  // one or two

void append(Encoding& to, const std::vector<int32_t>& ids, int32_t type_id) {
  to.ids.insert(to.ids.end(), ids.begin(), ids.end());
  to.type_ids.insert(to.type_ids.end(), ids.size(), type_id);
}

Encoding joined(Sequences in) {
  Encoding out = std::move(in[0]);
  for (const Encoding& e : std::span(in).subspan(1)) {
    out.ids.insert(out.ids.end(), e.ids.begin(), e.ids.end());
    out.type_ids.insert(out.type_ids.end(), e.type_ids.begin(), e.type_ids.end());
  }
  return out;
}

struct Process {
  Sequences in;
  bool add_special_tokens;

  Encoding operator()(const TemplateRule& r) const {
    Encoding out;
    for (const TemplatePiece& p : in.size() > 1 ? r.pair : r.single) {
      if (p.kind != TemplatePiece::special)
        append(out, in[p.kind == TemplatePiece::first ? 0 : 1].ids, p.type_id);
      else if (add_special_tokens)
        append(out, p.ids, p.type_id);
    }
    return out;
  }
  Encoding operator()(const ClsSepRule& r) const {
    if (!add_special_tokens) return joined(in);
    Encoding out;
    append(out, {r.cls}, 0);
    append(out, in[0].ids, 0);
    append(out, {r.sep}, 0);
    if (in.size() > 1) {
      append(out, in[1].ids, 1);
      append(out, {r.sep}, 1);
    }
    return out;
  }
  // Every type id is 0.
  Encoding operator()(const RobertaRule& r) const {
    Encoding out;
    if (add_special_tokens) append(out, {r.cls}, 0);
    append(out, in[0].ids, 0);
    if (add_special_tokens) append(out, {r.sep}, 0);
    if (in.size() > 1) {
      if (add_special_tokens) append(out, {r.sep}, 0);
      append(out, in[1].ids, 0);
      if (add_special_tokens) append(out, {r.sep}, 0);
    }
    return out;
  }
};

void cut(Encoding& e, size_t length, const Truncation& rule) {
  size_t n = e.ids.size();
  if (length >= n) return;
  if (length > 0 && rule.stride >= length)
    fail(ErrorCode::invalid_argument, "truncation: the stride {} must be less than the length {}", rule.stride, length);
  auto from = static_cast<ptrdiff_t>(rule.side == Side::right ? 0 : n - length),
       to = from + static_cast<ptrdiff_t>(length);
  e.ids = {e.ids.begin() + from, e.ids.begin() + to};
  e.type_ids = {e.type_ids.begin() + from, e.type_ids.begin() + to};
}

void cut_longest(const Truncation& rule, size_t most, Encoding& a, Encoding& b) {
  size_t shorter = std::min(a.ids.size(), b.ids.size()), longer = 0;
  longer = shorter > most ? shorter : std::max(shorter, most - shorter);
  if (shorter + longer > most) {
    shorter = most / 2;
    longer = shorter + most % 2;
  }
  bool swapped = a.ids.size() > b.ids.size();
  cut(a, swapped ? longer : shorter, rule);
  cut(b, swapped ? shorter : longer, rule);
}

}  // namespace

size_t added_count(const std::vector<PostProcessor>& steps, bool pair) {
  size_t n = 0;
  for (const PostProcessor& step : steps) {
    if (const auto* t = std::get_if<TemplateRule>(&step)) {
      for (const TemplatePiece& p : pair ? t->pair : t->single) n += p.ids.size();
    } else {
      n += (std::holds_alternative<RobertaRule>(step) ? 4u : 3u) - (pair                                        ? 0u
                                                                    : std::holds_alternative<RobertaRule>(step) ? 2u
                                                                                                                : 1u);
    }
  }
  return n;
}

void truncate(const Truncation& rule, size_t most, Encoding& a, Encoding* b) {
  size_t total = a.ids.size() + (b ? b->ids.size() : 0);
  if (most == 0) {
    a = {};
    if (b) *b = {};
    return;
  }
  if (total <= most) return;
  if (rule.strategy == Truncation::Strategy::longest_first) {
    if (b) return cut_longest(rule, most, a, *b);
    return cut(a, most, rule);
  }
  Encoding* target = rule.strategy == Truncation::Strategy::only_first ? &a : b;
  if (!target) fail(ErrorCode::invalid_argument, "truncation: only_second is set, but there is no second sequence");
  size_t remove = total - most;
  if (target->ids.size() <= remove)
    fail(ErrorCode::invalid_argument, "truncation: a sequence of {} tokens is too short to lose {}", target->ids.size(),
         remove);
  cut(*target, target->ids.size() - remove, rule);
}

Encoding post_process(const std::vector<PostProcessor>& steps, Encoding first, std::optional<Encoding> second,
                      bool add_special_tokens) {
  Sequences now;
  now.push_back(std::move(first));
  if (second) now.push_back(std::move(*second));
  for (const PostProcessor& step : steps) {
    Encoding e = std::visit(Process{std::move(now), add_special_tokens}, step);
    now.clear();
    now.push_back(std::move(e));
  }
  return joined(std::move(now));
}

void pad(const Padding& rule, Encoding& e) {
  size_t n = rule.length.value_or(e.ids.size());
  if (rule.multiple_of && n % rule.multiple_of) n += rule.multiple_of - n % rule.multiple_of;
  if (e.ids.size() >= n) return;
  size_t missing = n - e.ids.size();
  auto at = [&](std::vector<int32_t>& v) { return rule.side == Side::left ? v.begin() : v.end(); };
  e.ids.insert(at(e.ids), missing, rule.id);
  e.type_ids.insert(at(e.type_ids), missing, rule.type_id);
}

}  // namespace tenon::text
