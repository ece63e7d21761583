#include "text/normalize.h"

#include <algorithm>

#include "text/byte_alphabet.h"
#include "text/grapheme.h"
#include "text/unicode.h"

namespace tenon::text {
namespace {

template <class F>
void each_character(std::string_view text, F&& f) {
  for (size_t at = 0; at < text.size();) {
    CodePoint c = decode_utf8(text.data() + at);
    f(c.value, text.substr(at, c.bytes));
    at += c.bytes;
  }
}

void lowercase(std::string_view text, std::string& out) {
  each_character(text, [&](char32_t c, std::string_view raw) {
    if (c < 128) {
      out.push_back(static_cast<char>(c >= U'A' && c <= U'Z' ? c + 32 : c));
    } else {
      Mapped m = find_mapping(unicode_tables::kLower, c);
      if (!m.count) out += raw;
      for (uint32_t i = 0; i < m.count; ++i) append_utf8(out, m.data[i]);
    }
  });
}

void drop(std::string_view text, CharFlag flag, std::string& out) {
  each_character(text, [&](char32_t c, std::string_view raw) {
    if (!has_flag(c, flag)) out += raw;
  });
}

void nmt(std::string_view text, std::string& out) {
  each_character(text, [&](char32_t c, std::string_view raw) {
    bool dropped = (c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
    bool blank = c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                 c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
    if (blank)
      out += ' ';
    else if (!dropped)
      out += raw;
  });
}

void strip(std::string_view text, const StripRule& rule, std::string& out) {
  size_t begin = 0, end = text.size();
  while (rule.left && begin < end) {
    CodePoint c = decode_utf8(text.data() + begin);
    if (!has_flag(c.value, kWhite)) break;
    begin += c.bytes;
  }
  while (rule.right && end > begin) {
    CodePoint c = decode_utf8_before(text.data() + end);
    if (!has_flag(c.value, kWhite)) break;
    end -= c.bytes;
  }
  out = text.substr(begin, end - begin);
}

void clean(std::string_view text, std::string& out) {
  each_character(text, [&](char32_t c, std::string_view raw) {
    if (has_flag(c, kBertBlank))
      out += ' ';
    else if (!has_flag(c, kBertDropped))
      out += raw;
  });
}

void space_chinese(std::string_view text, std::string& out) {
  each_character(text, [&](char32_t c, std::string_view raw) {
    if (!has_flag(c, kChinese)) {
      out += raw;
      return;
    }
    out += ' ';
    out += raw;
    out += ' ';
  });
}

void bert(std::string_view text, const BertRule& rule, std::string& out) {
  std::string now(text), next;
  auto apply = [&](auto&& f) {
    next.clear();
    f(now, next);
    now.swap(next);
  };
  if (rule.clean_text) apply(clean);
  if (rule.chinese) apply(space_chinese);
  if (rule.strip_accents.value_or(rule.lowercase)) {
    to_normal_form(now, NormalForm::nfd, now);
    apply([](std::string_view a, std::string& b) { drop(a, kBertAccent, b); });
  }
  if (rule.lowercase) apply(lowercase);
  out += now;
}

// The reference looks clusters of less than 6 bytes up as a whole (taking the entry for their shortest prefix), else
// and where that fails their characters.
void charsmap(std::string_view text, const Charsmap& map, std::string& out) {
  for (size_t at = 0; at < text.size();) {
    size_t end = grapheme_end(text, at);
    std::string_view cluster = text.substr(at, end - at);
    at = end;
    if (cluster.size() < 6)
      if (auto m = map.shortest(cluster)) {
        out += m->replacement;
        continue;
      }
    each_character(cluster, [&](char32_t, std::string_view raw) {
      auto m = map.shortest(raw);
      out += m ? m->replacement : raw;
    });
  }
}

// Reference: sentencepiece, normalizer.cc.
class SentencePieceNormalizer {
 public:
  SentencePieceNormalizer(std::string_view text, const SentencePieceRule& rule, std::string& out)
      : rest_(text), rule_(rule), out_(out) {}

  void run() {
    if (rule_.remove_extra_whitespaces) skip_spaces();
    if (rest_.empty()) return;
    if (rule_.add_dummy_prefix && !rule_.whitespace_as_suffix) out_ += space();
    bool after_space = rule_.remove_extra_whitespaces;
    while (!rest_.empty()) {
      auto [bytes, by] = next();
      while (after_space && by.starts_with(' ')) by.remove_prefix(1);
      for (char c : by) {
        if (c == ' ')
          out_ += space();
        else
          out_ += c;
      }
      if (!by.empty()) after_space = by.ends_with(' ');
      if (!rule_.remove_extra_whitespaces) after_space = false;
      rest_.remove_prefix(bytes);
    }
    if (rule_.remove_extra_whitespaces)
      while (out_.ends_with(space())) out_.resize(out_.size() - space().size());
    if (rule_.add_dummy_prefix && rule_.whitespace_as_suffix) out_ += space();
  }

 private:
  std::string_view space() const { return rule_.escape_whitespaces ? "\xE2\x96\x81" : " "; }
  Charsmap::Match next() const {
    StringFinder::Match kept;
    if (rule_.kept->longest_at(rest_, kept)) return {kept.end, rest_.substr(0, kept.end)};
    if (rule_.map)
      if (auto m = rule_.map->longest(rest_)) return *m;
    size_t n = decode_utf8(rest_.data()).bytes;
    return {n, rest_.substr(0, n)};
  }
  void skip_spaces() {
    while (!rest_.empty()) {
      auto [bytes, by] = next();
      if (by != " ") return;
      rest_.remove_prefix(bytes);
    }
  }

  std::string_view rest_;
  const SentencePieceRule& rule_;
  std::string& out_;
};

struct Apply {
  std::string_view text;
  std::string& out;  // empty

  void operator()(NormalForm form) const {
    if (!to_normal_form(text, form, out)) out = text;
  }
  void operator()(LowercaseRule) const { lowercase(text, out); }
  void operator()(StripAccentsRule) const { drop(text, kAccent, out); }
  void operator()(NmtRule) const { nmt(text, out); }
  void operator()(ByteAlphabetRule) const { append_spelling(out, text); }
  void operator()(const StripRule& r) const { strip(text, r, out); }
  void operator()(const ReplaceRule& r) const { r.pattern.replace(text, r.by, out); }
  void operator()(const PrependRule& r) const {
    if (text.empty()) return;
    out = r.text;
    out += text;
  }
  void operator()(const BertRule& r) const { bert(text, r, out); }
  void operator()(const SentencePieceRule& r) const { SentencePieceNormalizer(text, r, out).run(); }
  void operator()(const CharsmapRule& r) const { charsmap(text, *r.map, out); }
};

}  // namespace

std::string_view normalize(const std::vector<Normalizer>& steps, std::string_view text, std::string& buffer) {
  std::string now;
  for (const Normalizer& step : steps) {
    if (const auto* form = std::get_if<NormalForm>(&step)) {
      if (!to_normal_form(text, *form, now)) continue;
    } else {
      now.clear();
      std::visit(Apply{text, now}, step);
    }
    buffer.swap(now);
    text = buffer;
  }
  return text;
}

}  // namespace tenon::text
