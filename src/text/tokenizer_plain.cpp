// Vocabularies from before tokenizer.json: vocab.json with merges.txt (byte-level BPE), vocab.txt (WordPiece). The
// stages are those of the class that tokenizer_config.json names (reference: transformers, convert_slow_tokenizer.py).
#include <simdjson.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "text/bpe.h"
#include "text/json_fields.h"
#include "text/spec.h"
#include "text/unicode.h"
#include "text/wordpiece.h"

namespace tenon::text {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxBytes = 256 << 20;

Json companion(const fs::path& file, const char* name) {
  fs::path path = file.parent_path() / name;
  Json json = fs::exists(path) ? read_json(path) : Json::object();
  return json.is_object() ? json : Json::object();
}

std::string checked_text(const fs::path& file) {
  std::string text = read_file(file, kMaxBytes);
  if (!simdjson::validate_utf8(text)) fail(ErrorCode::invalid_file, "{}: not valid UTF-8", file.string());
  return text;
}

template <class F>
void each_line(std::string_view text, F&& f) {
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    f(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

void add_token(TokenizerSpec& spec, std::string content, int32_t id, bool special) {
  for (const AddedToken& t : spec.added)
    if (t.content == content) return;
  AddedToken t;
  t.content = std::move(content);
  t.id = id;
  t.special = special;
  spec.added.push_back(std::move(t));
}

// added_tokens_decoder of tokenizer_config.json, added_tokens.json, and the special tokens that the configuration
// names.
void add_tokens(const fs::path& file, const Json& config, TokenizerSpec& spec) {
  if (auto it = config.find("added_tokens_decoder"); it != config.end() && it->is_object())
    for (const auto& [key, entry] : it->items()) {
      Fields f(entry, spec.source, "added_tokens_decoder");
      if (key.empty() || key.size() > 7 || key.find_first_not_of("0123456789") != key.npos) f.bad(key, "is not an id");
      add_token(spec, f.string("content"), std::stoi(key), f.flag_or("special", false));
      AddedToken& t = spec.added.back();
      t.lstrip = f.flag_or("lstrip", false);
      t.rstrip = f.flag_or("rstrip", false);
      t.single_word = f.flag_or("single_word", false);
      t.normalized = f.flag_or("normalized", false);
    }
  Json more = companion(file, "added_tokens.json");
  for (const auto& [content, id] : more.items())
    if (id.is_number_integer() && id.get<int64_t>() >= 0 && id.get<int64_t>() < Vocabulary::kMaxTokens &&
        !content.empty())
      add_token(spec, content, static_cast<int32_t>(id.get<int64_t>()), false);
  for (const Json& c : {companion(file, "special_tokens_map.json"), config})
    for (const char* key :
         {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
      auto it = c.find(key);
      if (it == c.end()) continue;
      const Json& text = it->is_object() && it->contains("content") ? (*it)["content"] : *it;
      if (!text.is_string()) continue;
      if (int32_t id = spec.vocabulary->find_spelled(text.get<std::string>()); id >= 0)
        add_token(spec, text.get<std::string>(), id, true);
    }
}

Vocabulary read_vocab_json(const fs::path& file) {
  Json json = read_json(file, kMaxBytes);
  if (!json.is_object()) fail(ErrorCode::invalid_file, "{}: not an object of tokens and ids", file.string());
  std::string source = file.string();
  VocabularyBuilder builder(Spelling::byte_level, source);
  for (const auto& [token, id] : json.items()) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= Vocabulary::kMaxTokens)
      fail(ErrorCode::invalid_file, "{}: the id of {} is out of range", source, printable(token));
    builder.add(static_cast<uint32_t>(id.get<int64_t>()), token);
  }
  return builder.finish();
}

MergeTable read_merges_txt(const fs::path& file, const Vocabulary& vocabulary) {
  std::string text = checked_text(file), source = file.string();
  MergeTable table;
  table.reserve(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 1);
  MergeReader reader(vocabulary, "", source);
  uint32_t rank = 0;
  each_line(text, [&](std::string_view line) {
    if (!line.empty() && !line.starts_with("#version")) reader.add_line(table, line, rank++);
  });
  return table;
}

void add_round(TokenizerSpec& spec, std::string_view cls, std::string_view sep, bool roberta) {
  int32_t a = spec.vocabulary->find_spelled(cls), b = spec.vocabulary->find_spelled(sep);
  if (a < 0 || b < 0) return;
  if (roberta)
    spec.post_processors.emplace_back(RobertaRule{a, b});
  else
    spec.post_processors.emplace_back(ClsSepRule{a, b});
}

}  // namespace

TokenizerSpec read_tokenizer_vocab_json(const fs::path& file) {
  TokenizerSpec spec;
  spec.source = file.string();
  Json config = companion(file, "tokenizer_config.json");
  std::string klass = config.value("tokenizer_class", "GPT2Tokenizer");
  fs::path merges = file.parent_path() / "merges.txt";
  if (!fs::exists(merges)) fail(ErrorCode::not_found, "{}: merges.txt is missing beside it", spec.source);
  spec.vocabulary = std::make_shared<const Vocabulary>(read_vocab_json(file));
  spec.model = std::make_unique<Bpe>(BpeOptions{}, spec.vocabulary, read_merges_txt(merges, *spec.vocabulary));
  spec.decoders.emplace_back(ByteLevelDecoder{});
  if (klass.starts_with("Qwen2")) {
    spec.normalizers.emplace_back(NormalForm::nfc);
    spec.splitters.emplace_back(SplitRule{Pattern::regex(
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        RegexDialect::oniguruma, spec.source)});
    spec.splitters.emplace_back(ByteLevelRule{false, false});
  } else {
    spec.splitters.emplace_back(ByteLevelRule{config.value("add_prefix_space", false), true});
  }
  for (const char* name : {"Roberta", "Bart", "Longformer", "LED", "Deberta"})
    if (klass.starts_with(name)) {
      const bool brackets = klass.starts_with("Deberta");
      add_round(spec, brackets ? "[CLS]" : "<s>", brackets ? "[SEP]" : "</s>", !brackets);
    }
  add_tokens(file, config, spec);
  return spec;
}

TokenizerSpec read_tokenizer_vocab_txt(const fs::path& file) {
  TokenizerSpec spec;
  spec.source = file.string();
  Json config = companion(file, "tokenizer_config.json");
  VocabularyBuilder builder(Spelling::plain, spec.source);
  uint32_t id = 0;
  each_line(checked_text(file), [&](std::string_view line) { builder.add(id++, line); });
  spec.vocabulary = std::make_shared<const Vocabulary>(builder.finish());
  WordPieceOptions options;
  options.unk_token = config.contains("unk_token") && config["unk_token"].is_string()
                          ? config["unk_token"].get<std::string>()
                          : "[UNK]";
  spec.model = std::make_unique<WordPiece>(options, spec.vocabulary);
  Fields f(config, spec.source, "tokenizer_config.json");
  BertRule bert;
  bert.lowercase = f.flag_or("do_lower_case", true);
  bert.chinese = f.flag_or("tokenize_chinese_chars", true);
  if (f.has("strip_accents")) bert.strip_accents = f.flag_or("strip_accents", true);
  spec.normalizers.emplace_back(bert);
  spec.splitters.emplace_back(BertSplitRule{});
  spec.decoders.emplace_back(WordPieceDecoder{});
  add_round(spec, "[CLS]", "[SEP]", false);
  for (const char* token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
    if (int32_t known = spec.vocabulary->find_spelled(token); known >= 0) add_token(spec, token, known, true);
  add_tokens(file, config, spec);
  return spec;
}

}  // namespace tenon::text
