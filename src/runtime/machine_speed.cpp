#include "runtime/machine_speed.h"

#include <algorithm>
#include <chrono>

#include "backend/cpu/probe.h"
#include "runtime/arena.h"

namespace tenon::runtime {

using Clock = std::chrono::steady_clock;

MachineSpeed measure_machine(ThreadPool& threads) {
  constexpr uint64_t kBytes = uint64_t{1} << 30;  // servers share caches of hundreds of MB
  MachineSpeed speed;
  Region region(kBytes, "bandwidth probe");
  constexpr int64_t kPiece = 1 << 20;
  // Touched by the thread pool, so that pages lie where they are read.
  threads.parallel_for(static_cast<int64_t>(kBytes) / kPiece, 1, [&](int64_t b, int64_t e, int) {
    std::fill(region.data() + b * kPiece, region.data() + e * kPiece, std::byte{1});
  });
  std::atomic<uint64_t> sink{0};
  for (int round = 0; round < 5; ++round) {
    auto start = Clock::now();
    threads.parallel_for(static_cast<int64_t>(kBytes) / kPiece, 8, [&](int64_t b, int64_t e, int) {
      sink += cpu::read_all(region.data() + b * kPiece, (e - b) * kPiece);
    });
    speed.read_bytes_per_s =
        std::max(speed.read_bytes_per_s,
                 static_cast<double>(kBytes) / std::chrono::duration<double>(Clock::now() - start).count());
    constexpr int64_t kRounds = 200000;
    start = Clock::now();
    std::atomic<int64_t> flops{0};
    threads.parallel_for(threads.size(), 1, [&](int64_t, int64_t, int) { flops += cpu::multiply_add_rounds(kRounds); });
    speed.f32_flops = std::max(speed.f32_flops, static_cast<double>(flops.load()) /
                                                    std::chrono::duration<double>(Clock::now() - start).count());
  }
  return speed;
}

StepCost step_cost(const Engine& engine) {
  StepCost cost;
  const graph::Graph& g = engine.graph();
  for (const graph::Node& n : g.nodes) {
    if (!graph::as<graph::Linear>(n.op)) continue;
    const graph::TensorType& w = g.nodes[static_cast<size_t>(n.inputs[1])].type;
    int64_t elements = graph::elements(w, {});
    cost.bytes_per_step += static_cast<double>(bytes_for(w.dtype, elements, "weight"));
    // The head runs once per wanted output, not per token of a prompt.
    if (n.type.shape[0].symbol == graph::Symbol::rows) cost.flops_per_token += 2.0 * static_cast<double>(elements);
  }
  return cost;
}

}  // namespace tenon::runtime
