// What attention's vector code is given: one piece of work and its scratch.
#pragma once
#include <cstdint>

#include "backend/cpu/attention.h"

namespace tenon::cpu {

// Output rows are kept in whole vectors.
constexpr int64_t padded(int64_t head_dim) { return (head_dim + 15) / 16 * 16; }

constexpr int64_t kAttendSpan = 4;  // tiles that are taken together where all rows of a task see all of them

// Consecutive rows of one sequence for all query heads that share a KV head. Task row r: position first + r / group,
// head r % group.
struct AttendTask {
  const AttendCall* call = nullptr;
  const AttendSequence* sequence = nullptr;
  int64_t kv_head = 0;
  int64_t row = 0;        // of the sequence's rows, the first
  int64_t positions = 0;  // so many rows
  int64_t group = 0;      // query heads per KV head

  int64_t first_segment() const { return first_visible(0) / kSegment; }
  int64_t last_segment() const { return position(rows() - 1) / kSegment; }
  int64_t segments() const { return last_segment() - first_segment() + 1; }

  int64_t rows() const { return positions * group; }
  int64_t position(int64_t r) const { return sequence->position + row + r / group; }
  // Positions [first_visible, position] are seen.
  int64_t first_visible(int64_t r) const {
    const int64_t first = position(r) - call->window + 1;
    return call->window > 0 && first > 0 ? first : 0;
  }
};

// A softmax-weighted sum over a run of positions for each task row, relative to the row's largest score.
struct AttendPartial {
  float* out = nullptr;  // [rows][padded head_dim]
  float* max = nullptr;  // [rows]
  float* sum = nullptr;  // [rows]
};

// One worker's. Sizes: attention.cpp.
struct AttendScratch {
  float* queries = nullptr;  // per row group [head_dim][rows of the group]
  float* k = nullptr;        // keys of a span's tiles [head_dim][32]
  float* v = nullptr;        // values of a span's tiles [32][padded head_dim]
  float* scores = nullptr;   // a row group's [rows][32 or a span's 128]
  float* lanes = nullptr;    // of the running sums [rows][16]
  AttendPartial segment, total;
};

// All of a task: its rows of call.y.
void attend_task(const AttendTask& task, const AttendScratch& scratch) noexcept;
// One segment's part of it.
void attend_segment(const AttendTask& task, const AttendScratch& scratch, int64_t segment,
                    const AttendPartial& partial) noexcept;
// Adds a segment's part to the rows' totals, in the order of segments; a row's first starts its total (they may be the
// same memory).
void merge_segment(const AttendTask& task, int64_t segment, const AttendPartial& partial,
                   const AttendPartial& total) noexcept;
void write_rows(const AttendTask& task, const AttendPartial& total) noexcept;

}  // namespace tenon::cpu
