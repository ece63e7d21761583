#include "text/tool_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "text/tool_bodies.h"

namespace tenon::text {
namespace {

constexpr size_t kMostHeader = 512, kMostBody = size_t{1} << 20;
constexpr std::string_view kBlank = " \t\r\n";
constexpr std::string_view kTo = "to=", kMessage = "<|message|>";

// How many bytes at the end of `text` may be the beginning of `mark`.
size_t held_back(std::string_view text, std::string_view mark) {
  for (size_t n = std::min(mark.empty() ? 0 : mark.size() - 1, text.size()); n > 0; --n)
    if (text.ends_with(mark.substr(0, n))) return n;
  return 0;
}

}  // namespace

void OutputDelta::operator+=(OutputDelta&& more) {
  content += more.content;
  reasoning += more.reasoning;
  for (ToolCall& c : more.calls)
    if (c.begins() || calls.empty())
      calls.push_back(std::move(c));
    else
      calls.back().arguments += c.arguments;
}

bool opens_reasoning(const ToolFormat& format, std::string_view prompt) {
  while (!prompt.empty() && kBlank.find(prompt.back()) != std::string_view::npos) prompt.remove_suffix(1);
  return !format.think_begin.empty() && prompt.ends_with(format.think_begin);
}

bool may_think(const ToolFormat& f, std::string_view source) {
  return !f.think_end.empty() &&
         source.find(f.think_in_template.empty() ? f.think_end : f.think_in_template) != std::string_view::npos;
}

std::vector<std::string_view> marks_of(const ToolFormat& f) {
  std::vector<std::string_view> all;
  for (const auto* some : {&f.begin, &f.around_calls, &f.around_content, &f.dropped})
    all.insert(all.end(), some->begin(), some->end());
  for (std::string_view m : {f.end, f.before_name, f.before_arguments, f.after_arguments, f.key_begin, f.key_end,
                             f.value_begin, f.value_end, f.think_begin, f.think_end, f.after_think})
    all.push_back(m);
  if (f.recipient) all.push_back(kMessage);
  all.erase(std::remove(all.begin(), all.end(), ""), all.end());
  return all;
}

ToolCallParser::ToolCallParser(const ToolFormat& format, Options options)
    : format_(format), options_(std::move(options)) {
  if (options_.reasoning_open) state_ = State::reasoning, drop_blank_ = true;
}

OutputDelta ToolCallParser::push(std::string_view text) {
  OutputDelta out;
  pending_ += text;
  run(out, false);
  return out;
}

OutputDelta ToolCallParser::finish() {
  OutputDelta out;
  run(out, true);
  if (!drop_blank_) (state_ == State::reasoning ? out.reasoning : out.content) += blank_;
  blank_.clear();
  return out;
}

void ToolCallParser::run(OutputDelta& out, bool last) {
  while (state_ == State::content     ? in_content(out, last)
         : state_ == State::reasoning ? in_reasoning(out, last)
                                      : in_call(out, last)) {
  }
}

// White space waits for what follows: beside a mark it is dropped.
void ToolCallParser::say(OutputDelta& out, std::string_view text) {
  std::string& to = state_ == State::reasoning ? out.reasoning : out.content;
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) {
    blank_ += text;
    return;
  }
  const size_t last = text.find_last_not_of(kBlank);
  if (!drop_blank_) (to += blank_) += text.substr(0, first);
  to += text.substr(first, last + 1 - first);
  blank_ = text.substr(last + 1);
  drop_blank_ = false;
  said_ = true;
  bare_open_ = false;
}

// Behind a mark.
void ToolCallParser::begin_part(State state) {
  state_ = state;
  blank_.clear();
  drop_blank_ = true;
  said_ = false;
  bare_open_ = true;
}

// Takes "to=NAME<|message|>" off where a message may begin. False: more text is needed.
bool ToolCallParser::take_recipient(bool last) {
  constexpr size_t kMostName = 256;
  const std::string_view text =
      std::string_view(pending_).substr(std::min(pending_.find_first_not_of(kBlank), pending_.size()));
  if (!text.starts_with(kTo)) return last || !kTo.starts_with(text);
  if (pending_.starts_with(format_.think_begin)) return true;
  const size_t end = text.find(kMessage);
  const std::string_view name = text.substr(0, end);
  if (name.size() > kMostName || name.find_first_of(kBlank) != std::string_view::npos) return true;
  if (end == std::string_view::npos) return last;
  pending_.erase(0, pending_.size() - text.size() + end + kMessage.size());
  return true;
}

