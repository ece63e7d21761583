#include "text/encode_batch.h"

#include <exception>

#include "base/thread_pool.h"

namespace tenon::text {

std::vector<Encoding> encode_batch(const Tokenizer& tokenizer, std::span<const std::string_view> texts,
                                   const EncodeOptions& options, ThreadPool& pool) {
  std::vector<Encoding> out(texts.size());
  std::vector<std::exception_ptr> errors(texts.size());
  pool.parallel_for(static_cast<int64_t>(texts.size()), 1, [&](int64_t begin, int64_t end, int) noexcept {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      try {
        out[i] = tokenizer.encode(texts[i], options);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  });
  for (const std::exception_ptr& e : errors)
    if (e) std::rethrow_exception(e);
  return out;
}

}  // namespace tenon::text
