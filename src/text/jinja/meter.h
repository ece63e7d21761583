// What a rendering may use, and the exception inside of it. Bounds make hostile templates fail instead of hang.
#pragma once
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace tenon::text::jinja {

constexpr uint64_t kMaxSteps = 50'000'000;      // nodes evaluated, elements and every 16 bytes of text produced
constexpr size_t kMaxText = size_t{64} << 20;   // bytes of one string, the rendered text included
constexpr size_t kMaxLive = size_t{512} << 20;  // bytes of all values alive
constexpr int kMaxNesting = 220;                // containers in containers; messages come from JSON of depth 200
constexpr int kMaxCallDepth = 200;              // macros in macros, recursive loops
constexpr int kMaxEvalDepth = 1600;             // nested expressions and statements being evaluated
constexpr int kMaxSourceDepth = 120;            // nested expressions, or nested blocks, in a template's source
constexpr int64_t kMaxRange = 100'000;          // as Jinja's sandbox

// A template failed at run time; the evaluator adds the position.
struct Failure {
  std::string message;
};

template <class... Args>
[[noreturn]] void raise(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure{fmt::format(format, std::forward<Args>(args)...)};
}

struct Meter {
  uint64_t steps = 0;
  size_t live = 0;

  void step(uint64_t n = 1) {
    steps += n;
    if (steps > kMaxSteps) raise("the template takes more than {} steps", kMaxSteps);
  }
  void hold(size_t bytes) {
    live += bytes;
    step(bytes / 64);
    if (live > kMaxLive) {
      live -= bytes;
      raise("the template's values take more than {} bytes", kMaxLive);
    }
  }
  void release(size_t bytes) { live -= bytes; }
};

}  // namespace tenon::text::jinja
