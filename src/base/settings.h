// Every TENON_* environment variable, in one table.
#pragma once
#include <span>
#include <string>

namespace tenon {

enum class Setting { isa, log, passes };

struct SettingInfo {
  Setting key;
  const char* name;
  const char* help;
};

std::span<const SettingInfo> all_settings();
std::string setting(Setting key);  // empty when unset

}  // namespace tenon
