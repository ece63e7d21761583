// What a tokenizer file says, in one form for all formats: the stages of the pipeline with their data.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/decoders.h"
#include "text/model.h"
#include "text/normalize.h"
#include "text/post_process.h"
#include "text/split.h"
#include "text/vocabulary.h"

namespace tenon::text {

struct TokenizerSpec {
  std::string source;  // the file, for messages
  std::vector<Normalizer> normalizers;
  std::vector<Splitter> splitters;
  std::shared_ptr<const Vocabulary> vocabulary;
  std::unique_ptr<TokenModel> model;
  std::vector<PostProcessor> post_processors;
  std::vector<Decoder> decoders;
  std::vector<AddedToken> added;
  std::optional<Truncation> truncation;
  std::optional<Padding> padding;

  std::optional<int32_t> bos;
  std::vector<int32_t> eos;
  std::vector<std::pair<std::string, std::string>> chat_templates;  // name, source
  std::string doubt;  // why the text may be cut otherwise than the model expects; "": no doubt
};

// One reader per format; each throws Error{invalid_file|unsupported} naming file and field.
TokenizerSpec read_tokenizer_json(const std::filesystem::path& file);
TokenizerSpec parse_tokenizer_json(std::string_view json, std::string_view source);
TokenizerSpec read_tokenizer_gguf(const std::filesystem::path& file);

TokenizerSpec read_tokenizer_sentencepiece(const std::filesystem::path& file);
TokenizerSpec parse_tokenizer_sentencepiece(std::string_view bytes, std::string_view source);
TokenizerSpec read_tokenizer_tiktoken(const std::filesystem::path& file);
TokenizerSpec read_tokenizer_tekken(const std::filesystem::path& file);
TokenizerSpec parse_tokenizer_tekken(std::string_view json, std::string_view source);
TokenizerSpec read_tokenizer_vocab_json(const std::filesystem::path& file);  // with merges.txt beside it
TokenizerSpec read_tokenizer_vocab_txt(const std::filesystem::path& file);

// End tokens, BOS and chat templates from tokenizer_config.json, special_tokens_map.json, generation_config.json,
// chat_template.jinja and additional_chat_templates/ in `folder`, where they exist.
void read_companions(const std::filesystem::path& folder, TokenizerSpec& spec);

std::shared_ptr<const Tokenizer> make_tokenizer(TokenizerSpec spec);

}  // namespace tenon::text
