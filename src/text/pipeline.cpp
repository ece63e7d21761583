// The pipeline at work: added tokens -> normalizer -> pre-tokenizer -> model -> post-processor, and the decoder.
#include <simdjson.h>

#include <algorithm>

#include "base/error.h"
#include "text/byte_alphabet.h"
#include "text/decode_stream.h"
#include "text/spec.h"
#include "text/unicode.h"

namespace tenon::text {
namespace {

// The byte that "<0x0A>" stands for in vocabularies that fall back to bytes.
std::optional<char> byte_of_token(std::string_view spelled) {
  if (spelled.size() != 6 || !spelled.starts_with("<0x") || spelled[5] != '>') return std::nullopt;
  int value = 0;
  for (char c : spelled.substr(3, 2)) {
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) return std::nullopt;
    value = value * 16 + digit;
  }
  return static_cast<char>(value);
}

constexpr size_t kMaxTextBytes = 1u << 30;  // places in a text are 32 bits wide, and normalizing may treble it

class Pipeline final : public Tokenizer {
 public:
  explicit Pipeline(TokenizerSpec spec);

  Encoding encode(std::string_view text, const EncodeOptions& options,
                  std::optional<std::string_view> pair) const override;
  std::vector<int32_t> encode_prompt(std::string_view text, std::span<const ContentSpan> content,
                                     const EncodeOptions& options) const override;
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const override;
  int32_t vocab_size() const override { return size_; }
  std::string token(int32_t id) const override;
  std::optional<int32_t> id(std::string_view token) const override;
  bool is_special(int32_t id) const override;
  void spell_tokens(FunctionRef<void(int32_t, std::string_view)> each) const override;
  std::optional<int32_t> bos_id() const override { return spec_.bos; }
  const std::vector<int32_t>& eos_ids() const override { return spec_.eos; }
  bool adds_bos() const override;
  size_t memory_bytes() const override;
  const std::vector<std::pair<std::string, std::string>>& chat_templates() const override {
    return spec_.chat_templates;
  }
  std::string kind() const override { return spec_.model->name(); }

 protected:
  std::unique_ptr<TokenStream> stream(bool skip_special_tokens) const override;

 private:
  struct Work {
    std::vector<int32_t>& out;
    ModelScratch& scratch;
    std::string normalized;
    std::vector<Segment> raw, inner;
  };
  std::vector<int32_t> ids_of(std::string_view text, std::span<const ContentSpan> content, bool parse_special) const;
  void encode_stretch(std::string_view text, size_t begin, std::span<const ContentSpan> content, bool parse_special,
                      Work& w) const;
  void encode_plain(std::string_view normalized, bool at_start, Work& w) const;
  std::vector<ContentSpan> content_in(std::string_view raw, size_t begin, std::string_view normalized,
                                      std::span<const ContentSpan> content) const;
  void check_id(int32_t id) const;
  bool in_vocabulary(int32_t id) const {
    return id < spec_.vocabulary->size() && !spec_.vocabulary->bytes_unchecked(static_cast<uint32_t>(id)).empty();
  }
  std::string decode_bytes(std::span<const int32_t> ids, bool skip_special_tokens) const;

