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
  gate_.store(kOpen, std::memory_order_release);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  drain(0);
  // All pieces are taken. For the others' last ones: spin, then let them have the core (they may share it).
  uint32_t inside = gate_.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
  for (int spins = 0; inside != 0; ++spins) {
    if (spins < kSpins)
      pause();
    else
      gate_.wait(inside, std::memory_order_acquire);
    inside = gate_.load(std::memory_order_acquire);
  }
}

bool ThreadPool::enter() noexcept {
  uint32_t gate = gate_.load(std::memory_order_relaxed);
  while (gate & kOpen)
    if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acquire, std::memory_order_relaxed)) return true;
  return false;
}

void ThreadPool::leave() noexcept {
  if (gate_.fetch_sub(1, std::memory_order_acq_rel) == 1) gate_.notify_one();
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
    uint32_t epoch;
    for (int spins = 0; (epoch = epoch_.load(std::memory_order_acquire)) == seen; ++spins) {
      if (spins < kSpins)
        pause();
      else
        epoch_.wait(seen, std::memory_order_acquire);
    }
    seen = epoch;
    if (stop_.load(std::memory_order_relaxed)) return;
    if (!enter()) continue;  // the loop is over
    drain(worker);
    leave();
  }
}

}  // namespace tenon
