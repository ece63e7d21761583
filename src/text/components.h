// The components of tokenizer.json (normalizer, pre_tokenizer, post_processor, decoder, ...) as stages.
// Source of the format: huggingface/tokenizers, the serde forms of its wrappers; old spellings are understood.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/spec.h"

namespace tenon::text {

// Each takes the component's value (null: none) and throws Error{invalid_file|unsupported} naming `source` and the
// field.
std::vector<Normalizer> parse_normalizers(const Json& value, std::string_view source);
std::vector<Splitter> parse_splitters(const Json& value, std::string_view source);
std::vector<PostProcessor> parse_post_processors(const Json& value, std::string_view source);
std::vector<Decoder> parse_decoders(const Json& value, std::string_view source);
std::optional<Truncation> parse_truncation(const Json& value, std::string_view source);
std::optional<Padding> parse_padding(const Json& value, std::string_view source);

}  // namespace tenon::text