  mutable KeptScratch kept_;
  TokenizerSpec spec_;
  AddedTokens added_;
  PreTokenizer pre_tokenizer_;
  Scanner scanner_ = Scanner::none;  // what the pre-tokenizer comes down to
  int32_t size_ = 0;
  bool bytes_only_ = false;       // decoding is putting the tokens' bytes together
  std::vector<uint8_t> special_;  // a bit per id
};

Pipeline::Pipeline(TokenizerSpec spec) : spec_(std::move(spec)), added_(std::move(spec_.added)) {
  std::vector<std::string> contents;
  for (const AddedToken& t : added_.tokens()) {
    std::string buffer;
    contents.emplace_back(t.normalized ? normalize(spec_.normalizers, t.content, buffer) : std::string_view());
    size_ = std::max(size_, t.id + 1);
  }
  added_.build(contents);
  size_ = std::max(size_, spec_.vocabulary->size());
  special_.assign(static_cast<size_t>(size_) / 8 + 1, 0);
  for (const AddedToken& t : added_.tokens())
    if (t.special) special_[static_cast<size_t>(t.id) / 8] |= static_cast<uint8_t>(1 << (t.id % 8));
  const bool byte_level = spec_.vocabulary->spelling() == Spelling::byte_level;
  pre_tokenizer_ = PreTokenizer(std::move(spec_.splitters), byte_level);
  scanner_ = pre_tokenizer_.scanner();
  bytes_only_ = byte_level && spec_.decoders.size() == 1 && std::holds_alternative<ByteLevelDecoder>(spec_.decoders[0]);
}

Encoding Pipeline::encode(std::string_view text, const EncodeOptions& options,
                          std::optional<std::string_view> pair) const {
  Encoding first{ids_of(text, {}, options.parse_special), {}};
  first.type_ids.assign(first.ids.size(), 0);
  std::optional<Encoding> second;
  if (pair) {
    second = Encoding{ids_of(*pair, {}, options.parse_special), {}};
    second->type_ids.assign(second->ids.size(), 1);
  }
  if (options.as_configured && spec_.truncation) {
    size_t most = spec_.truncation->max_length;
    size_t extra = options.add_special_tokens ? added_count(spec_.post_processors, pair.has_value()) : 0;
    if (extra > most)
      fail(ErrorCode::invalid_argument, "truncation to {} tokens leaves no room for {} special tokens", most, extra);
    truncate(*spec_.truncation, most - extra, first, second ? &*second : nullptr);
  }
  Encoding e = post_process(spec_.post_processors, std::move(first), std::move(second), options.add_special_tokens);
  if (options.as_configured && spec_.padding) pad(*spec_.padding, e);
  return e;
}

std::vector<int32_t> Pipeline::encode_prompt(std::string_view text, std::span<const ContentSpan> content,
                                             const EncodeOptions& options) const {
  Encoding e{ids_of(text, content, options.parse_special), {}};
  e.type_ids.assign(e.ids.size(), 0);
  return post_process(spec_.post_processors, std::move(e), std::nullopt, options.add_special_tokens).ids;
}

std::vector<int32_t> Pipeline::ids_of(std::string_view text, std::span<const ContentSpan> content,
                                      bool parse_special) const {
  if (text.size() >= kMaxTextBytes)
    fail(ErrorCode::invalid_argument, "a text of {} bytes is longer than a tokenizer takes ({})", text.size(),
         kMaxTextBytes);
  std::string repaired;
  if (!simdjson::validate_utf8(text.data(), text.size())) {
    append_lossy_utf8(repaired, text);
    if (!content.empty()) fail(ErrorCode::invalid_argument, "a prompt with spans of content must be valid UTF-8");
    text = repaired;
  }
  std::vector<int32_t> out;
  out.reserve(text.size() / 3 + 8);
  KeptScratch::Lease lease(kept_);
  Work w{out, *lease, {}, {}, {}};
  w.scratch.cache.expect_text(text.size());
  added_.cut(text, false, parse_special, content, w.raw);
  for (const Segment& s : w.raw) {
    if (s.token >= 0)
      out.push_back(added_.tokens()[static_cast<size_t>(s.token)].id);
    else
      encode_stretch(text.substr(s.begin, s.end - s.begin), s.begin, content, parse_special, w);
  }
  return out;
}

// `begin`: where the stretch lies in the whole text.
void Pipeline::encode_stretch(std::string_view raw, size_t begin, std::span<const ContentSpan> content,
                              bool parse_special, Work& w) const {
  std::string_view text = normalize(spec_.normalizers, raw, w.normalized);
  if (!added_.has_normalized()) return encode_plain(text, begin == 0, w);
  w.inner.clear();
  added_.cut(text, true, parse_special,
             content.empty() ? std::vector<ContentSpan>() : content_in(raw, begin, text, content), w.inner);
  for (const Segment& s : w.inner) {
    if (s.token >= 0)
      w.out.push_back(added_.tokens()[static_cast<size_t>(s.token)].id);
    else
      encode_plain(text.substr(s.begin, s.end - s.begin), begin == 0 && s.begin == 0, w);
  }
}

// The spans of content as places of the normalized stretch: what the text before a place becomes is as long as the
// place.
std::vector<ContentSpan> Pipeline::content_in(std::string_view raw, size_t begin, std::string_view normalized,
                                              std::span<const ContentSpan> content) const {
  std::vector<ContentSpan> out;
  auto place = [&](size_t at) {
    at = std::clamp(at, begin, begin + raw.size()) - begin;
    if (raw.data() == normalized.data() || at == 0) return at;
    std::string buffer;
    return std::min(normalize(spec_.normalizers, raw.substr(0, at), buffer).size(), normalized.size());
  };
  for (const ContentSpan& s : content)
    if (s.end > begin && s.begin < begin + raw.size()) out.push_back({place(s.begin), place(s.end)});
  return out;
}

void Pipeline::encode_plain(std::string_view text, bool at_start, Work& w) const {
  if (scanner_ != Scanner::none) {
    uint32_t lengths[TokenModel::kMostPieces];
    while (!text.empty()) {
      std::string_view from = text;
      size_t n = scan_some(scanner_, text, lengths);
      spec_.model->encode_pieces(from, {lengths, n}, w.out, w.scratch);
    }
    return;
  }
  pre_tokenizer_.run(text, at_start, [&](std::string_view piece) { spec_.model->encode(piece, w.out, w.scratch); });
}

void Pipeline::check_id(int32_t id) const {
  if (id < 0 || id >= size_)
    fail(ErrorCode::invalid_argument, "token id {} is outside the vocabulary of {}", id, size_);
}

bool Pipeline::is_special(int32_t id) const {
  return id >= 0 && id < size_ && (special_[static_cast<size_t>(id) / 8] >> (id % 8) & 1);
}

// A token's bytes are what decoding appends for it between two letters.
void Pipeline::spell_tokens(FunctionRef<void(int32_t, std::string_view)> each) const {
  const bool byte_tokens = std::any_of(spec_.decoders.begin(), spec_.decoders.end(), [](const Decoder& d) {
    return std::holds_alternative<ByteFallbackDecoder>(d) || std::holds_alternative<PieceDecoder>(d) ||
           std::holds_alternative<SentencePieceDecoder>(d);
  });
  DecoderRun run(spec_.decoders);
  std::string out;
  run.push("a", out);
  for (int32_t id = 0; id < size_; ++id) {
    const AddedToken* added = added_.by_id(id);
    if (bytes_only_) {
      out.clear();
      if (!added)
        out = in_vocabulary(id) ? std::string(spec_.vocabulary->bytes(id)) : std::string();
      else if (!append_bytes_of_spelling(out, added->shown))
        out = added->shown;
      each(id, out);
      continue;
    }
    std::string spelled = token(id);
    if (auto byte = byte_tokens ? byte_of_token(spelled) : std::nullopt) {
      each(id, std::string_view(&*byte, 1));
      continue;
    }
    out.clear();
    if (!spelled.empty()) run.push(spelled, out);
    run.push("a", out);
    if (out.ends_with('a')) out.pop_back();
    each(id, out);
  }
}

std::string Pipeline::token(int32_t id) const {
  if (const AddedToken* t = added_.by_id(id)) return t->shown;
  return spec_.vocabulary->spelled(id);
}

std::optional<int32_t> Pipeline::id(std::string_view token) const {
  if (const AddedToken* t = added_.by_content(token)) return t->id;
  int32_t id = spec_.vocabulary->find_spelled(token);
  return id < 0 ? std::nullopt : std::optional(id);
}

std::string Pipeline::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  for (int32_t id : ids) check_id(id);
  if (bytes_only_) return decode_bytes(ids, skip_special_tokens);
  DecoderRun run(spec_.decoders);
  std::string out;
  for (int32_t id : ids) {
    if (skip_special_tokens && is_special(id)) {
      run.skip();
      continue;
    }
    std::string t = token(id);
    if (!t.empty()) run.push(t, out);
  }
  run.finish(out);
  return out;
}

