// Ids arriving one by one -> text that may be shown: whole characters only, nothing later changes what was shown.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace tenon::text {

class DecodeStream {
 public:
  DecodeStream(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special_tokens);
  std::string push(int32_t id);  // the piece that is certain now; may be empty
  std::string finish();          // what was held back; the joined pieces equal Tokenizer::decode of all ids

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_tokens_;
  std::vector<int32_t> pending_;
  std::string shown_;
};

}  // namespace tenon::text
