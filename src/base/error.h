// Throwing tenon::Error with a formatted message; TENON_CHECK for our own bugs.
#pragma once
#include <fmt/format.h>

#include <utility>

#include "tenon/error.h"

namespace tenon {

template <class... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

// Text from a file made fit for a one-line message: control bytes escaped, invalid UTF-8 replaced, cut at `limit`
// bytes.
std::string printable(std::string_view text, size_t limit = 80);

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace tenon

#define TENON_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::tenon::check_failed(#condition, __FILE__, __LINE__))
