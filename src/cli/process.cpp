#include "cli/process.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/machine.h"

namespace tenon::cli {
namespace {
std::chrono::steady_clock::time_point g_start;
}

void mark_process_start() { g_start = std::chrono::steady_clock::now(); }
double seconds_since_start() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - g_start).count();
}
bool stdout_is_terminal() { return isatty(STDOUT_FILENO) == 1; }
bool stderr_is_terminal() { return isatty(STDERR_FILENO) == 1; }

Progress::Progress(std::string what, int64_t total) : what_(std::move(what)), total_(std::max<int64_t>(1, total)) {}

Progress::~Progress() {
  if (shown_ >= 0) std::fputs("\r\x1b[K", stderr);
}

void Progress::update(int64_t done) {
  int percent = static_cast<int>(100 * done / total_);
  if (percent == shown_ || !stderr_is_terminal()) return;
  shown_ = percent;
  constexpr int kWidth = 30;
  std::string bar(static_cast<size_t>(kWidth * percent / 100), '#');
  std::fprintf(stderr, "\r\x1b[K%s [%-30s] %3d %%", what_.c_str(), bar.c_str(), percent);
  std::fflush(stderr);
}

void MemoryLog::mark(const std::string& moment) {
  Resident r = resident();
  entries_.push_back({moment, seconds_since_start(), r.anonymous, r.file});
}

uint64_t MemoryLog::highest_anonymous() const {
  uint64_t n = 0;
  for (const Entry& e : entries_) n = std::max(n, e.anonymous);
  return n;
}

uint64_t MemoryLog::highest_file() const {
  uint64_t n = 0;
  for (const Entry& e : entries_) n = std::max(n, e.file);
  return n;
}

Json to_json(const runtime::MemoryPlan& m) {
  return {{"weights", m.weights},     {"state", m.state},       {"activations", m.activations}, {"io", m.io},
          {"temporary", m.temporary}, {"overhead", m.overhead}, {"total", m.total()},           {"mapped", m.mapped},
          {"peak", m.peak},           {"limit", m.limit}};
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> width;
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      if (i == width.size()) width.push_back(0);
      width[i] = std::max(width[i], row[i].size());
    }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      line += i == 0 ? fmt::format("{:<{}}", row[i], width[i]) : fmt::format("  {:>{}}", row[i], width[i]);
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += line + "\n";
  }
  return out;
}

}  // namespace tenon::cli
