// How often this program has called operator new.
#pragma once
#include <cstdint>

namespace tenon::test {
int64_t allocations();
}
