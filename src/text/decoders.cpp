#include "text/decoders.h"

#include <algorithm>
#include <optional>

#include "base/function_ref.h"
#include "text/byte_alphabet.h"
#include "text/unicode.h"

namespace tenon::text {

using Sink = FunctionRef<void(std::string_view)>;

// A step takes tokens and hands tokens on. `fused_`: what arrives is one token in several parts.
class DecoderRun::Step {
 public:
  explicit Step(bool fused) : fused_(fused) {}
  virtual ~Step() = default;
  virtual void push(std::string_view token, Sink out) = 0;
  virtual void skip() {}  // of the first step: a token came that is not shown
  virtual void finish(Sink) {}

 protected:
  bool fused_;
};

namespace {

using Step = DecoderRun::Step;

void replace_all(std::string& s, std::string_view what, std::string_view by) {
  if (what.empty()) return;
  for (size_t at = s.find(what); at != s.npos; at = s.find(what, at + by.size())) s.replace(at, what.size(), by);
}

// The reference's clean-up of English punctuation, in its order.
std::string cleaned_up(std::string s) {
  static constexpr std::pair<const char*, const char*> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (auto [what, by] : kRules) replace_all(s, what, by);
  return s;
}

// A step whose result on one fused token is known only at its end.
class WholeStep : public Step {
 public:
  using Step::Step;
  void push(std::string_view token, Sink out) final {
    if (fused_)
      held_ += token;
    else
      each(token, out);
  }
  void finish(Sink out) final {
    if (fused_) each(held_, out);
    ended(out);
  }

 protected:
  virtual void each(std::string_view token, Sink out) = 0;
  virtual void ended(Sink) {}

 private:
  std::string held_;
};

class WordPieceStep final : public WholeStep {
 public:
  WordPieceStep(const WordPieceDecoder& rule, bool fused) : WholeStep(fused), rule_(rule) {}

 private:
  void each(std::string_view token, Sink out) override {
    std::string s;
    if (!first_ && token.starts_with(rule_.prefix))
      s = token.substr(rule_.prefix.size());
    else if (first_)
      s = token;
    else
      (s = " ") += token;
    first_ = false;
    out(rule_.cleanup ? cleaned_up(std::move(s)) : s);
  }
  const WordPieceDecoder& rule_;
  bool first_ = true;
};

class SuffixStep final : public WholeStep {
 public:
  SuffixStep(const SuffixDecoder& rule, bool fused) : WholeStep(fused), rule_(rule) {}

 private:
  void each(std::string_view token, Sink out) override {
    hand_on(" ", out);
    last_ = std::string(token);
  }
  void ended(Sink out) override { hand_on("", out); }
  void hand_on(std::string_view by, Sink out) {
    if (!last_) return;
    replace_all(*last_, rule_.suffix, by);
    out(*last_);
    last_.reset();
  }
  const SuffixDecoder& rule_;
  std::optional<std::string> last_;
};

class CtcStep final : public WholeStep {
 public:
  CtcStep(const CtcDecoder& rule, bool fused) : WholeStep(fused), rule_(rule) {}

 private:
  void each(std::string_view token, Sink out) override {
    if (last_ && *last_ == token) return;
    last_ = std::string(token);
    std::string s(token);
    replace_all(s, rule_.pad_token, "");
    if (rule_.cleanup) {
      s = cleaned_up(std::move(s));
      replace_all(s, rule_.delimiter, " ");
    }
    if (!s.empty()) out(s);
  }
  const CtcDecoder& rule_;
  std::optional<std::string> last_;
};

class ReplaceStep final : public WholeStep {
 public:
  ReplaceStep(const ReplaceDecoder& rule, bool fused) : WholeStep(fused), rule_(rule) {}

 private:
  void each(std::string_view token, Sink out) override {
    std::string s;
    rule_.pattern.replace(token, rule_.by, s);
    out(s);
  }
  const ReplaceDecoder& rule_;
};

class MetaspaceStep final : public Step {
 public:
  MetaspaceStep(const MetaspaceDecoder& rule, bool fused) : Step(fused), rule_(rule) {}
  void push(std::string_view token, Sink out) override {
    std::string s(token);
    replace_all(s, rule_.mark, first_ && rule_.scheme != PrependScheme::never ? "" : " ");
    first_ = fused_;
    out(s);
  }

