#include "text/pattern.h"

namespace tenon::text {

Pattern Pattern::literal(std::string text) {
  Pattern p;
  p.literal_ = std::move(text);
  return p;
}

Pattern Pattern::regex(std::string_view pattern, RegexDialect dialect, std::string_view source) {
  Pattern p;
  p.scanner_ = find_scanner(pattern, dialect);
  p.regex_ = std::make_shared<const Regex>(pattern, dialect, source);
  return p;
}

void Pattern::cut(std::string_view text, FunctionRef<void(size_t, size_t, bool)> stretch) const {
  size_t done = 0;
  auto match = [&](size_t begin, size_t end) {
    if (done != begin) stretch(done, begin, false);
    stretch(begin, end, true);
    done = end;
  };
  if (text.empty() || (!regex_ && literal_.empty())) {
    stretch(0, text.size(), false);
    return;
  }
  if (scanner_ != Scanner::none) {
    scan(scanner_, text, [&](std::string_view piece) {
      auto begin = static_cast<size_t>(piece.data() - text.data());
      match(begin, begin + piece.size());
    });
    return;
  }
  if (regex_) {
    regex_->for_each(text, [&](const Regex::Match& m) { match(m.begin, m.end); });
  } else {
    for (size_t at = text.find(literal_); at != text.npos; at = text.find(literal_, at + literal_.size()))
      match(at, at + literal_.size());
  }
  if (done < text.size()) stretch(done, text.size(), false);
}

void Pattern::replace(std::string_view text, std::string_view by, std::string& out) const {
  cut(text, [&](size_t begin, size_t end, bool match) { out += match ? by : text.substr(begin, end - begin); });
}

}  // namespace tenon::text
