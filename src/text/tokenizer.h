// Text <-> token ids, exactly as the model's own tokenizer: normalizer -> pre-tokenizer -> model -> post-processor ->
// decoder.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"

namespace tenon::formats {
class Gguf;
}

namespace tenon::text {

struct EncodeOptions {
  bool add_special_tokens = false;  // BOS/EOS/CLS ... by the tokenizer's own rule
  bool parse_special = true;        // special tokens written in the text become their ids
  bool as_configured = false;       // apply the file's own truncation and padding
};

struct Encoding {
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;
};

// Bytes [begin, end) of a text that came from a user, not from a template: no special token may touch them.
struct ContentSpan {
  size_t begin, end;
};

class DecodeStream;

// Decoding of one sequence under way; what DecodeStream runs.
class TokenStream {
 public:
  virtual ~TokenStream() = default;
  virtual std::string push(int32_t id) = 0;
  virtual std::string finish() = 0;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // A tokenizer.json, *.gguf, a directory holding one of them (further formats: the table in text/load.cpp).
  // Throws Error naming file and field. tokenizer_config.json and friends beside the file are read too.
  static std::shared_ptr<const Tokenizer> load(const std::filesystem::path& path);

  // Thread-safe. Text is any bytes; invalid UTF-8 is replaced by U+FFFD first, as the references do.
  virtual Encoding encode(std::string_view text, const EncodeOptions& options = {},
                          std::optional<std::string_view> pair = std::nullopt) const = 0;
  // A rendered prompt: tokenised as one string, special tokens not recognised where they touch `content`.
  virtual std::vector<int32_t> encode_prompt(std::string_view text, std::span<const ContentSpan> content,
                                             const EncodeOptions& options = {}) const = 0;

  // Always valid UTF-8. Ids out of range throw Error{invalid_argument}.
  virtual std::string decode(std::span<const int32_t> ids, bool skip_special_tokens = false) const = 0;

  virtual int32_t vocab_size() const = 0;           // one past the largest id
  virtual std::string token(int32_t id) const = 0;  // as the vocabulary spells it; "" for holes
  virtual std::optional<int32_t> id(std::string_view token) const = 0;
  virtual bool is_special(int32_t id) const = 0;
  // Calls `each` with the bytes that every id adds to a text, not at its start; they need not be whole characters.
  virtual void spell_tokens(FunctionRef<void(int32_t id, std::string_view bytes)> each) const {
    for (int32_t i = 0; i < vocab_size(); ++i) each(i, token(i));
  }
  virtual std::optional<int32_t> bos_id() const = 0;
  virtual const std::vector<int32_t>& eos_ids() const = 0;  // generation stops at any of them
  virtual bool adds_bos() const = 0;                        // add_special_tokens would put BOS first
  virtual size_t memory_bytes() const = 0;                  // heap held by the loaded tokenizer

  // Chat templates found beside the vocabulary: (name, source); the unnamed one is "default".
  virtual const std::vector<std::pair<std::string, std::string>>& chat_templates() const = 0;
  virtual std::string kind() const = 0;  // "BPE", "Unigram", ... for `inspect`

 protected:
  friend class DecodeStream;
  // The stream must not outlive the tokenizer.
  virtual std::unique_ptr<TokenStream> stream(bool skip_special_tokens) const = 0;
};

}  // namespace tenon::text
