#include "text/call_scan.h"

#include <algorithm>
#include <utility>

#include "base/json.h"

namespace tenon::text {
namespace {

constexpr size_t kMostName = 512;

bool is_one_of(std::string_view s, std::initializer_list<std::string_view> all) {
  return std::find(all.begin(), all.end(), s) != all.end();
}

}  // namespace

void CallScan::begin(char c, std::string_view name) {
  *this = {};
  depth_ = 1;
  if (name.empty())
    call_depth_ = c == '[' ? 2 : 1;
  else if (c == '{')
    begin_arguments(std::string(name), c);
  else
    telling_ = false;
}

void CallScan::begin_arguments(std::string name, char c) {
  in_arguments_ = call_told_ = true;
  ++told_;
  events_.push_back({std::move(name), std::string(1, c)});
}

void CallScan::end_string() {
  if (!name_.empty() || text_.size() == kMostName || !is_one_of(key_, {"name", "tool_name", "function"})) return;
  const Json text = Json::parse('"' + text_ + '"', nullptr, false);
  if (text.is_string()) name_ = text.get<std::string>();
}

bool CallScan::step(char c) {
  const bool of_call = depth_ == call_depth_ && !in_arguments_;
  if (in_arguments_ && (in_string_ || std::string_view(" \t\r\n").find(c) == std::string_view::npos)) {
    if (events_.empty()) events_.emplace_back();
    events_.back().arguments += c;
  }
  if (in_string_) {
    if (escaped_)
      escaped_ = false;
    else if (c == '\\')
      escaped_ = true;
    else if (c == '"')
      in_string_ = false;
    if (!of_call) return false;
    if (!in_string_)
      end_string();
    else if (text_.size() < kMostName)
      text_ += c;
    return false;
  }
  if (c == '"') {
    in_string_ = true;
    text_.clear();
  } else if (of_call && c == ':') {
    key_ = text_;
  } else if (of_call && c == ',') {
    key_.clear();
  } else if (c == '{' || c == '[') {
    ++depth_;
    if (of_call && c == '{' && telling_ && !call_told_ && !name_.empty() &&
        is_one_of(key_, {"arguments", "parameters"}))
      begin_arguments(std::exchange(name_, {}), c);
  } else if (c == '}' || c == ']') {
    --depth_;
    if (depth_ == call_depth_) in_arguments_ = false;
    if (depth_ + 1 == call_depth_) {  // the call's object
      telling_ = telling_ && std::exchange(call_told_, false);
      key_.clear();
      name_.clear();
    }
  }
  return depth_ == 0;
}

std::vector<CallScan::Event> CallScan::take() { return std::exchange(events_, {}); }

}  // namespace tenon::text
