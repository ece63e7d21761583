// What commands share about the process: its start, the terminal, memory snapshots, progress.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "runtime/memory_plan.h"

namespace tenon::cli {

void mark_process_start();
double seconds_since_start();

bool stdout_is_terminal();
bool stderr_is_terminal();

// A progress line on a terminal's stderr ("reading 43 %"); nothing elsewhere.
class Progress {
 public:
  Progress(std::string what, int64_t total);
  ~Progress();
  void update(int64_t done);

 private:
  std::string what_;
  int64_t total_;
  int shown_ = -1;
};

// Resident memory at the marked moments, and the highest seen.
class MemoryLog {
 public:
  void mark(const std::string& moment);
  struct Entry {
    std::string moment;
    double seconds;
    uint64_t anonymous, file;
  };
  const std::vector<Entry>& entries() const { return entries_; }
  uint64_t highest_anonymous() const;
  uint64_t highest_file() const;

 private:
  std::vector<Entry> entries_;
};

Json to_json(const runtime::MemoryPlan& plan);  // the fields of `tenon plan --json`

// Left-aligned first column, right-aligned others.
std::string table(const std::vector<std::vector<std::string>>& rows);

}  // namespace tenon::cli
