#include "base/machine.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

namespace tenon {
namespace {

std::optional<std::string> first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  if (!std::getline(in, line)) return std::nullopt;
  return line;
}

std::optional<double> number(const std::string& path) {
  auto line = first_line(path);
  if (!line || line->empty() || *line == "max") return std::nullopt;
  try {
    return std::stod(*line);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

// The directories of this process's cgroup, innermost first: a limit may sit on any of them. `controller` "" is v2.
std::vector<std::string> cgroup_directories(const std::string& controller) {
  std::string mount = controller.empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + controller;
  std::string path = "/";
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    std::stringstream fields(line);
    std::string id, controllers, group;
    std::getline(fields, id, ':');
    std::getline(fields, controllers, ':');
    std::getline(fields, group);
    bool match = controller.empty() ? controllers.empty()
                                    : ("," + controllers + ",").find("," + controller + ",") != std::string::npos;
    if (match) path = group;
  }
  std::vector<std::string> out;
  while (path.size() > 1) {
    out.push_back(mount + path);
    path = path.substr(0, path.find_last_of('/'));
  }
  out.push_back(mount);  // inside a container the mount itself is the group
  return out;
}

double cpu_quota() {
  double best = 0;
  auto take = [&](double cpus) {
    if (cpus > 0 && (best == 0 || cpus < best)) best = cpus;
  };
  for (const std::string& dir : cgroup_directories(""))
    if (auto line = first_line(dir + "/cpu.max")) {
      std::stringstream s(*line);
      std::string quota;
      double period = 0;
      if (s >> quota >> period && quota != "max" && period > 0) take(std::atof(quota.c_str()) / period);
    }
  for (const std::string& dir : cgroup_directories("cpu"))
    if (auto quota = number(dir + "/cpu.cfs_quota_us"), period = number(dir + "/cpu.cfs_period_us");
        quota && period && *quota > 0)
      take(*quota / *period);
  return best;
}

int physical_cores(const cpu_set_t& allowed) {
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) {
      std::string base = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
      auto siblings = first_line(base + "thread_siblings_list");
      cores.insert(siblings.value_or(std::to_string(cpu)));
    }
  return std::max(1, static_cast<int>(cores.size()));
}

uint64_t stat_field(const std::string& file, const std::string& key) {
  std::ifstream in(file);
  std::string name;
  uint64_t value = 0;
  while (in >> name >> value)
    if (name == key) return value;
  return 0;
}

uint64_t cgroup_memory() {
  uint64_t best = 0;
  auto take = [&](std::optional<double> limit, std::optional<double> usage, uint64_t reclaimable) {
    if (!limit || !usage || *limit > 9e18) return;  // v1 spells "no limit" as a huge number
    auto used = static_cast<uint64_t>(*usage);
    used -= std::min(used, reclaimable);
    uint64_t left = static_cast<uint64_t>(*limit) > used ? static_cast<uint64_t>(*limit) - used : 1;
    if (best == 0 || left < best) best = left;
  };
  for (const std::string& dir : cgroup_directories(""))
    take(number(dir + "/memory.max"), number(dir + "/memory.current"),
         stat_field(dir + "/memory.stat", "inactive_file") + stat_field(dir + "/memory.stat", "active_file"));
  for (const std::string& dir : cgroup_directories("memory"))
    take(number(dir + "/memory.limit_in_bytes"), number(dir + "/memory.usage_in_bytes"),
         stat_field(dir + "/memory.stat", "total_inactive_file") +
             stat_field(dir + "/memory.stat", "total_active_file"));
  return best;
}

// A "Key:   123 kB" line of a /proc file, in bytes.
uint64_t proc_field(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key + ":")) return std::strtoull(line.c_str() + key.size() + 1, nullptr, 10) * 1024;
  return 0;
}

}  // namespace

ThreadChoice choose_threads() {
  ThreadChoice c;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    c.affinity = std::max(1, CPU_COUNT(&allowed));
    c.physical = physical_cores(allowed);
  }
  c.quota = cpu_quota();
  c.threads = std::min(c.affinity, c.physical);
  if (c.quota > 0) c.threads = std::min(c.threads, std::max(1, static_cast<int>(std::floor(c.quota))));
  return c;
}

MemoryLimit memory_limit() {
  MemoryLimit m;
  m.available = proc_field("/proc/meminfo", "MemAvailable");
  m.cgroup = cgroup_memory();
  m.limit = m.cgroup ? std::min(m.available, m.cgroup) : m.available;
  return m;
}

Resident resident() { return {proc_field("/proc/self/status", "RssAnon"), proc_field("/proc/self/status", "RssFile")}; }

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name"))
      if (size_t at = line.find(": "); at != std::string::npos) return line.substr(at + 2);
  return "unknown";
}

}  // namespace tenon
