// tokenizer.json (huggingface/tokenizers). The vocabulary and the merges go straight from the parser's tokens into
// their tables; only the small rest becomes a JSON value.
#include <simdjson.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "text/bpe.h"
#include "text/components.h"
#include "text/json_fields.h"
#include "text/spec.h"
#include "text/unigram.h"
#include "text/wordlevel.h"
#include "text/wordpiece.h"

namespace tenon::text {
namespace {

namespace ondemand = simdjson::ondemand;

constexpr uint64_t kMaxFileBytes = 1 << 30;
constexpr int kMaxDepth = 200;

class Reader {
 public:
  Reader(std::string_view json, std::string_view source) : source_(source), padded_(json) {}

  TokenizerSpec read() {
    try {
      return read_document();
    } catch (const simdjson::simdjson_error& e) {
      fail(ErrorCode::invalid_file, "{}: not a valid tokenizer.json: {}", source_, e.what());
    }
  }

 private:
  TokenizerSpec read_document() {
    document_ = parser_.iterate(padded_);
    collect();
    TokenizerSpec spec;
    spec.source = source_;
    spec.normalizers = parse_normalizers(part("normalizer"), source_);
    spec.splitters = parse_splitters(part("pre_tokenizer"), source_);
    spec.post_processors = parse_post_processors(part("post_processor"), source_);
    spec.decoders = parse_decoders(part("decoder"), source_);
    spec.truncation = parse_truncation(part("truncation"), source_);
    spec.padding = parse_padding(part("padding"), source_);
    read_model(spec);
    read_added(spec);
    return spec;
  }

  // Everything but the model's large fields, as JSON values.
  void collect() {
    ondemand::object root = document_.get_object();
    for (auto field : root) {
      std::string key(std::string_view(field.unescaped_key()));
      ondemand::value value = field.value();
      if (key == "model")
        collect_model(value.get_object());
      else if (key != "version")
        rest_[key] = parse(simdjson::to_json_string(value));
    }
    if (model_.is_null()) fail(ErrorCode::invalid_file, "{}: \"model\" is missing", source_);
  }

  void collect_model(ondemand::object model) {
    model_ = Json::object();
    for (auto field : model) {
      std::string key(std::string_view(field.unescaped_key()));
      ondemand::value value = field.value();
      if (key == "vocab") {
        vocab_is_list_ = value.type() == ondemand::json_type::array;
        has_vocab_ = true;
      } else if (key == "merges") {
        has_merges_ = true;
      } else {
        model_[key] = parse(simdjson::to_json_string(value));
      }
    }
  }

  Json parse(std::string_view text) const { return parse_json(text, source_, kMaxDepth); }

  const Json& part(const char* key) const {
    static const Json kNull;
    auto it = rest_.find(key);
    return it == rest_.end() ? kNull : *it;
  }

  // The model's large field, read anew from the start of the document.
  ondemand::value large(const char* key) {
    document_.rewind();
    ondemand::object root = document_.get_object();
    ondemand::object model = root.find_field_unordered("model").get_object();
    return model.find_field_unordered(key);
  }

  void read_model(TokenizerSpec& spec) {
    Fields f(model_, source_, "model");
    std::string type = f.string_or("type", "");
    if (!has_vocab_) f.bad("vocab", "is missing");
    if (type.empty()) type = guess_type(f);
    spec.vocabulary = read_vocabulary(spec, type);
    if (type == "BPE")
      spec.model = std::make_unique<Bpe>(bpe_options(f), spec.vocabulary, read_merges(f, *spec.vocabulary));
    else if (type == "Unigram")
      spec.model = make_unigram(f, spec);
    else if (type == "WordPiece")
      spec.model = make_wordpiece(f, spec);
    else if (type == "WordLevel")
      spec.model = std::make_unique<WordLevel>(spec.vocabulary, f.string_or("unk_token", ""));
    else
      f.unsupported("type", type);
  }

  // Old files do not name the model.
  std::string guess_type(const Fields& f) const {
    if (vocab_is_list_) return "Unigram";
    if (has_merges_) return "BPE";
    return f.has("continuing_subword_prefix") || f.has("max_input_chars_per_word") ? "WordPiece" : "WordLevel";
  }

  // An array of exactly two values; those of a shorter one must not be asked for.
  template <class First, class Second>
  void read_pair(ondemand::array pair, const First& first, const Second& second) {
    int n = 0;
    for (ondemand::value v : pair) {
      if (n == 0) first(v);
      if (n == 1) second(v);
      ++n;
    }
    if (n != 2)
      fail(ErrorCode::invalid_file, "{}: model: a pair of the vocabulary or the merges has {} values", source_, n);
  }

  static bool takes_bytes(const TokenizerSpec& spec) {
    bool splits = std::any_of(spec.splitters.begin(), spec.splitters.end(),
                              [](const Splitter& s) { return std::holds_alternative<ByteLevelRule>(s); });
    bool normalizes = std::any_of(spec.normalizers.begin(), spec.normalizers.end(),
                                  [](const Normalizer& n) { return std::holds_alternative<ByteAlphabetRule>(n); });
    return splits && !normalizes;
  }

