// Tokenizers in GGUF metadata (tokenizer.ggml.*; reference: ggml docs/gguf.md and llama.cpp's llama-vocab.cpp).
#include <simdjson.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "formats/checkpoint.h"
#include "formats/gguf.h"
#include "text/bpe.h"
#include "text/gguf_pre.h"
#include "text/greedy.h"
#include "text/piece_models.h"
#include "text/score_bpe.h"
#include "text/spec.h"
#include "text/unicode.h"
#include "text/wordpiece.h"

namespace tenon::text {
namespace {

using formats::Gguf;
using formats::GgufValue;

constexpr std::string_view kMark = "\xE2\x96\x81";

// Tokens that end a turn wherever they occur, when the file's keys do not name them.
constexpr std::string_view kEndTokens[] = {"<|eot_id|>",
                                           "<|im_end|>",
                                           "<|end|>",
                                           "<|return|>",
                                           "<|call|>",
                                           "<end_of_turn>",
                                           "<|endoftext|>",
                                           "<|eom_id|>",
                                           "<EOT>",
                                           "_<EOT>",
                                           "[EOT]",
                                           "[EOS]",
                                           "<turn|>",
                                           "<|end_of_text|>",
                                           "<end_of_utterance>",
                                           "</s>",
                                           "<eos>",
                                           "<\xEF\xBD\x9C"
                                           "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"};

class Reader {
 public:
  Reader(const Gguf& gguf, std::string source) : gguf_(gguf), source_(std::move(source)) {}

  TokenizerSpec read() {
    spec_.source = source_;
    auto model = gguf_.string("tokenizer.ggml.model");
    if (!model) fail(ErrorCode::not_found, "{}: the file has no tokenizer (key tokenizer.ggml.model)", source_);
    read_tokens();
    if (*model == "gpt2" || *model == "gemma4" || *model == "whitespace")
      read_bpe(*model == "gemma4" ? "gemma4" : std::string(gguf_.string("tokenizer.ggml.pre").value_or("default")));
    else if (*model == "llama")
      read_score_bpe();
    else if (*model == "bert")
      read_wordpiece();
    else if (*model == "t5")
      read_unigram();
    else if (*model == "rwkv")
      read_rwkv();
    else
      fail(ErrorCode::unsupported, "{}: tokenizer.ggml.model \"{}\" is not supported", source_, printable(*model));
    read_ends();
    read_templates();
    return std::move(spec_);
  }

 private:
  std::string key(std::string_view name) const { return "tokenizer.ggml." + std::string(name); }
  const GgufValue* find(std::string_view name) const { return gguf_.find(key(name)); }

  void read_tokens() {
    const GgufValue* v = find("tokens");
    auto strings = v ? v->strings() : std::nullopt;
    if (!strings) fail(ErrorCode::invalid_file, "{}: tokenizer.ggml.tokens is not a list of strings", source_);
    if (strings->size() > Vocabulary::kMaxTokens)
      fail(ErrorCode::invalid_file, "{}: {} tokens are too many", source_, strings->size());
    tokens_ = std::move(*strings);
    for (std::string_view& t : tokens_) {
      if (simdjson::validate_utf8(t.data(), t.size())) continue;
      repaired_.push_back(std::make_unique<std::string>());
      append_lossy_utf8(*repaired_.back(), t);
      t = *repaired_.back();
    }
    types_.assign(tokens_.size(), PieceType::normal);
    if (const GgufValue* types = find("token_type")) {
      auto n = types->integers();
      if (!n || n->size() < tokens_.size())
        fail(ErrorCode::invalid_file, "{}: tokenizer.ggml.token_type does not fit the tokens", source_);
      for (size_t i = 0; i < tokens_.size(); ++i)
        types_[i] = (*n)[i] >= 1 && (*n)[i] <= 6 ? static_cast<PieceType>((*n)[i]) : PieceType::undefined;
    }
  }

