// tiktoken files (base64 of a token's bytes and its rank on each line, with encoding.json beside them) and tekken.json.
#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "text/base64.h"
#include "text/json_fields.h"
#include "text/rank_bpe.h"
#include "text/spec.h"

namespace tenon::text {
namespace {

namespace fs = std::filesystem;

void set_stages(TokenizerSpec& spec, std::string_view pattern, Vocabulary vocabulary) {
  spec.vocabulary = std::make_shared<const Vocabulary>(std::move(vocabulary));
  spec.model = make_rank_bpe(spec.vocabulary);
  spec.splitters.emplace_back(SplitRule{Pattern::regex(pattern, RegexDialect::fancy, spec.source)});
  spec.splitters.emplace_back(ByteLevelRule{false, false});
  spec.decoders.emplace_back(ByteLevelDecoder{});
}

void add_special(TokenizerSpec& spec, std::string content, int64_t id) {
  if (id < 0 || id >= Vocabulary::kMaxTokens)
    fail(ErrorCode::invalid_file, "{}: special token {} has the id {}", spec.source, printable(content), id);
  AddedToken t;
  t.content = std::move(content);
  t.id = static_cast<int32_t>(id);
  t.special = true;
  spec.added.push_back(std::move(t));
}

void add_bos(TokenizerSpec& spec, std::string_view name) {
  for (const AddedToken& t : spec.added)
    if (t.content == name) spec.bos = t.id;
  if (!spec.bos) return;
  TemplateRule r;
  r.single = {{TemplatePiece::special, 0, {*spec.bos}}, {TemplatePiece::first, 0, {}}};
  r.pair = r.single;
  r.pair.push_back({TemplatePiece::second, 1, {}});
  spec.post_processors.emplace_back(std::move(r));
}

void add_eos(TokenizerSpec& spec, std::initializer_list<std::string_view> names) {
  for (const AddedToken& t : spec.added)
    if (std::find(names.begin(), names.end(), t.content) != names.end()) spec.eos.push_back(t.id);
}

Vocabulary read_ranks(std::string_view text, const std::string& source) {
  VocabularyBuilder builder(Spelling::byte_level, source);
  size_t number = 0;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    size_t space = line.find(' ');
    auto bytes = space == line.npos ? std::nullopt : decode_base64(line.substr(0, space));
    std::string_view digits = space == line.npos ? "" : line.substr(space + 1);
    uint64_t rank = 0;
    bool good = bytes && !digits.empty() && digits.size() < 10;
    for (char c : digits) {
      good = good && c >= '0' && c <= '9';
      rank = rank * 10 + static_cast<uint64_t>(c - '0');
    }
    if (!good) fail(ErrorCode::invalid_file, "{}: line {} is not a base64 string and a rank", source, number);
    if (rank >= Vocabulary::kMaxTokens)
      fail(ErrorCode::invalid_file, "{}: line {}: rank {} is too large", source, number, rank);
    builder.add_bytes(static_cast<uint32_t>(rank), *bytes);  // Whisper's file has a rank without bytes: a hole
  }
  return builder.finish();
}

// tekken.json files without a list of special tokens mean these, then <SPECIAL_20> and so on (mistral-common,
// tekken.py).
constexpr std::string_view kTekkenSpecials[] = {"<unk>",
                                                "<s>",
                                                "</s>",
                                                "[INST]",
                                                "[/INST]",
                                                "[AVAILABLE_TOOLS]",
                                                "[/AVAILABLE_TOOLS]",
                                                "[TOOL_RESULTS]",
                                                "[/TOOL_RESULTS]",
                                                "[TOOL_CALLS]",
                                                "[IMG]",
                                                "<pad>",
                                                "[IMG_BREAK]",
                                                "[IMG_END]",
                                                "[PREFIX]",
                                                "[MIDDLE]",
                                                "[SUFFIX]",
                                                "[SYSTEM_PROMPT]",
                                                "[/SYSTEM_PROMPT]",
                                                "[TOOL_CONTENT]"};

void add_tekken_specials(const Json& root, int64_t count, TokenizerSpec& spec) {
  std::vector<std::string> names(static_cast<size_t>(count));
  for (size_t i = 0; i < names.size(); ++i) names[i] = fmt::format("<SPECIAL_{}>", i);
  auto list = root.find("special_tokens");
  if (list == root.end() || list->is_null()) {
    for (size_t i = 0; i < std::min(std::size(kTekkenSpecials), names.size()); ++i) names[i] = kTekkenSpecials[i];
  } else {
    for (const Json& entry : *list) {
      Fields f(entry, spec.source, "special_tokens");
      int64_t rank = f.number("rank");
      if (rank >= count) f.bad("rank", "is not below default_num_special_tokens");
      names[static_cast<size_t>(rank)] = f.string("token_str");
    }
  }
  for (size_t i = 0; i < names.size(); ++i) add_special(spec, std::move(names[i]), static_cast<int64_t>(i));
}

}  // namespace

TokenizerSpec read_tokenizer_tiktoken(const fs::path& file) {
  fs::path description = file.parent_path() / "encoding.json";
  if (!fs::exists(description))
    fail(ErrorCode::not_found, "{}: encoding.json with the split pattern and special tokens is missing beside it",
         file.string());
  TokenizerSpec spec;
  spec.source = file.string();
  Json root = read_json(description);
  std::string source = description.string();
  Fields f(root, source, "encoding");
  if (f.has("special_tokens"))
    for (const auto& [content, id] : f.get("special_tokens").items()) {
      if (!id.is_number_integer()) f.bad("special_tokens", "has an id that is not a number");
      add_special(spec, content, id.get<int64_t>());
    }
  set_stages(spec, f.string("pat_str"), read_ranks(read_file(file), spec.source));
  add_eos(spec, {"<|endoftext|>", "<|eot_id|>", "<|im_end|>"});
  return spec;
}

TokenizerSpec read_tokenizer_tekken(const fs::path& file) {
  return parse_tokenizer_tekken(read_file(file, 256 << 20), file.string());
}

TokenizerSpec parse_tokenizer_tekken(std::string_view json, std::string_view source) {
  TokenizerSpec spec;
  spec.source = source;
  Json root = parse_json(json, source);
  Fields top(root, spec.source, "tekken");
  Fields config(top.get("config"), spec.source, "config");
  int64_t specials = config.number_or("default_num_special_tokens", 1000), size = config.number("default_vocab_size");
  constexpr int64_t kMostSpecials = 1 << 20;
  if (specials > kMostSpecials || specials > size) config.bad("default_num_special_tokens", "is too large");
  add_tekken_specials(root, specials, spec);
  VocabularyBuilder builder(Spelling::byte_level, spec.source);
  for (const Json& entry : top.get("vocab")) {
    Fields f(entry, spec.source, "vocab");
    int64_t rank = f.number("rank");
    if (rank >= size - specials) continue;  // the file holds more than the model uses
    auto bytes = decode_base64(f.string("token_bytes"));
    if (!bytes || bytes->empty()) f.bad("token_bytes", "is not base64");
    if (rank + specials >= Vocabulary::kMaxTokens) f.bad("rank", "is too large");
    builder.add_bytes(static_cast<uint32_t>(rank + specials), *bytes);
  }
  set_stages(spec, config.string("pattern"), builder.finish());
  add_bos(spec, "<s>");
  add_eos(spec, {"</s>"});
  return spec;
}

}  // namespace tenon::text
