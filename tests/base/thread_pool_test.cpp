#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <vector>

namespace tenon {
namespace {

TEST(ThreadPool, VisitsEveryIndexOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (int64_t n : {0, 1, 5, 64, 1000})
      for (int64_t grain : {1, 3, 2000}) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
        pool.parallel_for(n, grain, [&](int64_t begin, int64_t end, int worker) {
          EXPECT_LT(worker, threads);
          for (int64_t i = begin; i < end; ++i) seen[static_cast<size_t>(i)]++;
        });
        for (auto& s : seen) EXPECT_EQ(s.load(), 1);
      }
  }
}

// More threads than cores: some come late to every loop, or to the next one.
TEST(ThreadPool, LateWorkersTakeNothingOfAnotherLoop) {
  ThreadPool pool(12);
  for (int64_t loop = 0; loop < 3000; ++loop) {
    const int64_t n = 1 + loop % 97;
    std::vector<int64_t> seen(static_cast<size_t>(n), -1);  // gone when the loop is left
    pool.parallel_for(n, 1 + loop % 5, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) seen[static_cast<size_t>(i)] = loop;
    });
    for (int64_t s : seen) ASSERT_EQ(s, loop);
  }
}

TEST(ThreadPool, ManyShortLoops) {
  ThreadPool pool(4);
  std::atomic<int64_t> sum{0};
  for (int i = 0; i < 20000; ++i) pool.parallel_for(8, 1, [&](int64_t b, int64_t e, int) { sum += e - b; });
  EXPECT_EQ(sum.load(), 160000);
}

}  // namespace
}  // namespace tenon
