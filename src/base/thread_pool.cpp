#include "base/thread_pool.h"

#include <chrono>

namespace tenon {
namespace {

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Long enough to bridge the gap between two ops of a step, short enough not to burn an idle core (about 50 us).
constexpr int kSpins = 1000;

}  // namespace

ThreadPool::ThreadPool(int threads) : stretches_(static_cast<size_t>(threads < 1 ? 1 : threads)) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& t : workers_) t.join();
}

void ThreadPool::run(Call call, void* context, int64_t n, int64_t grain) noexcept {
  call_ = call;
  context_ = context;
  grain_ = grain;
  const int64_t pieces = (n - 1) / grain + 1, workers = size();
  for (int64_t w = 0; w < workers; ++w) {
    Stretch& s = stretches_[static_cast<size_t>(w)];
    s.next.store(pieces * w / workers * grain, std::memory_order_relaxed);
    s.end = w + 1 == workers ? n : pieces * (w + 1) / workers * grain;
  }
  busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  drain(0);
  // The caller waits for the others' last pieces: spin, then let them have the core (they may share it).
  for (int spins = 0; busy_.load(std::memory_order_acquire) != 0; ++spins) {
    if (spins < kSpins) {
      pause();
    } else {
      int left = busy_.load(std::memory_order_acquire);
      if (left != 0) busy_.wait(left, std::memory_order_acquire);
    }
  }
}

void ThreadPool::drain(int worker) noexcept {
  const int workers = size();
  for (int i = 0; i < workers; ++i) {
    Stretch& s = stretches_[static_cast<size_t>((worker + i) % workers)];
    for (;;) {
      const int64_t begin = s.next.fetch_add(grain_, std::memory_order_relaxed);
      if (begin >= s.end) break;
      call_(context_, begin, begin + grain_ < s.end ? begin + grain_ : s.end, worker);
    }
  }
}

void ThreadPool::work(int worker) noexcept {
  uint32_t seen = 0;
  for (;;) {
    for (int spins = 0; epoch_.load(std::memory_order_acquire) == seen; ++spins) {
      if (spins < kSpins)
        pause();
      else
        epoch_.wait(seen, std::memory_order_acquire);
    }
    ++seen;  // a loop is not left before every worker has passed it, so no epoch is skipped
    if (stop_.load(std::memory_order_relaxed)) return;
    drain(worker);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

}  // namespace tenon
