// The pre-tokenizers that GGUF files name in tokenizer.ggml.pre (reference: llama.cpp, llama-vocab.cpp).
#pragma once
#include <span>
#include <string_view>
#include <vector>

namespace tenon::text {

struct GgufPre {
  std::vector<std::string_view>
      patterns;                // each cuts the pieces of the one before; what lies between matches is a piece too
  bool ignore_merges = false;  // a piece that is a token is taken whole
  bool add_bos = false, add_sep = false;  // where the file does not say
  bool nfc = false;                       // the model's own tokenizer normalizes first, which llama.cpp leaves out
  bool bytes = true;                      // byte-level; false: characters, spaces written as U+2581, bytes as <0x..>
  bool lines = false;                     // runs of line breaks that are a token are taken whole
};

// nullptr: not a known name.
const GgufPre* find_gguf_pre(std::string_view name);

}  // namespace tenon::text
