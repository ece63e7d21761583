// linear() against the machine: decode (m = 1) as a share of the plain read bandwidth measured in the same run, prefill
// in GOP/s. linear_bench [ENCODING...] [--threads N] [--isa LEVEL] [--packed]
#include <fmt/core.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/isa.h"
#include "backend/cpu/linear.h"
#include "backend/cpu/probe.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/thread_pool.h"

namespace tenon::cpu {
namespace {

struct Shape {
  DType dtype;
  int64_t out, in;
};

// Of small published models: SmolLM2-135M, Qwen2.5-0.5B, Qwen3-0.6B.
constexpr Shape kShapes[] = {
    {DType::q4_1, 1536, 576},  {DType::q4_1, 576, 1536},  {DType::q4_1, 49152, 576},   {DType::q8_0, 1536, 576},
    {DType::q8_0, 49152, 576}, {DType::q8_0, 4864, 896},  {DType::q4_0, 4864, 896},    {DType::q4_0, 896, 4864},
    {DType::q5_0, 4864, 896},  {DType::q4_k, 3072, 1024}, {DType::q4_k, 1024, 3072},   {DType::q5_k, 3072, 1024},
    {DType::q6_k, 3072, 1024}, {DType::q6_k, 1024, 3072}, {DType::bf16, 4864, 896},    {DType::bf16, 896, 4864},
    {DType::f16, 4864, 896},   {DType::f32, 4864, 896},   {DType::iq4_xs, 3072, 1024}, {DType::mxfp4, 2880, 2880},
    {DType::q2_k, 3072, 1024}, {DType::q3_k, 3072, 1024}, {DType::q5_1, 4864, 896},
};

// More than the last-level cache holds of anything, in huge pages, as weights are.
constexpr size_t kMemory = size_t{768} << 20, kSource = size_t{64} << 20;

std::byte* reserve(size_t bytes) {
  void* p = mmap(nullptr, bytes + (2 << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) fail(ErrorCode::does_not_fit, "linear_bench: {} bytes", bytes);
  auto* aligned = reinterpret_cast<std::byte*>(round_up(reinterpret_cast<uintptr_t>(p), uintptr_t{2} << 20));
  madvise(aligned, bytes, MADV_HUGEPAGE);
  return aligned;
}

double seconds(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// The best of several runs: neighbours on the machine only ever add time. One thread alone is measured by its own CPU
// time, which leaves out what the scheduler gave to others.
template <class F>
double best_of(int runs, const ThreadPool& pool, F&& run) {
  clockid_t clock = pool.size() == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
  double best = 1e9;
  for (int i = 0; i < runs; ++i) {
    double start = seconds(clock);
    run();
    best = std::min(best, seconds(clock) - start);
  }
  return best;
}

double read_bandwidth(const std::byte* memory, ThreadPool& pool) {
  constexpr int64_t kPiece = 1 << 20;
  uint64_t sink = 0;
  double t = best_of(5, pool, [&] {
    std::atomic<uint64_t> all{0};
    pool.parallel_for(static_cast<int64_t>(kMemory), kPiece,
                      [&](int64_t begin, int64_t end, int) { all += read_all(memory + begin, end - begin); });
    sink += all;
  });
  if (sink == 1) fmt::print(" ");
  return static_cast<double>(kMemory) / t;
}

class Bench {
 public:
  Bench(int threads, bool packed)
      : pool_(threads),
        packed_(packed),
        memory_(reserve(kMemory)),
        source_(reserve(kSource)),
        scratch_(reserve(64 << 20)) {
    // Every 16-bit half is an ordinary number as f16 and as bf16: denormals would cost more than the arithmetic.
    std::mt19937 rng(1);
    auto* words = reinterpret_cast<uint16_t*>(source_);
    for (size_t i = 0; i < kSource / 2; ++i) words[i] = static_cast<uint16_t>((rng() & 0x83FF) | 0x3800);
    for (size_t i = 0; i < kMemory; i += kSource) std::memcpy(memory_ + i, source_, kSource);
    bandwidth_ = read_bandwidth(memory_, pool_);
    int64_t flops = 0;
    double t = best_of(3, pool_, [&] { flops = multiply_add_rounds(2'000'000); });
    fmt::print("{} threads, {}: reads {:.1f} GB/s, one thread's fused multiply-adds {:.0f} GFLOP/s\n", threads,
               name(isa()), bandwidth_ / 1e9, static_cast<double>(flops) / t / 1e9);
  }

  void run(const Shape& s) {
    uint64_t bytes = packed_ ? panel_bytes(s.dtype, s.out, s.in) : bytes_for(s.dtype, s.out * s.in, "bench");
    if (bytes == 0) return;
    fill(s, bytes);
    fmt::print("{:8} {:6} x {:5} ", name(s.dtype), s.out, s.in);
    for (int64_t m : {1, 4, 8, 16}) {
      double rate = static_cast<double>(bytes) / time_of(s, m, bytes);
      fmt::print("  m={} {:5.1f} GB/s ({:3.0f} %)", m, rate / 1e9, 100 * rate / bandwidth_);
    }
    double ops = 2.0 * 512 * static_cast<double>(s.out) * static_cast<double>(s.in);
    fmt::print("  m=512 {:6.1f} GOP/s\n", ops / time_of(s, 512, bytes) / 1e9);
  }

 private:
  // Weights one after the other, as time_of() goes through them.
  void fill(const Shape& s, uint64_t bytes) {
    const uint64_t stride = round_up(bytes, uint64_t{64});
    std::memcpy(memory_, source_, bytes);
    if (packed_ && !pack({s.dtype, s.out, s.in, source_}, memory_, pool_))
      fail(ErrorCode::internal, "linear_bench: {} does not fit its panels", name(s.dtype));
    for (uint64_t at = stride; at + stride <= kMemory; at += stride) std::memcpy(memory_ + at, memory_, bytes);
  }

  // Seconds per call over weights that lie one after the other, as the layers of a model do.
  double time_of(const Shape& s, int64_t m, uint64_t bytes) {
    std::vector<float> x(static_cast<size_t>(m * s.in)), y(static_cast<size_t>(m * s.out));
    std::mt19937 rng(2);
    for (float& v : x) v = static_cast<float>(rng() % 2001) / 1000.0f - 1.0f;
    uint64_t stride = round_up(bytes, uint64_t{64});
    auto copies = static_cast<int64_t>(kMemory / stride);
    double work = static_cast<double>(m * s.out * s.in);
    int64_t calls = std::clamp<int64_t>(static_cast<int64_t>(4e9 / work), 1, copies);
    if (m <= 16) calls = copies;
    double t = best_of(3, pool_, [&] {
      for (int64_t i = 0; i < calls; ++i) {
        const std::byte* w = memory_ + static_cast<uint64_t>(i) * stride;
        LinearWeight weight{s.dtype, s.out, s.in, packed_ ? nullptr : w, packed_ ? w : nullptr, false};
        linear(weight, {x.data(), m, s.in, y.data(), s.out, nullptr, scratch_, false}, pool_);
      }
    });
    return t / static_cast<double>(calls);
  }

  ThreadPool pool_;
  bool packed_;
  std::byte *memory_, *source_, *scratch_;
  double bandwidth_ = 0;
};

void main_loop(int argc, char** argv) {
  std::vector<std::string> wanted;
  int threads = 2;
  bool packed = false;
  for (int i = 1; i < argc; ++i) {
    std::string a = argv[i];
    if (a == "--threads" && i + 1 < argc) {
      threads = std::stoi(argv[++i]);
    } else if (a == "--isa" && i + 1 < argc) {
      std::string level = argv[++i];
      for (Isa l : available_isas())
        if (name(l) == level) force_isa(l);
    } else if (a == "--packed") {
      packed = true;
    } else {
      wanted.push_back(a);
    }
  }
  Bench bench(threads, packed);
  for (const Shape& s : kShapes)
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), name(s.dtype)) != wanted.end()) bench.run(s);
}

}  // namespace
}  // namespace tenon::cpu

int main(int argc, char** argv) {
  try {
    tenon::cpu::main_loop(argc, argv);
  } catch (const tenon::Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
