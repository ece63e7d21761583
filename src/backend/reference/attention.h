// Attention as plain loops: the definition of what cpu/attention.h computes, bit for bit where multiply-add is fused.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/cpu/attention.h"

namespace tenon::reference {

void store_kv(const cpu::KvShape& kv, std::byte* pool, const float* k, int64_t ldk, const float* v, int64_t ldv,
              std::span<const cpu::AttendSequence> sequences);
// Ignores call.scratch.
void attend(const cpu::AttendCall& call);

}  // namespace tenon::reference