// True: go on; false: more text is needed.
bool ToolCallParser::in_content(OutputDelta& out, bool last) {
  const bool calls = !options_.tools.is_null() && format_.body != ToolFormat::Body::none;
  if (format_.recipient && bare_open_ && !take_recipient(last)) return false;
  if (calls && format_.bare && bare_open_) {
    const size_t ink = pending_.find_first_not_of(kBlank);
    if (ink == std::string::npos && !last) return false;
    if (ink != std::string::npos && pending_[ink] == '{') {
      begin_call({}, ink);
      return true;
    }
    if (ink != std::string::npos && pending_[ink] == ';' && calls_ > 0) {  // between calls
      pending_.erase(0, ink + 1);
      return true;
    }
  }
  size_t at = std::string::npos, held = 0;
  std::string_view found;
  enum { call, drop, think } what = drop;
  auto look = [&](std::string_view mark, decltype(what) kind, size_t within) {
    if (mark.empty()) return;
    const size_t p = std::string_view(pending_).substr(0, within).find(mark);
    // Of two marks at one place the longer one counts.
    if (p != std::string::npos && (p < at || (p == at && mark.size() > found.size())))
      at = p, found = mark, what = kind;
    if (within >= pending_.size()) held = std::max(held, held_back(pending_, mark));
  };
  constexpr size_t kAll = std::string::npos;
  if (calls)
    for (std::string_view m : format_.begin) look(m, call, kAll);
  for (const auto* marks : {&format_.around_calls, &format_.around_content, &format_.dropped})
    for (std::string_view m : *marks) look(m, drop, kAll);
  // Reasoning comes first, if it does.
  const size_t ink = std::min(pending_.find_first_not_of(kBlank), pending_.size());
  if (format_.think_anywhere || !said_) {
    look(format_.think_begin, think, format_.think_anywhere ? kAll : ink + format_.think_begin.size());
    look(format_.think_end, drop, format_.think_anywhere ? kAll : ink + format_.think_end.size());  // of nothing
  }
  if (at != std::string::npos && !last)  // a longer mark may begin at the same place
    for (std::string_view m : format_.begin)
      if (calls && m.size() > pending_.size() - at && m.starts_with(std::string_view(pending_).substr(at)))
        return false;
  if (at == std::string::npos) {
    const size_t n = last ? pending_.size() : pending_.size() - held;
    say(out, std::string_view(pending_).substr(0, n));
    pending_.erase(0, n);
    return false;
  }
  say(out, std::string_view(pending_).substr(0, at));
  if (what == call) {
    begin_call(found, at);
    return true;
  }
  pending_.erase(0, at + found.size());
  const bool said = said_;
  begin_part(what == think ? State::reasoning : State::content);
  if (what == drop && found != format_.think_end) said_ = said;
  return true;
}

bool ToolCallParser::in_reasoning(OutputDelta& out, bool last) {
  const size_t at = pending_.find(format_.think_end);
  const size_t n = at != std::string::npos ? at
                   : last                  ? pending_.size()
                                           : pending_.size() - held_back(pending_, format_.think_end);
  say(out, std::string_view(pending_).substr(0, n));
  pending_.erase(0, n);
  if (at == std::string::npos) return false;
  pending_.erase(0, format_.think_end.size());
  begin_part(State::content);
  return true;
}

void ToolCallParser::begin_call(std::string_view mark, size_t at) {
  pending_.erase(0, at + mark.size());
  mark_ = mark;
  state_ = State::call;
  at_ = value_ = parameters_ = parameter_at_ = 0;
  in_value_ = was_value_ = false;
  scan_ = {};
  told_.clear();
}

bool ToolCallParser::in_call(OutputDelta& out, bool last) {
  const Read r = format_.body == ToolFormat::Body::json ? read_json(last, out) : read_tagged(last, out);
  if (r == Read::more && !last) return false;
  state_ = State::content;
  if (r != Read::done && (scan_.told() > 0 || !told_.empty()) && options_.sure) {  // it was cut off
    pending_.erase(0, at_);
    begin_part(State::content);
    return true;
  }
  if (r != Read::done) {  // it was content, and what follows may hold calls again
    say(out, mark_);
    bare_open_ = false;
    if (mark_.empty() && !pending_.empty()) {
      say(out, std::string_view(pending_).substr(0, 1));
      pending_.erase(0, 1);
    }
    return true;
  }
  begin_part(State::content);
  if (std::exchange(again_, false)) begin_call({}, 0);
  return true;
}

// A call, or with an empty name more of the last one.
void ToolCallParser::tell(std::string name, std::string arguments, OutputDelta& out) {
  const bool begins = !name.empty();
  const int64_t index = begins ? calls_++ : calls_ - 1;
  OutputDelta more;
  more.calls.push_back(
      {begins ? fmt::format("{}{}", options_.id, index) : "", std::move(name), std::move(arguments), index});
  out += std::move(more);
}

void ToolCallParser::tell_scanned(OutputDelta& out) {
  for (CallScan::Event& e : scan_.take())
    if (options_.sure) tell(std::move(e.name), std::move(e.arguments), out);
}

