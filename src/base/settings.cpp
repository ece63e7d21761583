#include "base/settings.h"

#include <cstdlib>

namespace tenon {
namespace {

constexpr SettingInfo kSettings[] = {
    {Setting::isa, "TENON_ISA", "force an instruction set level: baseline, avx2, avx512, avx512_bf16"},
    {Setting::log, "TENON_LOG", "log level on stderr: debug, info, warn (default), error, off"},
    {Setting::passes, "TENON_PASSES", "graph passes to run: all (default) or none"},
};

}  // namespace

std::span<const SettingInfo> all_settings() { return kSettings; }

std::string setting(Setting key) {
  for (const SettingInfo& s : kSettings)
    if (s.key == key)
      if (const char* value = std::getenv(s.name)) return value;
  return {};
}

}  // namespace tenon
