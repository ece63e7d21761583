// Stop strings in streamed text: text that may still become a stop string is held back, so that none is ever shown.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::pipelines {

class StopStrings {
 public:
  StopStrings(const StopStrings&) = delete;
  StopStrings& operator=(const StopStrings&) = delete;
  explicit StopStrings(std::vector<std::string> stop) : stop_(std::move(stop)) { std::erase(stop_, ""); }

  // The part of the text so far that is safe to show now. After found(), nothing more is.
  std::string push(std::string_view text) {
    if (found_) return {};
    held_ += text;
    size_t cut = std::string::npos;
    for (const std::string& s : stop_)
      if (size_t at = held_.find(s); at < cut) cut = at, which_ = &s;
    if (cut != std::string::npos) {
      found_ = true;
      return std::exchange(held_, {}).substr(0, cut);
    }
    size_t keep = 0;  // longest end of the text that begins a stop string
    for (const std::string& s : stop_)
      for (size_t n = std::min(s.size() - 1, held_.size()); n > keep; --n)
        if (std::string_view(held_).ends_with(std::string_view(s).substr(0, n))) keep = n;
    std::string out = held_.substr(0, held_.size() - keep);
    held_.erase(0, out.size());
    return out;
  }

  std::string finish() { return found_ ? std::string() : std::exchange(held_, {}); }
  bool found() const { return found_; }
  const std::string& found_string() const { return *which_; }  // precondition: found()

 private:
  std::vector<std::string> stop_;
  std::string held_;
  const std::string* which_ = nullptr;
  bool found_ = false;
};

}  // namespace tenon::pipelines