  std::shared_ptr<const Vocabulary> read_vocabulary(const TokenizerSpec& spec, const std::string& type) {
    VocabularyBuilder builder(type == "BPE" && takes_bytes(spec) ? Spelling::byte_level : Spelling::plain, source_);
    if (vocab_is_list_) {
      uint32_t id = 0;
      for (ondemand::value entry : large("vocab").get_array()) {
        read_pair(
            entry.get_array(), [&](ondemand::value token) { builder.add(id++, std::string_view(token.get_string())); },
            [&](ondemand::value score) { scores_.push_back(double(score.get_double())); });
      }
    } else {
      for (auto field : large("vocab").get_object()) {
        std::string_view token = field.unescaped_key();
        uint64_t id = field.value().get_uint64();
        if (id >= Vocabulary::kMaxTokens)
          fail(ErrorCode::invalid_file, "{}: model.vocab: id {} is too large", source_, id);
        builder.add(static_cast<uint32_t>(id), token);
      }
    }
    return std::make_shared<const Vocabulary>(builder.finish());
  }

  BpeOptions bpe_options(const Fields& f) const {
    if (model_.contains("dropout") && model_["dropout"].is_number() && model_["dropout"].get<double>() != 0)
      fail(ErrorCode::unsupported, "{}: model.dropout makes encoding random", source_);
    BpeOptions o;
    o.has_unk = f.has("unk_token");
    o.unk_token = f.string_or("unk_token", "");
    o.continuing_prefix = f.string_or("continuing_subword_prefix", "");
    o.end_suffix = f.string_or("end_of_word_suffix", "");
    o.fuse_unk = f.flag_or("fuse_unk", false);
    o.byte_fallback = f.flag_or("byte_fallback", false);
    o.ignore_merges = f.flag_or("ignore_merges", false);
    return o;
  }

  MergeTable read_merges(const Fields& f, const Vocabulary& vocabulary) {
    MergeTable table;
    if (!has_merges_) f.bad("merges", "is missing");
    MergeReader reader(vocabulary, f.string_or("continuing_subword_prefix", ""), source_);
    ondemand::array merges = large("merges").get_array();
    table.reserve(merges.count_elements());
    uint32_t rank = 0;
    for (ondemand::value entry : merges) {
      if (entry.type() == ondemand::json_type::array) {
        read_pair(
            entry.get_array(), [&](ondemand::value left) { left_ = std::string_view(left.get_string()); },
            [&](ondemand::value right) { right_ = std::string_view(right.get_string()); });
        reader.add(table, left_, right_, rank++);
        continue;
      }
      std::string_view both = entry.get_string();
      if (rank == 0 && both.starts_with("#version")) continue;
      reader.add_line(table, both, rank++);
    }
    return table;
  }

  std::unique_ptr<TokenModel> make_unigram(const Fields& f, const TokenizerSpec& spec) {
    UnigramOptions o;
    if (f.has("unk_id")) {
      o.unk_id = static_cast<int32_t>(f.number("unk_id"));
      if (o.unk_id >= spec.vocabulary->size()) f.bad("unk_id", "is outside of the vocabulary");
    }
    o.byte_fallback = f.flag_or("byte_fallback", false);
    return std::make_unique<Unigram>(o, spec.vocabulary, std::move(scores_));
  }

  std::unique_ptr<TokenModel> make_wordpiece(const Fields& f, const TokenizerSpec& spec) {
    WordPieceOptions o;
    o.unk_token = f.string_or("unk_token", "[UNK]");
    o.prefix = f.string_or("continuing_subword_prefix", "##");
    o.max_characters = static_cast<size_t>(f.number_or("max_input_chars_per_word", 100));
    return std::make_unique<WordPiece>(std::move(o), spec.vocabulary);
  }

  // The reference gives a token that is in the vocabulary that id, any other the next free one, whatever the file says.
  void read_added(TokenizerSpec& spec) const {
    const Json& list = part("added_tokens");
    if (list.is_null()) return;
    if (!list.is_array()) fail(ErrorCode::invalid_file, "{}: added_tokens is not a list", source_);
    int32_t next = spec.vocabulary->size();
    for (const Json& entry : list) {
      Fields f(entry, source_, "added_tokens");
      AddedToken t;
      t.content = f.string("content");
      if (t.content.empty()) continue;
      t.special = f.flag_or("special", false);
      t.normalized = f.flag_or("normalized", !t.special);
      t.single_word = f.flag_or("single_word", false);
      t.lstrip = f.flag_or("lstrip", false);
      t.rstrip = f.flag_or("rstrip", false);
      auto same = std::find_if(spec.added.begin(), spec.added.end(),
                               [&](const AddedToken& a) { return a.content == t.content; });
      int32_t known = same != spec.added.end() ? same->id : spec.vocabulary->find_spelled(t.content);
      t.id = known >= 0 ? known : next++;
      if (same != spec.added.end())
        *same = std::move(t);
      else
        spec.added.push_back(std::move(t));
    }
  }

  std::string source_;
  simdjson::padded_string padded_;
  ondemand::parser parser_;
  ondemand::document document_;
  Json rest_ = Json::object(), model_;
  bool has_vocab_ = false, has_merges_ = false, vocab_is_list_ = false;
  std::vector<double> scores_;
  std::string left_, right_;
};

}  // namespace

TokenizerSpec parse_tokenizer_json(std::string_view json, std::string_view source) {
  return Reader(json, source).read();
}

TokenizerSpec read_tokenizer_json(const std::filesystem::path& file) {
  auto map = MappedFile::open(file);
  auto bytes = map->bytes();
  if (bytes.size() > kMaxFileBytes) fail(ErrorCode::invalid_file, "{}: larger than 1 GiB", map->name());
  return parse_tokenizer_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, map->name());
}

}  // namespace tenon::text
