// Planned memory. A ledger holds the process's limit; a region is anonymous memory taken from it, freed with it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace tenon::runtime {

// One per process: all models draw from it.
class Ledger {
 public:
  static Ledger& process();
  void set_limit(uint64_t bytes) { limit_ = bytes; }
  uint64_t limit() const { return limit_; }  // 0: none
  uint64_t used() const { return used_; }
  // Throws Error{does_not_fit}.
  void take(uint64_t bytes, const char* what);
  void give(uint64_t bytes) { used_ -= bytes; }

 private:
  uint64_t limit_ = 0, used_ = 0;
};

// Zeroed, 2 MiB aligned, huge pages advised. Not resident until touched.
class Region {
 public:
  Region() = default;
  Region(uint64_t bytes, const char* what);  // throws Error{does_not_fit}
  ~Region();
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;

  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }
  void touch() noexcept;  // makes every page resident

 private:
  std::byte* data_ = nullptr;
  uint64_t size_ = 0, mapped_ = 0;
  std::byte* base_ = nullptr;
};

// Cuts a region into aligned pieces in the order of the plan.
class Cutter {
 public:
  explicit Cutter(const Region& region) : data_(region.data()), left_(region.size()) {}
  std::byte* take(uint64_t bytes);  // 64-byte aligned
  template <class T>
  std::span<T> take_array(int64_t n) {
    return {reinterpret_cast<T*>(take(static_cast<uint64_t>(n) * sizeof(T))), static_cast<size_t>(n)};
  }

 private:
  std::byte* data_;
  uint64_t left_;
};

// Bytes Cutter takes for `bytes`.
constexpr uint64_t cut_size(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace tenon::runtime
