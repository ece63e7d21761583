// Log lines on stderr; answers and JSON go to stdout. TENON_LOG=debug|info|warn|error|off sets the level (default
// warn).
#pragma once
#include <fmt/format.h>

#include <string_view>

namespace tenon {

enum class LogLevel { debug, info, warn, error };

void log_line(LogLevel level, std::string_view message);

template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::debug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_warn(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::warn, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tenon
