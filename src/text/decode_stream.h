// Ids arriving one by one -> text that may be shown: whole characters only, nothing later changes what was shown.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace tenon::text {

class DecodeStream {
 public:
  DecodeStream(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special_tokens);
  // The piece that is certain now; may be empty. Throws Error{invalid_argument} for an id out of range.
  std::string push(int32_t id);
  std::string finish();  // what was held back; the joined pieces equal Tokenizer::decode of all ids

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<TokenStream> stream_;
};

}  // namespace tenon::text
