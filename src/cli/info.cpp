// tenon info: this machine as tenon sees it.
#include <cstdio>
#include <iostream>

#include <fmt/format.h>

#include "backend/cpu/isa.h"
#include "base/machine.h"
#include "base/settings.h"
#include "cli/command.h"
#include "cli/process.h"
#include "models/family.h"
#include "runtime/machine_speed.h"

namespace tenon::cli {
namespace {

int info(bool json, bool fast) {
  ThreadChoice t = choose_threads();
  MemoryLimit m = memory_limit();
  std::string isas;
  for (cpu::Isa level : cpu::available_isas()) isas += (isas.empty() ? "" : ", ") + cpu::name(level);
  std::string families;
  for (const models::Family* f : models::all_families())
    for (const std::string& type : f->model_types) families += (families.empty() ? "" : ", ") + type;
  Json out = {{"version", TENON_VERSION},
              {"cpu", cpu_name()},
              {"isa", cpu::name(cpu::isa())},
              {"isa_available", isas},
              {"threads", t.threads},
              {"threads_because", fmt::format("affinity {}, physical cores {}, cgroup quota {}", t.affinity, t.physical,
                                              t.quota > 0 ? fmt::format("{:.2f}", t.quota) : "none")},
              {"memory_limit", m.limit},
              {"memory_available", m.available},
              {"memory_cgroup", m.cgroup},
              {"devices", "cpu, reference"},
              {"models", families}};
  if (!fast) {
    ThreadPool pool(t.threads);
    runtime::MachineSpeed s = runtime::measure_machine(pool);
    out["read_gb_per_s"] = s.read_bytes_per_s / 1e9;
    out["f32_gflops"] = s.f32_flops / 1e9;
  }
  if (json) {
    std::cout << out.dump() << "\n";
    return 0;
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& [key, value] : out.items()) {
    bool bytes = key.starts_with("memory_") && value.is_number();
    std::string text = bytes               ? (value == 0 ? "no limit" : runtime::human_bytes(value.get<uint64_t>()))
                       : value.is_string() ? value.get<std::string>()
                       : value.is_number_float() ? fmt::format("{:.1f}", value.get<double>())
                                                 : value.dump();
    rows.push_back({key + "  " + text});
  }
  std::cout << table(rows) << "\nEnvironment:\n";
  rows.clear();
  for (const SettingInfo& s : all_settings()) rows.push_back({std::string("  ") + s.name + "  " + s.help});
  std::cout << table(rows);
  return 0;
}

std::function<int()> declare(CLI::App& app) {
  auto json = std::make_shared<bool>(false), fast = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "for machines");
  app.add_flag("--no-measure", *fast, "leave out measured bandwidth and FLOPs");
  return [json, fast] { return info(*json, *fast); };
}

}  // namespace

extern const Command info_command{"info", "This machine: instruction set, threads and why, memory, bandwidth",
                                  "  tenon info\n", declare};

}  // namespace tenon::cli
