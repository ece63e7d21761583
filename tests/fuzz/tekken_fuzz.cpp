// Any bytes as tekken.json: an Error or a tokenizer that works.
#include <cstdint>

#include "base/error.h"
#include "text/spec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tenon;
  try {
    auto t = text::make_tokenizer(text::parse_tokenizer_tekken({reinterpret_cast<const char*>(data), size}, "fuzz"));
    text::Encoding e = t->encode("Hello, W\xC3\xB6rld!  \xE4\xBD\xA0\xE5\xA5\xBD 123\n\n<s> \xF0\x9F\x99\x82",
                                 {.add_special_tokens = true});
    t->decode(e.ids, true);
  } catch (const Error&) {
  }
  return 0;
}