// Of the call's arguments the first `length` bytes, as far as they were not told of. False: they are not what was.
bool ToolCallParser::tell_rest(ToolCall& call, size_t length, OutputDelta& out) {
  call.arguments.resize(length);
  if (!call.arguments.starts_with(told_)) return false;
  tell(told_.empty() ? std::move(call.name) : "", call.arguments.substr(told_.size()), out);
  told_ = std::move(call.arguments);
  return true;
}

// Parameters before `end` that are complete.
void ToolCallParser::tell_parameters(size_t end, OutputDelta& out) {
  constexpr size_t kMost = 64;  // each reads the call once more
  if (!options_.sure || format_.body != ToolFormat::Body::tagged) return;
  const std::string_view mark = format_.value_end, text = std::string_view(pending_).substr(0, end);
  while (parameters_ < kMost) {
    const size_t at = text.find(mark, parameter_at_);
    if (at == std::string_view::npos) {
      const size_t seen = text.size() - std::min(text.size(), mark.size() - 1);
      parameter_at_ = std::max(parameter_at_, seen);
      return;
    }
    parameter_at_ = at + mark.size();
    std::vector<ToolCall> calls;
    if (!read_tagged_calls(format_, text.substr(0, parameter_at_), options_.tools, calls)) return;
    if (!tell_rest(calls[0], calls[0].arguments.size() - 1, out)) return;  // the object is still open
    ++parameters_;
  }
}

// Takes whole JSON values, one behind another, and the end mark if it follows.
ToolCallParser::Read ToolCallParser::read_json(bool last, OutputDelta& out) {
  std::string_view text = pending_;
  std::vector<ToolCall> calls;
  for (; !was_value_ && at_ < text.size(); ++at_) {
    if (at_ > kMostBody) return Read::bad;
    const char c = text[at_];
    if (!in_value_) {
      if (!last && format_.end.starts_with(text.substr(at_))) return Read::more;
      if (!format_.end.empty() && text.substr(at_).starts_with(format_.end)) {
        // A name alone: a call without arguments.
        if (!read_json_calls(format_, text.substr(0, at_), "{}", calls)) return Read::bad;
        tell(std::move(calls[0].name), std::move(calls[0].arguments), out);
        pending_.erase(0, at_ + format_.end.size());
        return Read::done;
      }
      if (c == '{' || (c == '[' && text.substr(0, at_).find_first_not_of(kBlank) == std::string_view::npos)) {
        in_value_ = true;
        value_ = at_;
        scan_.begin(c, call_name_in(format_, text.substr(0, at_)));
      } else if (at_ > kMostHeader) {
        return Read::bad;
      }
      continue;
    }
    was_value_ = scan_.step(c);
  }
  tell_scanned(out);
  if (!was_value_) return Read::more;
  // Behind the value: white space, the end of a fence, the end mark.
  std::string_view rest = text.substr(at_);
  size_t n = std::min(rest.find_first_not_of(kBlank), rest.size());
  if (rest.substr(n).starts_with("```"))
    n += 3, n += std::min(rest.substr(n).find_first_not_of(kBlank), rest.size() - n);
  const std::string_view behind = rest.substr(n);
  const std::string_view end = format_.end;
  const bool undecided =
      behind.size() < end.size() && (end.starts_with(behind) || std::string_view("```").starts_with(behind));
  if (undecided && !last) return Read::more;
  if (!read_json_calls(format_, text.substr(0, value_), text.substr(value_, at_ - value_), calls)) return Read::bad;
  const bool ended = !end.empty() && behind.starts_with(end);
  for (size_t i = options_.sure ? scan_.told() : 0; i < calls.size(); ++i)
    tell(std::move(calls[i].name), std::move(calls[i].arguments), out);
  again_ = !ended && !end.empty() && behind.starts_with('{');  // one more under the same mark
  pending_.erase(0, ended ? at_ + n + end.size() : again_ ? at_ + n : at_);
  return Read::done;
}

ToolCallParser::Read ToolCallParser::read_tagged(bool last, OutputDelta& out) {
  const size_t from = at_ < format_.end.size() ? 0 : at_ - format_.end.size();
  const size_t end = pending_.find(format_.end, from);
  at_ = pending_.size();
  tell_parameters(std::min(end, pending_.size()), out);
  if (end == std::string::npos) return last || pending_.size() > kMostBody ? Read::bad : Read::more;
  at_ = end + format_.end.size();
  std::vector<ToolCall> calls;
  if (!read_tagged_calls(format_, std::string_view(pending_).substr(0, end), options_.tools, calls)) return Read::bad;
  for (ToolCall& c : calls) {
    tell_rest(c, c.arguments.size(), out);
    told_.clear();  // a call with marked parameters is the only one
  }
  pending_.erase(0, at_);
  return Read::done;
}

}  // namespace tenon::text
