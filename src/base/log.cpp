#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "base/settings.h"

namespace tenon {
namespace {

spdlog::logger& logger() {
  static std::shared_ptr<spdlog::logger> instance = [] {
    auto l = std::make_shared<spdlog::logger>("tenon", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    l->set_pattern("%l: %v");
    std::string level = setting(Setting::log);
    l->set_level(level.empty() ? spdlog::level::warn : spdlog::level::from_str(level));
    return l;
  }();
  return *instance;
}

}  // namespace

void log_line(LogLevel level, std::string_view message) {
  spdlog::level::level_enum levels[] = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                                        spdlog::level::err};
  logger().log(levels[static_cast<int>(level)], "{}", message);
}

}  // namespace tenon
