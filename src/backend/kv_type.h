// Names of KV types, for options.
#pragma once
#include <optional>
#include <string_view>

#include "backend/cpu/attention.h"

namespace tenon::cpu {

inline std::optional<KvType> kv_type_named(std::string_view name) {
  if (name == "f32") return KvType::f32;
  if (name == "f16") return KvType::f16;
  if (name == "bf16") return KvType::bf16;
  if (name == "q8") return KvType::q8;
  if (name == "q4") return KvType::q4;
  return std::nullopt;
}

}  // namespace tenon::cpu
