#include "runtime/arena.h"

#include <sys/mman.h>

#include <utility>

#include "base/checked.h"
#include "base/error.h"

namespace tenon::runtime {
namespace {
constexpr uint64_t kHuge = 2 << 20;
}

Ledger& Ledger::process() {
  static Ledger ledger;
  return ledger;
}

void Ledger::take(uint64_t bytes, const char* what) {
  if (limit_ && (bytes > limit_ || used_ > limit_ - bytes))
    fail(ErrorCode::does_not_fit, "{} needs {} bytes, {} of the limit of {} are taken", what, bytes, used_, limit_);
  used_ += bytes;
}

Region::Region(uint64_t bytes, const char* what) : size_(bytes) {
  if (bytes == 0) return;
  Ledger::process().take(bytes, what);
  // Small regions get small pages: a huge page would cost more than they hold.
  bool huge = bytes >= kHuge;
  mapped_ = round_up(bytes, 4096) + (huge ? kHuge : 0);
  void* p = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    Ledger::process().give(bytes);
    fail(ErrorCode::does_not_fit, "{}: the system has no {} bytes", what, bytes);
  }
  base_ = static_cast<std::byte*>(p);
  data_ = huge ? reinterpret_cast<std::byte*>(round_up(reinterpret_cast<uintptr_t>(p), kHuge)) : base_;
  // Only whole huge pages: the tail stays in small ones, so that nothing beyond `bytes` becomes resident.
  if (huge) madvise(data_, bytes / kHuge * kHuge, MADV_HUGEPAGE);
  if (huge && bytes % kHuge) madvise(data_ + bytes / kHuge * kHuge, round_up(bytes % kHuge, 4096), MADV_NOHUGEPAGE);
}

Region::~Region() {
  if (!base_) return;
  munmap(base_, mapped_);
  Ledger::process().give(size_);
}

Region::Region(Region&& other) noexcept { *this = std::move(other); }

Region& Region::operator=(Region&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapped_, other.mapped_);
  std::swap(base_, other.base_);
  return *this;
}

void Region::touch() noexcept {
  for (uint64_t i = 0; i < size_; i += 4096) reinterpret_cast<volatile std::byte*>(data_)[i] = std::byte{0};
}

std::byte* Cutter::take(uint64_t bytes) {
  uint64_t n = cut_size(bytes);
  TENON_CHECK(n <= left_);
  std::byte* p = data_;
  data_ += n;
  left_ -= n;
  return p;
}

}  // namespace tenon::runtime
