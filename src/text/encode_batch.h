// Many texts at once, on several threads.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace tenon {
class ThreadPool;
}

namespace tenon::text {

// What encode() gives for each text. Throws the Error of the first text that has one.
std::vector<Encoding> encode_batch(const Tokenizer& tokenizer, std::span<const std::string_view> texts,
                                   const EncodeOptions& options, ThreadPool& pool);

}  // namespace tenon::text
