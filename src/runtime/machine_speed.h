// The limits that speed is judged by: measured read bandwidth and f32 multiply-add rate, and what a step costs of them.
#pragma once
#include "base/thread_pool.h"
#include "runtime/engine.h"

namespace tenon::runtime {

struct MachineSpeed {
  double read_bytes_per_s = 0;  // all threads, huge pages, larger than the caches the threads share
  double f32_flops = 0;         // all threads, fused multiply-adds on vectors
};
MachineSpeed measure_machine(ThreadPool& threads);

struct StepCost {
  double bytes_per_step = 0;   // weights a decode step reads
  double flops_per_token = 0;  // multiply-adds of matrices count two
};
StepCost step_cost(const Engine& engine);

}  // namespace tenon::runtime
