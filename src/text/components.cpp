#include "text/components.h"

#include <algorithm>

#include "base/error.h"
#include "text/base64.h"
#include "text/json_fields.h"
#include "text/unicode.h"

namespace tenon::text {
namespace {

constexpr int kMaxDepth = 32;  // of sequences in sequences

// Calls `one` for every component of `value` that is not a sequence. `list`: the key of a sequence's members.
template <class F>
void flatten(const Json& value, std::string_view source, std::string_view what, std::string_view list, int depth,
             F&& one) {
  if (value.is_null()) return;
  if (depth > kMaxDepth) fail(ErrorCode::invalid_file, "{}: {} is nested deeper than {}", source, what, kMaxDepth);
  Fields f(value, source, what);
  if (f.string("type") != "Sequence") return one(f);
  const Json& members = f.get(list);
  if (!members.is_array()) f.bad(list, "is not a list");
  for (const Json& m : members) flatten(m, source, what, list, depth + 1, one);
}

Pattern parse_pattern(const Fields& f) {
  const Json& v = f.get("pattern");
  if (v.is_string()) return Pattern::literal(v.get<std::string>());
  if (v.is_object() && v.contains("String") && v["String"].is_string())
    return Pattern::literal(v["String"].get<std::string>());
  if (v.is_object() && v.contains("Regex") && v["Regex"].is_string())
    return Pattern::regex(v["Regex"].get<std::string>(), RegexDialect::oniguruma, f.source());
  f.bad("pattern", "is neither {\"String\"} nor {\"Regex\"}");
}

char32_t single_character(const Fields& f, std::string_view key, std::string_view text) {
  if (count_characters(text) != 1) f.bad(key, "is not one character");
  return decode_utf8(text.data()).value;
}

PrependScheme parse_scheme(const Fields& f) {
  if (!f.has("prepend_scheme"))
    return f.flag_or("add_prefix_space", true) ? PrependScheme::always : PrependScheme::never;
  std::string s = f.string("prepend_scheme");
  if (s == "always") return PrependScheme::always;
  if (s == "first") return PrependScheme::first;
  if (s == "never") return PrependScheme::never;
  f.unsupported("prepend_scheme", s);
}

std::string parse_mark(const Fields& f) {
  std::string mark = f.string_or("replacement", f.string_or("str_rep", "\xE2\x96\x81"));
  single_character(f, "replacement", mark);
  return mark;
}

MatchBehavior parse_behavior(const Fields& f, MatchBehavior fallback) {
  if (!f.has("behavior")) return fallback;
  std::string s = f.string("behavior");
  static constexpr std::pair<const char*, MatchBehavior> kNames[] = {
      {"Removed", MatchBehavior::removed},
      {"Isolated", MatchBehavior::isolated},
      {"MergedWithPrevious", MatchBehavior::merged_with_previous},
      {"MergedWithNext", MatchBehavior::merged_with_next},
      {"Contiguous", MatchBehavior::contiguous}};
  for (auto [name, behavior] : kNames)
    if (s == name) return behavior;
  f.unsupported("behavior", s);
}

Normalizer parse_charsmap(const Fields& f) {
  auto blob = decode_base64(f.string("precompiled_charsmap"));
  if (!blob) f.bad("precompiled_charsmap", "is not base64");
  return CharsmapRule{std::make_shared<const Charsmap>(*blob, f.source())};
}

Normalizer parse_normalizer(const Fields& f) {
  std::string type = f.string("type");
  if (type == "NFC") return NormalForm::nfc;
  if (type == "NFD") return NormalForm::nfd;
  if (type == "NFKC") return NormalForm::nfkc;
  if (type == "NFKD") return NormalForm::nfkd;
  if (type == "Lowercase") return LowercaseRule{};
  if (type == "StripAccents") return StripAccentsRule{};
  if (type == "Nmt") return NmtRule{};
  if (type == "ByteLevel") return ByteAlphabetRule{};
  if (type == "Strip") return StripRule{f.flag_or("strip_left", true), f.flag_or("strip_right", true)};
  if (type == "Replace") return ReplaceRule{parse_pattern(f), f.string("content")};
  if (type == "Prepend") return PrependRule{f.string("prepend")};
  if (type == "Precompiled") return parse_charsmap(f);
  if (type == "BertNormalizer") {
    BertRule r{f.flag_or("clean_text", true), f.flag_or("handle_chinese_chars", true), f.flag_or("lowercase", true),
               std::nullopt};
    if (f.has("strip_accents")) r.strip_accents = f.flag_or("strip_accents", false);
    return r;
  }
  f.unsupported("type", type);
}

Splitter parse_splitter(const Fields& f) {
  std::string type = f.string("type");
  if (type == "Split")
    return SplitRule{parse_pattern(f), parse_behavior(f, MatchBehavior::isolated), f.flag_or("invert", false)};
  if (type == "ByteLevel") return ByteLevelRule{f.flag_or("add_prefix_space", true), f.flag_or("use_regex", true)};
  if (type == "Metaspace") return MetaspaceRule{parse_mark(f), parse_scheme(f), f.flag_or("split", true)};
  if (type == "Whitespace") return WordsRule{};
  if (type == "WhitespaceSplit") return WhitespaceSplitRule{};
  if (type == "BertPreTokenizer") return BertSplitRule{};
  if (type == "Punctuation") return PunctuationRule{parse_behavior(f, MatchBehavior::isolated)};
  if (type == "Digits") return DigitsRule{f.flag_or("individual_digits", false)};
  if (type == "CharDelimiterSplit") return DelimiterRule{single_character(f, "delimiter", f.string("delimiter"))};
  if (type == "UnicodeScripts") return ScriptsRule{};
  if (type == "FixedLength") {
    int64_t n = f.number_or("length", 5);
    if (n == 0) f.bad("length", "must not be 0");
    return FixedLengthRule{static_cast<size_t>(n)};
  }
  f.unsupported("type", type);
}

Decoder parse_decoder(const Fields& f) {
  std::string type = f.string("type");
  if (type == "ByteLevel") return ByteLevelDecoder{};
  if (type == "WordPiece") return WordPieceDecoder{f.string_or("prefix", "##"), f.flag_or("cleanup", true)};
  if (type == "Metaspace") return MetaspaceDecoder{parse_mark(f), parse_scheme(f)};
  if (type == "BPEDecoder") return SuffixDecoder{f.string_or("suffix", "</w>")};
  if (type == "CTC")
    return CtcDecoder{f.string_or("pad_token", "<pad>"), f.string_or("word_delimiter_token", "|"),
                      f.flag_or("cleanup", true)};
  if (type == "ByteFallback") return ByteFallbackDecoder{};
  if (type == "Fuse") return FuseDecoder{};
  if (type == "Strip")
    return StripDecoder{single_character(f, "content", f.string_or("content", " ")),
                        static_cast<size_t>(f.number_or("start", 0)), static_cast<size_t>(f.number_or("stop", 0))};
  if (type == "Replace") return ReplaceDecoder{parse_pattern(f), f.string("content")};
  f.unsupported("type", type);
}

// ["[SEP]", 102]
int32_t token_pair(const Fields& f, std::string_view key) {
  const Json& v = f.get(key);
  if (!v.is_array() || v.size() != 2 || !v[1].is_number_integer() || v[1].get<int64_t>() < 0 ||
      v[1].get<int64_t>() > 0x7FFFFFFF)
    f.bad(key, "is not [token, id]");
  return static_cast<int32_t>(v[1].get<int64_t>());
}

std::vector<int32_t> special_ids(const Fields& f, const std::string& name) {
  const Json& known = f.get("special_tokens");
  // A list of {"id", "ids"} in some files, a map from the name in the others.
  for (auto it = known.begin(); it != known.end(); ++it) {
    Fields t(*it, f.source(), "special_tokens");
    if (t.string("id") != name) continue;
    std::vector<int32_t> ids;
    for (const Json& id : t.get("ids")) {
      if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > 0x7FFFFFFF)
        t.bad("ids", "is not a list of ids");
      ids.push_back(static_cast<int32_t>(id.get<int64_t>()));
    }
    return ids;
  }
  f.bad(name, "is used in a template but not in special_tokens");
}

std::vector<TemplatePiece> parse_template(const Fields& f, std::string_view key) {
  std::vector<TemplatePiece> out;
  const Json& pieces = f.get(key);
  if (!pieces.is_array()) f.bad(key, "is not a list");
  for (const Json& p : pieces) {
    TemplatePiece piece;
    Fields outer(p, f.source(), key);
    const bool sequence = p.contains("Sequence");
    Fields inner(outer.get(sequence ? "Sequence" : "SpecialToken"), f.source(), key);
    piece.type_id = static_cast<int32_t>(inner.number_or("type_id", 0));
    std::string id = inner.string("id");
    if (!sequence) {
      piece.kind = TemplatePiece::special;
      piece.ids = special_ids(f, id);
    } else if (id == "A" || id == "B") {
      piece.kind = id == "A" ? TemplatePiece::first : TemplatePiece::second;
    } else {
      inner.unsupported("id", id);
    }
    out.push_back(std::move(piece));
  }
  if (key == "single")
    for (const TemplatePiece& p : out)
      if (p.kind == TemplatePiece::second) f.bad(key, "names sequence B");
  return out;
}

}  // namespace

