// Counts every operator new of the program that links this file. A file of its own: inlined into callers, GCC would
// warn that memory of `new` is freed.
#include "support/count_allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<int64_t> g_allocations{0};
}

namespace tenon::test {
int64_t allocations() { return g_allocations.load(); }
}  // namespace tenon::test

void* operator new(size_t n) {
  ++g_allocations;
  if (void* p = std::malloc(n ? n : 1)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
