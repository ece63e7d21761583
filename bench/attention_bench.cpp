// attend() against the machine: prefill in GFLOP/s, decode as GB/s of keys and values read.
// attention_bench [--threads N] [--isa LEVEL] [--kv bf16|f16|f32|q8] [--pool MIB]: a pool that the caches hold shows
// the arithmetic alone
#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/attention.h"
#include "backend/cpu/isa.h"
#include "backend/kv_type.h"
#include "base/checked.h"
#include "base/error.h"

namespace tenon::cpu {
namespace {

struct Shape {
  int64_t heads, kv_heads, head_dim;
};

// Of small published models: SmolLM2-135M, Qwen2.5-0.5B, Qwen3-0.6B, Gemma-3-1B.
constexpr Shape kShapes[] = {{9, 3, 64}, {14, 2, 64}, {16, 8, 128}, {4, 1, 256}};
constexpr int64_t kPrefill = 512;
constexpr int64_t kDepths[] = {512, 4096, 16384};

std::byte* reserve(size_t bytes) {
  void* p = mmap(nullptr, bytes + (2 << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) fail(ErrorCode::does_not_fit, "attention_bench: {} bytes", bytes);
  auto* aligned = reinterpret_cast<std::byte*>(round_up(reinterpret_cast<uintptr_t>(p), uintptr_t{2} << 20));
  madvise(aligned, bytes, MADV_HUGEPAGE);
  return aligned;
}

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The best of several runs: neighbours on the machine only ever add time.
template <class F>
double best_of(int runs, F&& run) {
  double best = 1e9;
  for (int i = 0; i < runs; ++i) {
    const double start = seconds();
    run(i);
    best = std::min(best, seconds() - start);
  }
  return best;
}

std::vector<float> random(int64_t n) {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) v = normal(engine);
  return x;
}

// The layers of one sequence whose keys and values fill the pool.
class Bench {
 public:
  // Decoding walks over the layers that fill the pool, so that the caches hold no layer's keys from the step before.
  Bench(const Shape& shape, KvType type, ThreadPool& threads, std::byte* pool, size_t pool_bytes)
      : shape_(shape),
        kv_{type, shape.kv_heads, shape.head_dim},
        threads_(threads),
        pool_(pool),
        pool_bytes_(pool_bytes),
        scratch_(attend_scratch_bytes(kv_, shape.heads, threads.size()) + 64),
        q_(random(kPrefill * shape.heads * shape.head_dim)),
        k_(random(kPrefill * shape.kv_heads * shape.head_dim)),
        y_(q_.size()) {}

  bool fits(int64_t depth) const {
    return kv_block_bytes(kv_) * static_cast<uint64_t>((depth + kKvBlock - 1) / kKvBlock) <= pool_bytes_;
  }

  void prefill() {
    lay_out(kPrefill);
    const std::vector<AttendSequence> rows = {{0, kPrefill, 0, table_.data(), blocks_}};
    const int64_t ld = shape_.kv_heads * shape_.head_dim;
    const double store = best_of(20, [&](int) { store_kv(kv_, pool_, k_.data(), ld, k_.data(), ld, rows, threads_); });
    const double time = best_of(20, [&](int) { attend(call(rows, 0), threads_); });
    const double flops = 2.0 * 2 * shape_.heads * shape_.head_dim * kPrefill * (kPrefill + 1) / 2;
    fmt::print("  prefill {}: {:.2f} ms, {:.1f} GFLOP/s; store {:.2f} ms\n", kPrefill, time * 1e3, flops / time * 1e-9,
               store * 1e3);
  }

  void decode(int64_t depth) {
    lay_out(depth);
    const std::vector<AttendSequence> rows = {{0, 1, depth - 1, table_.data(), blocks_}};
    for (int64_t layer = 0; layer < layers_; ++layer) fill(layer);
    const double time = best_of(8,
                                [&](int) {
                                  for (int64_t layer = 0; layer < layers_; ++layer) attend(call(rows, layer), threads_);
                                }) /
                        static_cast<double>(layers_);
    const double bytes = static_cast<double>(kv_block_bytes(kv_)) * static_cast<double>(blocks_);
    fmt::print("  decode at {}: {:.1f} us, {:.2f} GB/s ({} layers)\n", depth, time * 1e6, bytes / time * 1e-9, layers_);
  }

 private:
  void lay_out(int64_t positions) {
    blocks_ = (positions + kKvBlock - 1) / kKvBlock;
    layers_ = std::clamp<int64_t>(static_cast<int64_t>(pool_bytes_ / kv_block_bytes(kv_)) / blocks_, 1, 2000);
    table_.resize(static_cast<size_t>(blocks_));
    std::iota(table_.begin(), table_.end(), 0);
    std::shuffle(table_.begin(), table_.end(), std::mt19937(1));
  }

  std::byte* layer_pool(int64_t layer) const {
    return pool_ + static_cast<uint64_t>(layer * blocks_) * kv_block_bytes(kv_);
  }

  void fill(int64_t layer) {
    const int64_t ld = shape_.kv_heads * shape_.head_dim;
    for (int64_t p = 0; p < blocks_ * kKvBlock; p += kPrefill) {
      const std::vector<AttendSequence> rows = {
          {0, std::min(kPrefill, blocks_ * kKvBlock - p), p, table_.data(), blocks_}};
      store_kv(kv_, layer_pool(layer), k_.data(), ld, k_.data(), ld, rows, threads_);
    }
  }

  AttendCall call(std::span<const AttendSequence> rows, int64_t layer) {
    AttendCall c;
    c.kv = kv_;
    c.heads = shape_.heads;
    c.scale = 1 / std::sqrt(static_cast<float>(shape_.head_dim));
    c.q = q_.data();
    c.y = y_.data();
    c.ldq = c.ldy = shape_.heads * shape_.head_dim;
    c.pool = layer_pool(layer);
    c.sequences = rows;
    c.scratch = reinterpret_cast<std::byte*>(round_up(reinterpret_cast<uintptr_t>(scratch_.data()), uintptr_t{64}));
    return c;
  }

  Shape shape_;
  KvShape kv_;
  ThreadPool& threads_;
  std::byte* pool_;
  size_t pool_bytes_;
  std::vector<std::byte> scratch_;
  std::vector<float> q_, k_, y_;
  std::vector<int32_t> table_;
  int64_t blocks_ = 0, layers_ = 0;
};

void run(int argc, char** argv) {
  int threads = 2;
  size_t pool_mib = 640;
  KvType type = KvType::bf16;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--threads") threads = std::stoi(value);
    if (flag == "--pool") pool_mib = std::stoul(value);
    if (flag == "--kv") type = kv_type_named(value).value_or(KvType::bf16);
    if (flag == "--isa")
      for (Isa level : available_isas())
        if (name(level) == value) force_isa(level);
  }
  fmt::print("{}, {} threads\n", name(isa()), threads);
  ThreadPool pool(threads);
  std::byte* memory = reserve(pool_mib << 20);
  for (const Shape& s : kShapes) {
    fmt::print("{}/{} x {}\n", s.heads, s.kv_heads, s.head_dim);
    Bench bench(s, type, pool, memory, pool_mib << 20);
    bench.prefill();
    for (int64_t depth : kDepths)
      if (bench.fits(depth)) bench.decode(depth);
  }
}

}  // namespace
}  // namespace tenon::cpu

int main(int argc, char** argv) {
  try {
    tenon::cpu::run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
