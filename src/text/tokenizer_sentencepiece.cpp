// SentencePiece's tokenizer.model (google/sentencepiece, sentencepiece_model.proto).
#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "text/piece_models.h"
#include "text/spec.h"
#include "text/unicode.h"
#include "text/wire.h"

namespace tenon::text {
namespace {

enum class ModelType { unigram = 1, bpe = 2, word = 3, character = 4 };

struct ModelFile {
  std::vector<std::string> pieces;
  PieceTable table;
  ModelType type = ModelType::unigram;
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true,
       whitespace_as_suffix = false;
  std::string_view charsmap;
  std::string unk_surface = " \xE2\x81\x87 ", bos_piece = "<s>", eos_piece = "</s>";
};

std::string text_of(std::string_view bytes) {
  std::string out;
  append_lossy_utf8(out, bytes);
  return out;
}

void read_piece(std::string_view message, std::string_view source, ModelFile& m) {
  WireReader r(message, source);
  std::string piece;
  float score = 0;
  uint64_t type = 1;
  while (r.next()) {
    if (r.field() == 1)
      piece = text_of(r.bytes());
    else if (r.field() == 2)
      score = r.real();
    else if (r.field() == 3)
      type = r.number();
  }
  if (type < 1 || type > 6)
    fail(ErrorCode::invalid_file, "{}: piece {} has the unknown type {}", source, m.pieces.size(), type);
  m.pieces.push_back(std::move(piece));
  m.table.scores.push_back(score);
  m.table.types.push_back(static_cast<PieceType>(type));
}

void read_trainer(std::string_view message, std::string_view source, ModelFile& m) {
  WireReader r(message, source);
  while (r.next()) switch (r.field()) {
      case 3:
        if (r.number() < 1 || r.number() > 4) fail(ErrorCode::unsupported, "{}: model type {}", source, r.number());
        m.type = static_cast<ModelType>(r.number());
        break;
      case 24:
        m.whitespace_as_suffix = r.flag();
        break;
      case 35:
        m.table.byte_fallback = r.flag();
        break;
      case 44:
        m.unk_surface = text_of(r.bytes());
        break;
      case 46:
        m.bos_piece = text_of(r.bytes());
        break;
      case 47:
        m.eos_piece = text_of(r.bytes());
        break;
      default:
        break;
    }
}

void read_normalizer(std::string_view message, std::string_view source, ModelFile& m) {
  WireReader r(message, source);
  while (r.next()) switch (r.field()) {
      case 2:
        m.charsmap = r.bytes();
        break;
      case 3:
        m.add_dummy_prefix = r.flag();
        break;
      case 4:
        m.remove_extra_whitespaces = r.flag();
        break;
      case 5:
        m.escape_whitespaces = r.flag();
        break;
      default:
        break;
    }
}

ModelFile parse(std::string_view bytes, std::string_view source) {
  ModelFile m;
  WireReader r(bytes, source);
  while (r.next()) {
    if (r.field() == 1)
      read_piece(r.bytes(), source, m);
    else if (r.field() == 2)
      read_trainer(r.bytes(), source, m);
    else if (r.field() == 3)
      read_normalizer(r.bytes(), source, m);
    if (m.pieces.size() > Vocabulary::kMaxTokens) fail(ErrorCode::invalid_file, "{}: too many pieces", source);
  }
  if (m.pieces.empty()) fail(ErrorCode::invalid_file, "{}: no pieces: not a SentencePiece model", source);
  auto unk = std::find(m.table.types.begin(), m.table.types.end(), PieceType::unknown);
  if (unk == m.table.types.end()) fail(ErrorCode::invalid_file, "{}: no unknown piece", source);
  m.table.unk_id = static_cast<int32_t>(unk - m.table.types.begin());
  return m;
}

std::unique_ptr<TokenModel> make_model(ModelFile& m, const std::shared_ptr<const Vocabulary>& vocabulary) {
  switch (m.type) {
    case ModelType::unigram:
      return std::make_unique<PieceUnigram>(std::move(m.table), vocabulary);
    case ModelType::bpe:
      return std::make_unique<ScoreBpe>(std::move(m.table), vocabulary);
    case ModelType::word:
      return std::make_unique<PieceLookup>(std::move(m.table), vocabulary, true);
    case ModelType::character:
      return std::make_unique<PieceLookup>(std::move(m.table), vocabulary, false);
  }
  return nullptr;
}

Normalizer normalizer_of(const ModelFile& m, const Vocabulary& vocabulary, std::string_view source) {
  SentencePieceRule rule;
  if (!m.charsmap.empty()) rule.map = std::make_shared<const Charsmap>(m.charsmap, source);
  rule.kept = std::make_shared<const StringFinder>(m.table.user_defined(vocabulary));
  rule.add_dummy_prefix = m.add_dummy_prefix;
  rule.remove_extra_whitespaces = m.remove_extra_whitespaces;
  rule.escape_whitespaces = m.escape_whitespaces;
  rule.whitespace_as_suffix = m.whitespace_as_suffix;
  return rule;
}

// The special tokens of a model file are BOS, or EOS where it has no BOS.
void add_specials(const ModelFile& m, TokenizerSpec& spec) {
  auto control = [&](const std::string& piece) -> std::optional<int32_t> {
    for (size_t i = 0; i < m.pieces.size(); ++i)
      if (m.pieces[i] == piece && m.table.types[i] == PieceType::control) return static_cast<int32_t>(i);
    return std::nullopt;
  };
  for (size_t i = 0; i < m.pieces.size(); ++i) {
    if (m.table.types[i] != PieceType::control || m.pieces[i].empty()) continue;
    AddedToken t;
    t.content = m.pieces[i];
    t.id = static_cast<int32_t>(i);
    t.special = true;
    spec.added.push_back(std::move(t));
  }
  spec.bos = control(m.bos_piece);
  auto eos = control(m.eos_piece);
  if (eos) spec.eos.push_back(*eos);
  TemplateRule r;
  if (spec.bos) r.single.push_back({TemplatePiece::special, 0, {*spec.bos}});
  r.single.push_back({TemplatePiece::first, 0, {}});
  if (!spec.bos && eos) r.single.push_back({TemplatePiece::special, 0, {*eos}});
  r.pair = r.single;
  r.pair.push_back({TemplatePiece::second, 1, {}});
  spec.post_processors.emplace_back(std::move(r));
}

}  // namespace

TokenizerSpec parse_tokenizer_sentencepiece(std::string_view bytes, std::string_view source) {
  ModelFile m = parse(bytes, source);
  TokenizerSpec spec;
  spec.source = source;
  VocabularyBuilder builder(Spelling::plain, source);
  for (size_t i = 0; i < m.pieces.size(); ++i) builder.add(static_cast<uint32_t>(i), m.pieces[i]);
  spec.vocabulary = std::make_shared<const Vocabulary>(builder.finish());
  spec.normalizers.push_back(normalizer_of(m, *spec.vocabulary, source));
  SentencePieceDecoder decoder;
  decoder.unk_surface = m.unk_surface;
  decoder.strip_first = m.add_dummy_prefix || m.remove_extra_whitespaces;
  decoder.strip_all = m.remove_extra_whitespaces;
  decoder.as_suffix = m.whitespace_as_suffix;
  for (size_t i = 0; i < m.pieces.size(); ++i) {
    if (m.table.types[i] == PieceType::control) decoder.control.push_back(m.pieces[i]);
    if (m.table.types[i] == PieceType::unknown) decoder.unknown = m.pieces[i];
  }
  std::sort(decoder.control.begin(), decoder.control.end());
  spec.decoders.emplace_back(std::move(decoder));
  add_specials(m, spec);
  spec.model = make_model(m, spec.vocabulary);
  return spec;
}

TokenizerSpec read_tokenizer_sentencepiece(const std::filesystem::path& file) {
  auto map = MappedFile::open(file);
  auto bytes = map->bytes();
  return parse_tokenizer_sentencepiece({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, map->name());
}

}  // namespace tenon::text