std::vector<Normalizer> parse_normalizers(const Json& value, std::string_view source) {
  std::vector<Normalizer> out;
  flatten(value, source, "normalizer", "normalizers", 0, [&](const Fields& f) { out.push_back(parse_normalizer(f)); });
  return out;
}

std::vector<Splitter> parse_splitters(const Json& value, std::string_view source) {
  std::vector<Splitter> out;
  flatten(value, source, "pre_tokenizer", "pretokenizers", 0,
          [&](const Fields& f) { out.push_back(parse_splitter(f)); });
  return out;
}

std::vector<Decoder> parse_decoders(const Json& value, std::string_view source) {
  std::vector<Decoder> out;
  flatten(value, source, "decoder", "decoders", 0, [&](const Fields& f) { out.push_back(parse_decoder(f)); });
  if (value.is_null()) out.emplace_back(JoinDecoder{});
  return out;
}

std::vector<PostProcessor> parse_post_processors(const Json& value, std::string_view source) {
  std::vector<PostProcessor> out;
  flatten(value, source, "post_processor", "processors", 0, [&](const Fields& f) {
    std::string type = f.string("type");
    if (type == "TemplateProcessing")
      out.emplace_back(TemplateRule{parse_template(f, "single"), parse_template(f, "pair")});
    else if (type == "BertProcessing")
      out.emplace_back(ClsSepRule{token_pair(f, "cls"), token_pair(f, "sep")});
    else if (type == "RobertaProcessing")
      out.emplace_back(RobertaRule{token_pair(f, "cls"), token_pair(f, "sep")});
    else if (type != "ByteLevel")
      f.unsupported("type", type);  // ByteLevel only moves offsets
  });
  return out;
}

