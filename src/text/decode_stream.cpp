#include "text/decode_stream.h"

namespace tenon::text {

DecodeStream::DecodeStream(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special_tokens)
    : tokenizer_(std::move(tokenizer)), stream_(tokenizer_->stream(skip_special_tokens)) {}

std::string DecodeStream::push(int32_t id) { return stream_->push(id); }

std::string DecodeStream::finish() { return stream_->finish(); }

}  // namespace tenon::text
