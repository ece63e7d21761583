// What this machine lets us use: threads (affinity, cgroup quota, physical cores) and memory (free, cgroup limit).
#pragma once
#include <cstdint>
#include <string>

namespace tenon {

struct ThreadChoice {
  int threads = 1;   // min of the three below
  int affinity = 1;  // CPUs this process may run on
  int physical = 1;  // physical cores among them
  double quota = 0;  // CPUs the cgroup allows; 0: no limit
};
ThreadChoice choose_threads();

struct MemoryLimit {
  uint64_t limit = 0;      // min of the two below
  uint64_t available = 0;  // MemAvailable
  uint64_t cgroup = 0;     // what the cgroup (v1 or v2) leaves, reclaimable page cache counted as free; 0: no limit
};
MemoryLimit memory_limit();

// Resident bytes of this process: anonymous and file-backed (/proc/self/status; Linux 4.5 and later).
struct Resident {
  uint64_t anonymous = 0, file = 0;
};
Resident resident();

std::string cpu_name();

}  // namespace tenon
