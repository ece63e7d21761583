// Codebooks of the IQ types, packed: 8 indices of 2 bits (iq1, iq2) or 4 of 3 bits (iq3) an entry.
#pragma once
#include <cstdint>

namespace tenon::quant {

extern const uint16_t kIq2xxs[256];
extern const uint16_t kIq2xs[512];
extern const uint16_t kIq2s[1024];
extern const uint16_t kIq3xxs[256];
extern const uint16_t kIq3s[512];
extern const uint16_t kIq1s[2048];

}  // namespace tenon::quant