  std::vector<float> read_scores() const {
    std::vector<float> scores(tokens_.size(), 0);
    const GgufValue* v = find("scores");
    if (!v) return scores;
    auto values = v->reals();
    if (!values || values->size() < tokens_.size())
      fail(ErrorCode::invalid_file, "{}: tokenizer.ggml.scores does not fit the tokens", source_);
    for (size_t i = 0; i < scores.size(); ++i) scores[i] = static_cast<float>((*values)[i]);
    return scores;
  }

  // A special token's id: the key's value, else the format's default; nullopt when it is not in the vocabulary.
  std::optional<int32_t> special_id(std::string_view name, std::optional<int32_t> fallback) const {
    auto v = gguf_.integer(key(name));
    if (v && *v >= 0 && *v < static_cast<int64_t>(tokens_.size())) return static_cast<int32_t>(*v);
    if (fallback && *fallback < static_cast<int32_t>(tokens_.size())) return fallback;
    return std::nullopt;
  }
  bool flag(std::string_view name, bool fallback) const { return gguf_.flag(key(name)).value_or(fallback); }

  bool special(size_t i) const { return types_[i] == PieceType::control || types_[i] == PieceType::unknown; }
  bool cut_out(size_t i) const { return special(i) || types_[i] == PieceType::user_defined; }

  void add_tokens() {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (!cut_out(i) || tokens_[i].empty()) continue;
      AddedToken t;
      t.content = tokens_[i];
      t.id = static_cast<int32_t>(i);
      t.special = special(i);
      if (escaped_spaces_ && !t.special) t.content = marked(t.content);
      spec_.added.push_back(std::move(t));
    }
  }

  void add_template(bool bos, bool eos, std::optional<int32_t> bos_id, std::optional<int32_t> end_id,
                    bool end_between) {
    auto special_piece = [](int32_t id, int32_t type_id) {
      return TemplatePiece{TemplatePiece::special, type_id, {id}};
    };
    TemplateRule r;
    if (bos && bos_id) r.single.push_back(special_piece(*bos_id, 0));
    r.single.push_back({TemplatePiece::first, 0, {}});
    if (eos && end_id) r.single.push_back(special_piece(*end_id, 0));
    r.pair = r.single;
    if (bos && bos_id && !end_between) r.pair.push_back(special_piece(*bos_id, 1));
    r.pair.push_back({TemplatePiece::second, 1, {}});
    if (eos && end_id) r.pair.push_back(special_piece(*end_id, 1));
    spec_.post_processors.emplace_back(std::move(r));
  }

  void read_bpe(const std::string& name) {
    const GgufPre* pre = find_gguf_pre(name);
    constexpr size_t kGpt2Tokens = 50257;  // whose files never had the field
    if (!pre)
      spec_.doubt = fmt::format("{}: tokenizer.ggml.pre \"{}\" is not known, text is cut by the default rule", source_,
                                printable(name));
    else if (name == "default" && tokens_.size() != kGpt2Tokens)
      spec_.doubt = fmt::format("{}: tokenizer.ggml.pre is {}, which is right for few models", source_,
                                find("pre") ? "\"default\"" : "missing");
    if (!pre) pre = find_gguf_pre("default");
    VocabularyBuilder builder(pre->bytes ? Spelling::byte_level : Spelling::plain, source_);
    for (size_t i = 0; i < tokens_.size(); ++i) builder.add(static_cast<uint32_t>(i), tokens_[i]);
    spec_.vocabulary = std::make_shared<const Vocabulary>(builder.finish());
    BpeOptions options;
    options.ignore_merges = pre->ignore_merges;
    options.byte_fallback = !pre->bytes;
    options.whole_lines = pre->lines;
    spec_.model = std::make_unique<Bpe>(options, spec_.vocabulary, read_merges(*spec_.vocabulary));
    if (pre->nfc) spec_.normalizers.emplace_back(NormalForm::nfc);
    if (!pre->bytes) spec_.normalizers.emplace_back(ReplaceRule{Pattern::literal(" "), std::string(kMark)});
    for (std::string_view p : pre->patterns)
      spec_.splitters.emplace_back(SplitRule{Pattern::regex(p, RegexDialect::fancy, source_)});
    if (pre->bytes) spec_.splitters.emplace_back(ByteLevelRule{false, false});
    if (pre->bytes)
      spec_.decoders.emplace_back(ByteLevelDecoder{});
    else
      spec_.decoders = {ReplaceDecoder{Pattern::literal(std::string(kMark)), " "}, ByteFallbackDecoder{},
                        FuseDecoder{}};
    add_tokens();
    spec_.bos = special_id("bos_token_id", std::nullopt);
    auto eos = special_id("eos_token_id", std::nullopt);
    const bool sep = flag("add_sep_token", pre->add_sep);
    add_template(flag("add_bos_token", pre->add_bos), flag("add_eos_token", false) || sep, spec_.bos,
                 sep ? special_id("seperator_token_id", eos) : eos, sep);
  }

