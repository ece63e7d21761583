// Loading: what a model is, what it needs, and the options that decide both.
#pragma once
#include <cstdint>
#include <string>

namespace tenon {

struct LoadOptions {
  int threads = 0;          // 0: what affinity, cgroup quota and physical cores allow
  int64_t context = 0;      // tokens; 0: the model's own, or the largest that fits
  std::string kv = "bf16";  // "bf16", "f16", "f32", "q8"
  std::string weights;      // "f32", "f16", "bf16", "q8", "q5", "q4": load matrices at this precision; "": as published
  std::string draft;        // a smaller model of the same vocabulary that drafts; the tokens stay the same; "": none
  bool compute_f32 = false;  // reference numerics
  uint64_t memory = 0;       // limit in bytes on all memory of the run; 0: what the machine has free
};

// Bytes on one device, counted before anything is loaded.
struct MemoryNeeds {
  uint64_t weights = 0, state = 0, activations = 0, io = 0, temporary = 0, overhead = 0;
  uint64_t total = 0;   // the sum: anonymous memory at its highest
  uint64_t mapped = 0;  // file pages the run reads
  uint64_t peak = 0;    // most of both at any moment
  uint64_t limit = 0;
  bool fits = false;
  int64_t context = 0;      // tokens the plan is for
  int64_t max_context = 0;  // the largest that fits
};

// Reads headers only. Throws Error.
MemoryNeeds plan(const std::string& path, const LoadOptions& options = {});

}  // namespace tenon
