// Workers that share loops. A worker spins briefly for the next loop (a decode step has hundreds of short ones), then
// sleeps.
#pragma once
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace tenon {

class ThreadPool {
 public:
  // `threads` counts the calling thread; 1 makes everything run inline.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls fn(begin, end, worker) over [0, n) in pieces of `grain` (worker in [0, size())), returns when all are done.
  // Each worker begins with a stretch of its own, in order (memory is read in streams), then helps the others: which
  // worker takes which piece varies, so a piece's result must not depend on it. fn must be noexcept; one loop at a
  // time.
  template <class F>
  void parallel_for(int64_t n, int64_t grain, F&& fn) noexcept {
    if (n <= 0) return;
    if (workers_.empty() || n <= grain) {
      fn(int64_t{0}, n, 0);
      return;
    }
    run([](void* f, int64_t begin, int64_t end,
           int worker) { (*static_cast<std::remove_reference_t<F>*>(f))(begin, end, worker); },
        const_cast<void*>(static_cast<const void*>(&fn)), n, grain);
  }

 private:
  using Call = void (*)(void*, int64_t, int64_t, int);
  void run(Call call, void* context, int64_t n, int64_t grain) noexcept;
  void work(int worker) noexcept;
  void drain(int worker) noexcept;

  struct alignas(64) Stretch {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };

  std::vector<Stretch> stretches_;  // one a worker
  std::vector<std::thread> workers_;
  Call call_ = nullptr;
  void* context_ = nullptr;
  int64_t grain_ = 1;
  // A worker joins a loop through the gate, as long as it is open: one that the system lets run too late is not waited
  // for. Who is inside is counted.
  static constexpr uint32_t kOpen = 1u << 31;
  bool enter() noexcept;
  void leave() noexcept;

  alignas(64) std::atomic<uint32_t> epoch_{0};  // of the last loop; the workers wait for the next
  alignas(64) std::atomic<uint32_t> gate_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace tenon