  // Merges of tokens that the vocabulary lacks are passed over, as llama.cpp does.
  MergeTable read_merges(const Vocabulary& vocabulary) const {
    MergeTable table;
    const GgufValue* v = find("merges");
    auto merges = v ? v->strings() : std::nullopt;
    if (!merges) fail(ErrorCode::invalid_file, "{}: tokenizer.ggml.merges is not a list of strings", source_);
    table.reserve(merges->size());
    MergeReader reader(vocabulary, "", source_);
    uint32_t rank = 0;
    for (std::string_view m : *merges) {
      size_t space = m.find(' ', 1);
      if (space != m.npos && simdjson::validate_utf8(m.data(), m.size()))
        reader.try_add(table, m.substr(0, space), m.substr(space + 1), rank);
      ++rank;
    }
    return table;
  }

  // SentencePiece's BPE. The format does not say how bytes and the first space decode: Llama's and Gemma's own
  // tokenizers are known (tokenizer.json), for all other families it is llama.cpp's way.
  void read_score_bpe() {
    escaped_spaces_ = true;
    std::string architecture(gguf_.string("general.architecture").value_or(""));
    const bool published = architecture == "llama" || architecture.starts_with("gemma");
    if (!published) mark_end_tokens();
    spec_.vocabulary = plain_vocabulary();
    PieceTable table;
    table.scores = read_scores();
    table.types = types_;
    table.unk_id = special_id("unknown_token_id", 0).value_or(-1);
    table.byte_fallback = true;
    spec_.model = std::make_unique<ScoreBpe>(std::move(table), spec_.vocabulary);
    const bool prefix = flag("add_space_prefix", true);
    if (prefix) spec_.normalizers.emplace_back(PrependRule{std::string(kMark)});
    spec_.normalizers.emplace_back(ReplaceRule{Pattern::literal(" "), std::string(kMark)});
    if (published) {
      spec_.decoders = {ReplaceDecoder{Pattern::literal(std::string(kMark)), " "}, ByteFallbackDecoder{},
                        FuseDecoder{}};
      if (prefix) spec_.decoders.emplace_back(StripDecoder{U' ', 1, 0});
    } else {
      spec_.decoders.emplace_back(PieceDecoder{prefix});
    }
    add_tokens();
    strip_after_phi3_tokens();
    spec_.bos = special_id("bos_token_id", 1);
    add_template(flag("add_bos_token", true), flag("add_eos_token", false), spec_.bos, special_id("eos_token_id", 2),
                 false);
  }

