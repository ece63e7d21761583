#include "text/split.h"

#include <algorithm>

#include "text/byte_alphabet.h"
#include "text/unicode.h"

namespace tenon::text {
namespace {

struct Stretch {
  size_t begin, end;
  bool match;
};

// The behaviours, over stretches in the order of the text. The reference folds them this way.
std::vector<Stretch> merged(std::vector<Stretch> in, MatchBehavior behavior) {
  std::vector<Stretch> out;
  bool previous = false;
  auto forward = [&](auto&& joins) {
    for (const Stretch& s : in) {
      if (joins(s) && !out.empty())
        out.back().end = s.end;
      else
        out.push_back(s);
      previous = s.match;
    }
  };
  switch (behavior) {
    case MatchBehavior::merged_with_previous:
      forward([&](const Stretch& s) { return s.match && !previous; });
      break;
    case MatchBehavior::contiguous:
      forward([&](const Stretch& s) { return s.match == previous; });
      break;
    case MatchBehavior::merged_with_next:
      for (auto s = in.rbegin(); s != in.rend(); ++s) {
        if (s->match && !previous && !out.empty())
          out.back().begin = s->begin;
        else
          out.push_back(*s);
        previous = s->match;
      }
      std::reverse(out.begin(), out.end());
      break;
    default:
      return in;
  }
  return out;
}

// Hands on the pieces of stretches that `cut` (a callable that takes a sink) produces.
template <class Cut, class Sink>
void split(std::string_view text, MatchBehavior behavior, bool invert, Cut&& cut, Sink&& sink) {
  auto emit = [&](size_t begin, size_t end) {
    if (end > begin) sink(text.substr(begin, end - begin));
  };
  if (behavior == MatchBehavior::isolated || behavior == MatchBehavior::removed) {
    cut([&](size_t begin, size_t end, bool match) {
      if (behavior == MatchBehavior::isolated || match == invert) emit(begin, end);
    });
    return;
  }
  std::vector<Stretch> all;
  cut([&](size_t begin, size_t end, bool match) { all.push_back({begin, end, match != invert}); });
  for (const Stretch& s : merged(std::move(all), behavior)) emit(s.begin, s.end);
}

// Every character of the class is a match of its own.
template <class Is>
auto cut_at(std::string_view text, Is is) {
  return [text, is](auto&& stretch) {
    size_t done = 0;
    for (size_t at = 0; at < text.size();) {
      CodePoint c = decode_utf8(text.data() + at);
      if (is(c.value)) {
        if (done < at) stretch(done, at, false);
        stretch(at, at + c.bytes, true);
        done = at + c.bytes;
      }
      at += c.bytes;
    }
    if (done < text.size()) stretch(done, text.size(), false);
  };
}

auto flagged(CharFlag flag) {
  return [flag](char32_t c) { return has_flag(c, flag); };
}

// Runs of characters of the same kind; kind 0 is dropped.
template <class Kind, class Sink>
void runs(std::string_view text, Kind kind, Sink&& sink) {
  size_t begin = 0;
  int current = 0;
  for (size_t at = 0; at < text.size();) {
    CodePoint c = decode_utf8(text.data() + at);
    int k = kind(c.value);
    if (k != current) {
      if (current && at > begin) sink(text.substr(begin, at - begin));
      begin = at;
      current = k;
    }
    at += c.bytes;
  }
  if (current && begin < text.size()) sink(text.substr(begin));
}

int word_kind(char32_t c) { return has_flag(c, kWordAndJoiner) ? 1 : scan_class(c) & kSpace ? 0 : 2; }

// A piece ends where the script changes; characters of no script join both sides, but at the start of the text, where
// the reference drops them.
template <class Sink>
void split_scripts(std::string_view text, Sink&& sink) {
  size_t begin = text.size();
  int script = 0;
  for (size_t at = 0; at < text.size();) {
    CodePoint c = decode_utf8(text.data() + at);
    int s = char_record(c.value).reference_script;
    if (s && s != script) {
      if (begin < at) sink(text.substr(begin, at - begin));
      begin = at;
    }
    if (s) script = s;
    at += c.bytes;
  }
  if (begin < text.size()) sink(text.substr(begin));
}

template <class Sink>
void split_length(std::string_view text, size_t characters, Sink&& sink) {
  size_t begin = 0, n = 0;
  for (size_t at = 0; at < text.size();) {
    at += decode_utf8(text.data() + at).bytes;
    if (++n == characters || at == text.size()) {
      sink(text.substr(begin, at - begin));
      begin = at;
      n = 0;
    }
  }
}

template <class Sink>
void split_step(const Splitter& rule, std::string_view text, Sink&& sink) {
  if (const auto* s = std::get_if<SplitRule>(&rule)) {
    if (s->pattern.scanner() != Scanner::none && s->behavior == MatchBehavior::isolated)
      return scan(s->pattern.scanner(), text, sink);
    split(
        text, s->behavior, s->invert, [&](auto&& stretch) { s->pattern.cut(text, stretch); }, sink);
  } else if (std::holds_alternative<WordsRule>(rule)) {
    runs(text, word_kind, sink);
  } else if (std::holds_alternative<WhitespaceSplitRule>(rule)) {
    split(text, MatchBehavior::removed, false, cut_at(text, flagged(kWhite)), sink);
  } else if (std::holds_alternative<BertSplitRule>(rule)) {
    split(text, MatchBehavior::removed, false, cut_at(text, flagged(kWhite)), [&](std::string_view word) {
      split(word, MatchBehavior::isolated, false, cut_at(word, flagged(kPunctuation)), sink);
    });
  } else if (const auto* p = std::get_if<PunctuationRule>(&rule)) {
    split(text, p->behavior, false, cut_at(text, flagged(kPunctuation)), sink);
  } else if (const auto* d = std::get_if<DigitsRule>(&rule)) {
    split(text, d->individual ? MatchBehavior::isolated : MatchBehavior::contiguous, false,
          cut_at(text, flagged(kNumeric)), sink);
  } else if (const auto* c = std::get_if<DelimiterRule>(&rule)) {
    char32_t delimiter = c->delimiter;
    split(text, MatchBehavior::removed, false, cut_at(text, [delimiter](char32_t x) { return x == delimiter; }), sink);
  } else if (std::holds_alternative<ScriptsRule>(rule)) {
    split_scripts(text, sink);
  } else if (const auto* f = std::get_if<FixedLengthRule>(&rule)) {
    split_length(text, f->characters, sink);
  }
}

}  // namespace

PreTokenizer::PreTokenizer(std::vector<Splitter> steps, bool bytes) : steps_(std::move(steps)), bytes_(bytes) {
  for (size_t i = 0; i + 1 < steps_.size(); ++i) spells_ = spells_ || std::holds_alternative<ByteLevelRule>(steps_[i]);
  // For a model that takes bytes, spelling them and nothing more is no step at all.
  const auto* last = steps_.empty() ? nullptr : std::get_if<ByteLevelRule>(&steps_.back());
  if (bytes_ && !spells_ && last && !last->use_regex && !last->add_prefix_space) steps_.pop_back();
}

Scanner PreTokenizer::scanner() const {
  if (steps_.size() != 1 || spells_) return Scanner::none;
  if (const auto* s = std::get_if<SplitRule>(&steps_[0]))
    return s->behavior == MatchBehavior::isolated ? s->pattern.scanner() : Scanner::none;
  const auto* b = std::get_if<ByteLevelRule>(&steps_[0]);
  return b && bytes_ && b->use_regex && !b->add_prefix_space ? Scanner::gpt2 : Scanner::none;
}

void PreTokenizer::run(std::string_view text, bool at_start, FunctionRef<void(std::string_view)> piece) const {
  if (text.empty()) return;
  if (!bytes_ || !spells_) return run_from(0, text, at_start, piece);
  run_from(0, text, at_start, [&](std::string_view spelled) {
    if (auto bytes = bytes_of_spelling(spelled)) piece(*bytes);
  });
}

void PreTokenizer::run_from(size_t step, std::string_view text, bool at_start,
                            FunctionRef<void(std::string_view)> piece) const {
  if (step == steps_.size()) {
    if (!text.empty()) piece(text);
    return;
  }
  if (const auto* b = std::get_if<ByteLevelRule>(&steps_[step])) return byte_level(*b, step, text, at_start, piece);
  if (const auto* m = std::get_if<MetaspaceRule>(&steps_[step])) return metaspace(*m, step, text, at_start, piece);
  if (step + 1 == steps_.size()) return split_step(steps_[step], text, piece);
  split_step(steps_[step], text,
             [&](std::string_view part) { run_from(step + 1, part, at_start && part.data() == text.data(), piece); });
}

void PreTokenizer::byte_level(const ByteLevelRule& rule, size_t step, std::string_view text, bool at_start,
                              FunctionRef<void(std::string_view)> piece) const {
  std::string prefixed;
  if (rule.add_prefix_space && !text.starts_with(' ')) {
    prefixed = " ";
    prefixed += text;
    text = prefixed;
  }
  Scanner scanner = rule.use_regex ? Scanner::gpt2 : Scanner::none;
  if (last_byte_level(step) && !spells_) return scan(scanner, text, piece);
  scan(scanner, text, [&](std::string_view part) {
    std::string spelled;
    append_spelling(spelled, part);
    run_from(step + 1, spelled, at_start && part.data() == text.data(), piece);
  });
}

void PreTokenizer::metaspace(const MetaspaceRule& rule, size_t step, std::string_view text, bool at_start,
                             FunctionRef<void(std::string_view)> piece) const {
  std::string marked;
  marked.reserve(text.size() + text.size() / 2 + 4);
  for (char c : text) {
    if (c == ' ')
      marked += rule.mark;
    else
      marked += c;
  }
  bool wants = rule.scheme == PrependScheme::always || (rule.scheme == PrependScheme::first && at_start);
  if (wants && !marked.starts_with(rule.mark)) marked.insert(0, rule.mark);
  if (!rule.split) return run_from(step + 1, marked, at_start, piece);
  Pattern mark = Pattern::literal(rule.mark);
  split(
      marked, MatchBehavior::merged_with_next, false, [&](auto&& stretch) { mark.cut(marked, stretch); },
      [&](std::string_view part) { run_from(step + 1, part, at_start && part.data() == marked.data(), piece); });
}

std::vector<std::string> split_pieces(const std::vector<Splitter>& steps, std::string_view text) {
  std::vector<std::string> out;
  if (steps.empty()) return {std::string(text)};
  PreTokenizer(steps, false).run(text, true, [&](std::string_view piece) { out.emplace_back(piece); });
  return out;
}

}  // namespace tenon::text