namespace {

Side parse_side(const Fields& f) {
  std::string s = f.string_or("direction", "Right");
  if (s != "Right" && s != "Left") f.unsupported("direction", s);
  return s == "Right" ? Side::right : Side::left;
}

}  // namespace

std::optional<Truncation> parse_truncation(const Json& value, std::string_view source) {
  if (value.is_null()) return std::nullopt;
  Fields f(value, source, "truncation");
  Truncation t;
  t.max_length = static_cast<size_t>(f.number("max_length"));
  t.stride = static_cast<size_t>(f.number_or("stride", 0));
  t.side = parse_side(f);
  std::string s = f.string_or("strategy", "LongestFirst");
  if (s == "OnlyFirst")
    t.strategy = Truncation::Strategy::only_first;
  else if (s == "OnlySecond")
    t.strategy = Truncation::Strategy::only_second;
  else if (s != "LongestFirst")
    f.unsupported("strategy", s);
  return t;
}

std::optional<Padding> parse_padding(const Json& value, std::string_view source) {
  constexpr int64_t kMostPadding = 1 << 24;
  if (value.is_null()) return std::nullopt;
  Fields f(value, source, "padding");
  Padding p;
  if (const Json& s = f.get("strategy"); s.is_object()) {
    Fields fixed(s, source, "padding.strategy");
    int64_t n = fixed.number("Fixed");
    if (n > kMostPadding) fixed.bad("Fixed", "is larger than 2^24");
    p.length = static_cast<size_t>(n);
  } else if (!s.is_string() || s.get<std::string>() != "BatchLongest") {
    f.unsupported("strategy", s.dump());
  }
  int64_t multiple = f.number_or("pad_to_multiple_of", 0);
  if (multiple > kMostPadding) f.bad("pad_to_multiple_of", "is larger than 2^24");
  p.multiple_of = static_cast<size_t>(multiple);
  p.side = parse_side(f);
  p.id = static_cast<int32_t>(f.number_or("pad_id", 0));
  p.type_id = static_cast<int32_t>(f.number_or("pad_type_id", 0));
  return p;
}

}  // namespace tenon::text