  // SentencePiece's Unigram with its normalizer.
  void read_unigram() {
    spec_.vocabulary = plain_vocabulary();
    PieceTable table;
    table.scores = read_scores();
    table.types = types_;
    table.unk_id = special_id("unknown_token_id", 2).value_or(-1);
    SentencePieceRule rule;
    if (const GgufValue* v = find("precompiled_charsmap"); v && v->type == formats::GgufType::array && !v->raw.empty())
      rule.map = std::make_shared<const Charsmap>(
          std::string_view(reinterpret_cast<const char*>(v->raw.data()), v->raw.size()), source_);
    rule.kept = std::make_shared<const StringFinder>(table.user_defined(*spec_.vocabulary));
    rule.add_dummy_prefix = flag("add_space_prefix", true);
    rule.remove_extra_whitespaces = flag("remove_extra_whitespaces", true);
    SentencePieceDecoder decoder;
    for (size_t i = 0; i < tokens_.size(); ++i)
      if (types_[i] == PieceType::unknown) decoder.unknown = tokens_[i];
    decoder.unk_surface = " \xE2\x81\x87 ";
    decoder.strip_first = rule.add_dummy_prefix || rule.remove_extra_whitespaces;
    decoder.strip_all = rule.remove_extra_whitespaces;
    spec_.normalizers.emplace_back(std::move(rule));
    spec_.decoders.emplace_back(std::move(decoder));
    spec_.model = std::make_unique<PieceUnigram>(std::move(table), spec_.vocabulary);
    add_tokens();
    spec_.bos = special_id("bos_token_id", std::nullopt);
    add_template(flag("add_bos_token", false), flag("add_eos_token", true), spec_.bos, special_id("eos_token_id", 1),
                 false);
  }

  // Tokens are byte strings written with escapes; the longest one wins.
  void read_rwkv() {
    VocabularyBuilder builder(Spelling::byte_level, source_);
    for (size_t i = 0; i < tokens_.size(); ++i)
      if (!special(i)) builder.add_bytes(static_cast<uint32_t>(i), unescaped(tokens_[i]));
    spec_.vocabulary = std::make_shared<const Vocabulary>(builder.finish());
    spec_.model = std::make_unique<Greedy>(spec_.vocabulary, special_id("unknown_token_id", 0).value_or(-1));
    spec_.splitters.emplace_back(ByteLevelRule{false, false});
    spec_.decoders.emplace_back(ByteLevelDecoder{});
    add_tokens();
    spec_.bos = special_id("bos_token_id", std::nullopt);
    add_template(flag("add_bos_token", false), flag("add_eos_token", false), spec_.bos,
                 special_id("eos_token_id", std::nullopt), false);
  }

  // Backslash and t, n, r or xHH; before anything else the backslash only goes.
  static std::string unescaped(std::string_view token) {
    std::string out;
    auto digit = [](char c) {
      return c >= '0' && c <= '9'   ? c - '0'
             : c >= 'a' && c <= 'f' ? c - 'a' + 10
             : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                    : -1;
    };
    for (size_t i = 0; i < token.size(); ++i) {
      if (token[i] != '\\' || i + 1 == token.size()) {
        out += token[i];
        continue;
      }
      char c = token[++i];
      if (c == 'x' && i + 2 < token.size() && digit(token[i + 1]) >= 0 && digit(token[i + 2]) >= 0) {
        out += static_cast<char>(digit(token[i + 1]) * 16 + digit(token[i + 2]));
        i += 2;
      } else {
        out += c == 't' ? '\t' : c == 'n' ? '\n' : c == 'r' ? '\r' : c;
      }
    }
    return out;
  }

  static std::string marked(std::string_view token) {
    std::string out;
    Pattern::literal(" ").replace(token, kMark, out);
    return out;
  }

  std::shared_ptr<const Vocabulary> plain_vocabulary() const {
    VocabularyBuilder builder(Spelling::plain, source_);
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (types_[i] == PieceType::user_defined)
        builder.add(static_cast<uint32_t>(i), marked(tokens_[i]));
      else
        builder.add(static_cast<uint32_t>(i), tokens_[i]);
    }
    return std::make_shared<const Vocabulary>(builder.finish());
  }

  void mark_end_tokens() {
    for (size_t i = 0; i < tokens_.size(); ++i)
      if (std::find(std::begin(kEndTokens), std::end(kEndTokens), tokens_[i]) != std::end(kEndTokens))
        types_[i] = PieceType::control;
  }