 private:
  const MetaspaceDecoder& rule_;
  bool first_ = true;
};

std::optional<uint8_t> byte_of(std::string_view t) {
  if (t.size() != 6 || !t.starts_with("<0x") || t[5] != '>') return std::nullopt;
  auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  int high = t[3] == '+' ? 0 : digit(t[3]), low = digit(t[4]);  // the reference's number parser takes a plus sign
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<uint8_t>(high * 16 + low);
}

class PieceStep final : public Step {
 public:
  PieceStep(const PieceDecoder& rule, bool fused) : Step(fused), strip_(rule.space_prefix) {}
  void push(std::string_view token, Sink out) override {
    std::string s(token);
    if (auto b = byte_of(token))
      s = static_cast<char>(*b);
    else
      replace_all(s, "\xE2\x96\x81", " ");
    if (strip_ && s.starts_with(' ')) s.erase(0, 1);
    strip_ = false;
    out(s);
  }
  void skip() override { strip_ = false; }

 private:
  bool strip_;
};

// Reference: sentencepiece, sentencepiece_processor.cc. A byte that cannot belong to a character is one U+FFFD by
// itself.
class SentencePieceStep final : public Step {
 public:
  SentencePieceStep(const SentencePieceDecoder& rule, bool fused)
      : Step(fused), rule_(rule), at_start_(rule.strip_first && !rule.as_suffix) {}
  void push(std::string_view token, Sink out) override {
    if (auto b = byte_of(token)) {
      bytes_.push_back(static_cast<char>(*b));
      write_bytes(false, out);
      return;
    }
    write_bytes(true, out);
    if (std::binary_search(rule_.control.begin(), rule_.control.end(), token)) return;
    if (token == rule_.unknown) return write(rule_.unk_surface, out);
    bool stripped = false;
    constexpr std::string_view kMark = "\xE2\x96\x81";
    if (at_start_ && !written_ && token.starts_with(kMark)) {
      token.remove_prefix(kMark.size());
      stripped = true;
    }
    if (stripped && !rule_.strip_all) at_start_ = false;
    std::string s = held_space_ + std::string(token);
    held_space_.clear();
    replace_all(s, kMark, " ");
    if (rule_.as_suffix && rule_.strip_first && s.ends_with(' ')) {  // lost if nothing follows
      s.pop_back();
      held_space_ = " ";
    }
    write(s, out);
  }
  void finish(Sink out) override { write_bytes(true, out); }

 private:
  void write(std::string_view s, Sink out) {
    if (s.empty()) return;
    written_ = true;
    out(s);
  }
  void write_bytes(bool ended, Sink out) {
    size_t at = 0;
    while (at < bytes_.size()) {
      Utf8Step step = utf8_step(std::string_view(bytes_).substr(at));
      if (!ended && incomplete_utf8(std::string_view(bytes_).substr(at))) break;
      write(step.complete ? std::string_view(bytes_).substr(at, step.bytes) : "\xEF\xBF\xBD", out);
      at += step.complete ? step.bytes : 1;
    }
    bytes_.erase(0, at);
  }
  const SentencePieceDecoder& rule_;
  bool at_start_, written_ = false;
  std::string bytes_, held_space_;
};

// A run of <0x..> tokens is text if the whole run is valid UTF-8, else one U+FFFD a byte.
class ByteFallbackStep final : public WholeStep {
 public:
  explicit ByteFallbackStep(bool fused) : WholeStep(fused) {}

 private:
  void each(std::string_view token, Sink out) override {
    if (auto b = byte_of(token)) {
      run_.push_back(static_cast<char>(*b));
      return;
    }
    ended(out);
    out(token);
  }
  void ended(Sink out) override {
    if (run_.empty()) return;
    std::string lossy;
    append_lossy_utf8(lossy, run_);
    if (lossy == run_) {
      out(run_);
    } else {
      for (size_t i = 0; i < run_.size(); ++i) out("\xEF\xBF\xBD");
    }
    run_.clear();
  }
  std::string run_;
};

class FuseStep final : public Step {
 public:
  using Step::Step;
  void push(std::string_view token, Sink out) override { out(token); }
};

class ByteLevelStep final : public Step {
 public:
  using Step::Step;
  void push(std::string_view token, Sink out) override {
    std::string s;
    if (append_bytes_of_spelling(s, token))
      out(s);
    else
      out(token);
  }
};

class JoinStep final : public Step {
 public:
  using Step::Step;
  void push(std::string_view token, Sink out) override {
    if (!first_) out(" ");
    first_ = false;
    out(token);
  }

 private:
  bool first_ = true;
};

class StripStep final : public Step {
 public:
  StripStep(const StripDecoder& rule, bool fused) : Step(fused), rule_(rule) { append_utf8(content_, rule.content); }
  void push(std::string_view token, Sink out) override {
    strip_start(token);
    held_ += token;
    if (fused_)
      keep_possible_stop(out);
    else
      finish(out);
    if (!fused_) cut_ = 0, open_ = true;
  }
  void finish(Sink out) override {
    for (size_t i = 0; i < rule_.stop && !held_.empty() && held_.ends_with(content_); ++i)
      held_.resize(held_.size() - content_.size());
    if (!held_.empty() || !fused_) out(held_);
    held_.clear();
  }