std::string Pipeline::decode_bytes(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::string bytes;
  // Runs of ordinary ids at once; what is skipped or added lies between them.
  auto run = [&](size_t begin, size_t end) { spec_.vocabulary->append_bytes(ids.subspan(begin, end - begin), bytes); };
  size_t begin = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool skipped = skip_special_tokens && is_special(ids[i]);
    if (!skipped && in_vocabulary(ids[i])) continue;
    run(begin, i);
    begin = i + 1;
    if (const AddedToken* t = added_.by_id(ids[i]); t && !skipped && !append_bytes_of_spelling(bytes, t->shown))
      bytes += t->shown;
  }
  run(begin, ids.size());
  if (simdjson::validate_utf8(bytes)) return bytes;
  std::string out;
  append_lossy_utf8(out, bytes);
  return out;
}

bool Pipeline::adds_bos() const {
  Encoding e = post_process(spec_.post_processors, {}, std::nullopt, true);
  return spec_.bos && !e.ids.empty() && e.ids.front() == *spec_.bos;
}

size_t Pipeline::memory_bytes() const {
  size_t n = sizeof(*this) + spec_.vocabulary->memory_bytes() + spec_.model->memory_bytes() + added_.memory_bytes() +
             special_.capacity();
  for (const auto& [name, source] : spec_.chat_templates) n += name.capacity() + source.capacity();
  for (const Normalizer& step : spec_.normalizers)
    if (const auto* c = std::get_if<CharsmapRule>(&step)) n += c->map->memory_bytes();
  return n;
}

class PipelineStream final : public TokenStream {
 public:
  PipelineStream(const Pipeline& tokenizer, const std::vector<Decoder>& steps, bool skip_special_tokens)
      : tokenizer_(tokenizer), run_(steps), skip_special_tokens_(skip_special_tokens) {}
  std::string push(int32_t id) override {
    if (id < 0 || id >= tokenizer_.vocab_size())
      fail(ErrorCode::invalid_argument, "token id {} is outside the vocabulary of {}", id, tokenizer_.vocab_size());
    std::string out;
    if (skip_special_tokens_ && tokenizer_.is_special(id)) {
      run_.skip();
      return out;
    }
    std::string t = tokenizer_.token(id);
    if (!t.empty()) run_.push(t, out);
    return out;
  }
  std::string finish() override {
    std::string out;
    run_.finish(out);
    return out;
  }

 private:
  const Pipeline& tokenizer_;
  DecoderRun run_;
  bool skip_special_tokens_;
};

std::unique_ptr<TokenStream> Pipeline::stream(bool skip_special_tokens) const {
  return std::make_unique<PipelineStream>(*this, spec_.decoders, skip_special_tokens);
}

}  // namespace

std::shared_ptr<const Tokenizer> make_tokenizer(TokenizerSpec spec) {
  return std::make_shared<const Pipeline>(std::move(spec));
}

}  // namespace tenon::text