  // The format has no such flag; llama.cpp knows these models by their name.
  void strip_after_phi3_tokens() {
    std::string name(gguf_.string("general.name").value_or(""));
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (name.find("phi-3") == name.npos && name.find("phi3") == name.npos) return;
    for (AddedToken& t : spec_.added)
      t.rstrip = t.content != "<unk>" && t.content != "<s>" && t.content != "<|endoftext|>";
  }

  // GGUF writes "##ing" as "ing" and "the" as "\u2581the".
  void read_wordpiece() {
    VocabularyBuilder builder(Spelling::plain, source_);
    std::string spelled;
    for (size_t i = 0; i < tokens_.size(); ++i) {
      spelled = tokens_[i];
      // "[unused7]" and the like stay as they are, whatever their type.
      if (!cut_out(i) && !(spelled.starts_with('[') && spelled.ends_with(']'))) {
        if (spelled.starts_with(kMark))
          spelled.erase(0, kMark.size());
        else
          spelled.insert(0, "##");
      }
      builder.add(static_cast<uint32_t>(i), spelled);
    }
    spec_.vocabulary = std::make_shared<const Vocabulary>(builder.finish());
    WordPieceOptions options;
    if (auto unk = special_id("unknown_token_id", 100)) options.unk_token = spec_.vocabulary->spelled(*unk);
    spec_.model = std::make_unique<WordPiece>(options, spec_.vocabulary);
    BertRule bert;
    bert.lowercase = flag("normalizer.lowercase", true);
    if (auto strip = gguf_.flag(key("normalizer.strip_accents"))) bert.strip_accents = *strip;
    spec_.normalizers.emplace_back(bert);
    spec_.splitters.emplace_back(BertSplitRule{});
    spec_.decoders.emplace_back(WordPieceDecoder{});
    add_tokens();
    auto cls = special_id("cls_token_id", special_id("bos_token_id", 101)), sep = special_id("seperator_token_id", 102);
    spec_.bos = cls;
    add_template(flag("add_bos_token", true), flag("add_sep_token", true) || flag("add_eos_token", false), cls, sep,
                 true);
  }

  void read_ends() {
    auto add = [&](std::optional<int32_t> id) {
      if (id && std::find(spec_.eos.begin(), spec_.eos.end(), *id) == spec_.eos.end()) spec_.eos.push_back(*id);
    };
    add(special_id("eos_token_id", std::nullopt));
    add(special_id("eot_token_id", std::nullopt));
    add(special_id("eom_token_id", std::nullopt));
    for (size_t i = 0; i < tokens_.size(); ++i)
      if (types_[i] == PieceType::control &&
          std::find(std::begin(kEndTokens), std::end(kEndTokens), tokens_[i]) != std::end(kEndTokens))
        add(static_cast<int32_t>(i));
  }

  void read_templates() {
    constexpr std::string_view kPrefix = "tokenizer.chat_template";
    for (const formats::GgufKey& k : gguf_.keys()) {
      if (!k.name.starts_with(kPrefix)) continue;
      auto source = k.value.string();
      if (!source) continue;
      std::string_view name = k.name.substr(kPrefix.size());
      if (name.empty())
        spec_.chat_templates.emplace_back("default", *source);
      else if (name.size() > 1 && name[0] == '.')
        spec_.chat_templates.emplace_back(name.substr(1), *source);
    }
  }

  const Gguf& gguf_;
  std::string source_;
  TokenizerSpec spec_;
  std::vector<std::string_view> tokens_;
  std::vector<std::unique_ptr<std::string>> repaired_;
  std::vector<PieceType> types_;
  bool escaped_spaces_ = false;  // user-defined tokens are written with spaces, the model's own have U+2581
};

}  // namespace

TokenizerSpec read_tokenizer_gguf(const std::filesystem::path& file) {
  formats::Checkpoint checkpoint = formats::Checkpoint::open(file);
  if (!checkpoint.gguf()) fail(ErrorCode::invalid_file, "{}: not a GGUF file", file.string());
  return Reader(*checkpoint.gguf(), file.string()).read();
}

}  // namespace tenon::text