 private:
  void strip_start(std::string_view& token) {
    while (open_ && cut_ < rule_.start && token.starts_with(content_)) {
      token.remove_prefix(content_.size());
      ++cut_;
    }
    if (!token.empty()) open_ = false;
  }
  // Up to `stop` copies of the content at the end may yet be cut off.
  void keep_possible_stop(Sink out) {
    size_t end = held_.size();
    for (size_t i = 0; i < rule_.stop && std::string_view(held_).substr(0, end).ends_with(content_); ++i)
      end -= content_.size();
    if (end == 0) return;
    out(std::string_view(held_).substr(0, end));
    held_.erase(0, end);
  }
  const StripDecoder& rule_;
  std::string content_, held_;
  size_t cut_ = 0;
  bool open_ = true;  // nothing but stripped content came so far
};

struct MakeStep {
  bool fused;
  std::unique_ptr<Step> operator()(const ByteLevelDecoder&) const { return std::make_unique<ByteLevelStep>(fused); }
  std::unique_ptr<Step> operator()(const WordPieceDecoder& r) const {
    return std::make_unique<WordPieceStep>(r, fused);
  }
  std::unique_ptr<Step> operator()(const MetaspaceDecoder& r) const {
    return std::make_unique<MetaspaceStep>(r, fused);
  }
  std::unique_ptr<Step> operator()(const SuffixDecoder& r) const { return std::make_unique<SuffixStep>(r, fused); }
  std::unique_ptr<Step> operator()(const CtcDecoder& r) const { return std::make_unique<CtcStep>(r, fused); }
  std::unique_ptr<Step> operator()(const ByteFallbackDecoder&) const {
    return std::make_unique<ByteFallbackStep>(fused);
  }
  std::unique_ptr<Step> operator()(const FuseDecoder&) const { return std::make_unique<FuseStep>(fused); }
  std::unique_ptr<Step> operator()(const StripDecoder& r) const { return std::make_unique<StripStep>(r, fused); }
  std::unique_ptr<Step> operator()(const ReplaceDecoder& r) const { return std::make_unique<ReplaceStep>(r, fused); }
  std::unique_ptr<Step> operator()(const PieceDecoder& r) const { return std::make_unique<PieceStep>(r, fused); }
  std::unique_ptr<Step> operator()(const SentencePieceDecoder& r) const {
    return std::make_unique<SentencePieceStep>(r, fused);
  }
  std::unique_ptr<Step> operator()(const JoinDecoder&) const { return std::make_unique<JoinStep>(fused); }
};

void push_from(std::vector<std::unique_ptr<Step>>& steps, size_t i, std::string_view token, std::string& out) {
  if (i == steps.size()) {
    out += token;
    return;
  }
  steps[i]->push(token, [&](std::string_view t) { push_from(steps, i + 1, t, out); });
}

}  // namespace

DecoderRun::DecoderRun(const std::vector<Decoder>& steps) {
  bool fused = false;
  for (const Decoder& d : steps) {
    steps_.push_back(std::visit(MakeStep{fused}, d));
    fused = fused || std::holds_alternative<FuseDecoder>(d) || std::holds_alternative<ByteLevelDecoder>(d);
  }
}

DecoderRun::~DecoderRun() = default;
DecoderRun::DecoderRun(DecoderRun&&) noexcept = default;

void DecoderRun::push(std::string_view token, std::string& out) {
  std::string bytes = std::move(broken_);
  broken_.clear();
  push_from(steps_, 0, token, bytes);
  for (size_t at = 0; at < bytes.size();) {
    Utf8Step step = utf8_step(std::string_view(bytes).substr(at));
    if (incomplete_utf8(std::string_view(bytes).substr(at))) {
      broken_ = bytes.substr(at);
      return;
    }
    if (step.complete)
      out.append(bytes, at, step.bytes);
    else
      out += "\xEF\xBF\xBD";
    at += step.bytes;
  }
}

void DecoderRun::skip() {
  if (!steps_.empty()) steps_.front()->skip();
}

void DecoderRun::finish(std::string& out) {
  std::string bytes = std::move(broken_);
  broken_.clear();
  for (size_t i = 0; i < steps_.size(); ++i)
    steps_[i]->finish([&](std::string_view t) { push_from(steps_, i + 1, t, bytes); });
  append_lossy_utf8(out, bytes);
}

}  // namespace tenon::text
