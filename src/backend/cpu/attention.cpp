#include "backend/cpu/attention.h"

#include <algorithm>
#include <utility>

#include "backend/cpu/attention_task.h"
#include "backend/cpu/kv_layout.h"

namespace tenon::cpu {
namespace {

// Rows of a task: enough that a tile's conversion to float is paid back, few enough that their sums stay in the
// second-level cache.
constexpr int64_t kTaskRows = 64;

int64_t task_positions(int64_t group) { return std::max<int64_t>(1, kTaskRows / group); }

// Hands out scratch in pieces of whole cache lines; without a base it only counts.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}
  float* floats(int64_t n) {
    float* at = base_ ? reinterpret_cast<float*>(base_ + used_) : nullptr;
    used_ += (static_cast<size_t>(n) * sizeof(float) + 63) / 64 * 64;
    return at;
  }
  size_t used() const { return used_; }

 private:
  std::byte* base_;
  size_t used_ = 0;
};

AttendPartial carve_partial(Carver& c, int64_t rows, int64_t padded_dim) {
  AttendPartial p;
  p.out = c.floats(rows * padded_dim);
  p.max = c.floats(rows);
  p.sum = c.floats(rows);
  return p;
}

AttendScratch carve_worker(Carver& c, const KvShape& kv, int64_t heads) {
  constexpr int64_t kGroupRowsMost = 8;
  const int64_t group = heads / kv.kv_heads, rows = group * task_positions(group), padded_dim = padded(kv.head_dim);
  AttendScratch s;
  s.queries = c.floats(rows * kv.head_dim);
  s.k = c.floats(kv.head_dim * kKvBlock * kAttendSpan);
  s.v = c.floats(padded_dim * kKvBlock * kAttendSpan);
  s.scores = c.floats(kGroupRowsMost * kKvBlock * kAttendSpan);
  s.lanes = c.floats(rows * 16);
  s.segment = carve_partial(c, rows, padded_dim);
  s.total = carve_partial(c, rows, padded_dim);
  return s;
}

AttendScratch worker_scratch(const AttendCall& call, int worker) {
  Carver size(nullptr);
  carve_worker(size, call.kv, call.heads);
  Carver c(call.scratch + size.used() * static_cast<size_t>(worker));
  return carve_worker(c, call.kv, call.heads);
}

int64_t task_count(const AttendCall& call, const AttendSequence& s) {
  const int64_t positions = task_positions(call.heads / call.kv.kv_heads);
  return (s.row_count + positions - 1) / positions * call.kv.kv_heads;
}

AttendTask task_of(const AttendCall& call, const AttendSequence& s, int64_t index) {
  AttendTask t;
  t.call = &call;
  t.sequence = &s;
  t.group = call.heads / call.kv.kv_heads;
  t.kv_head = index % call.kv.kv_heads;
  t.row = index / call.kv.kv_heads * task_positions(t.group);
  t.positions = std::min(task_positions(t.group), s.row_count - t.row);
  return t;
}

// ---- Tasks of the sequences that `wanted` names, each on one thread.

template <class Wanted>
int64_t count_tasks(const AttendCall& call, const Wanted& wanted) {
  int64_t count = 0;
  for (const AttendSequence& s : call.sequences)
    if (wanted(s)) count += task_count(call, s);
  return count;
}

template <class Wanted>
AttendTask find_task(const AttendCall& call, const Wanted& wanted, int64_t index) {
  for (const AttendSequence& s : call.sequences) {
    if (!wanted(s)) continue;
    if (index < task_count(call, s)) return task_of(call, s, index);
    index -= task_count(call, s);
  }
  return {};
}

template <class Wanted>
void attend_whole(const AttendCall& call, ThreadPool& pool, const Wanted& wanted) {
  const int64_t tasks = count_tasks(call, wanted);
  pool.parallel_for(tasks, 1, [&](int64_t begin, int64_t end, int worker) {
    const AttendScratch scratch = worker_scratch(call, worker);
    // The last rows of a sequence see most: they go first, so that no thread is left with them.
    for (int64_t i = begin; i < end; ++i) attend_task(find_task(call, wanted, tasks - 1 - i), scratch);
  });
}

// ---- Single rows over long contexts, when they are too few to keep the threads busy: their segments are summed in
// waves, as many at a time as there are slots, and merged in order after each wave.

constexpr int64_t kSlotsPerThread = 16;

bool is_long_row(const AttendCall& call, const AttendSequence& s) {
  if (s.row_count != 1) return false;
  const AttendTask t = task_of(call, s, 0);
  return t.first_segment() < t.last_segment();
}

// One segment of one task.
struct Part {
  AttendTask task;
  int64_t segment = 0;

  bool starts_task() const { return segment == task.first_segment(); }
};

int64_t count_parts(const AttendCall& call) {
  int64_t count = 0;
  for (const AttendSequence& s : call.sequences)
    if (is_long_row(call, s)) count += call.kv.kv_heads * task_of(call, s, 0).segments();
  return count;
}

Part find_part(const AttendCall& call, int64_t index) {
  for (const AttendSequence& s : call.sequences) {
    if (!is_long_row(call, s)) continue;
    const int64_t segments = task_of(call, s, 0).segments();
    if (index < segments * call.kv.kv_heads) {
      const AttendTask task = task_of(call, s, index / segments);
      return {task, task.first_segment() + index % segments};
    }
    index -= segments * call.kv.kv_heads;
  }
  return {};
}

// Slot `index`: the rows of one task. Two beyond the waves' hold what goes on from wave to wave.
AttendPartial slot(const AttendCall& call, int threads, int64_t index) {
  Carver workers(nullptr), before(nullptr);
  for (int i = 0; i < threads; ++i) carve_worker(workers, call.kv, call.heads);
  const int64_t rows = call.heads / call.kv.kv_heads, padded_dim = padded(call.kv.head_dim);
  carve_partial(before, rows, padded_dim);
  Carver c(call.scratch + workers.used() + before.used() * static_cast<size_t>(index));
  return carve_partial(c, rows, padded_dim);
}

void copy(const AttendTask& t, const AttendPartial& from, const AttendPartial& to) {
  std::copy_n(from.out, t.rows() * padded(t.call->kv.head_dim), to.out);
  std::copy_n(from.max, t.rows(), to.max);
  std::copy_n(from.sum, t.rows(), to.sum);
}

// The parts of one task that lie in a wave's slots from `first` on: merged into what the wave before left in `carried`,
// or else into the first of them. A task that goes on in the next wave is left in `next`.
void merge_parts(const AttendCall& call, int threads, int64_t wave, int64_t first, int64_t count,
                 const AttendPartial& carried, const AttendPartial& next) {
  const Part part = find_part(call, wave + first);
  const int64_t here = std::min(count - first, part.task.last_segment() - part.segment + 1);
  const AttendPartial total = part.starts_task() ? slot(call, threads, first) : carried;
  for (int64_t i = 0; i < here; ++i) merge_segment(part.task, part.segment + i, slot(call, threads, first + i), total);
  if (part.segment + here > part.task.last_segment())
    write_rows(part.task, total);
  else
    copy(part.task, total, next);
}

void attend_in_parts(const AttendCall& call, ThreadPool& pool) {
  const int64_t parts = count_parts(call), slots = kSlotsPerThread * pool.size();
  AttendPartial carried = slot(call, pool.size(), slots), next = slot(call, pool.size(), slots + 1);
  for (int64_t wave = 0; wave < parts; wave += slots) {
    const int64_t count = std::min(slots, parts - wave);
    pool.parallel_for(count, 1, [&](int64_t begin, int64_t end, int worker) {
      const AttendScratch scratch = worker_scratch(call, worker);
      for (int64_t i = begin; i < end; ++i) {
        const Part part = find_part(call, wave + i);
        attend_segment(part.task, scratch, part.segment, slot(call, pool.size(), i));
      }
    });
    pool.parallel_for(count, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        if (i == 0 || find_part(call, wave + i).starts_task())
          merge_parts(call, pool.size(), wave, i, count, carried, next);
    });
    std::swap(carried, next);
  }
}

}  // namespace

uint64_t kv_block_bytes(const KvShape& shape) {
  return static_cast<uint64_t>(kv_layout(shape).head_bytes) * static_cast<uint64_t>(shape.kv_heads);
}

size_t attend_scratch_bytes(const KvShape& kv, int64_t heads, int threads) {
  Carver c(nullptr);
  for (int i = 0; i < threads; ++i) carve_worker(c, kv, heads);
  for (int64_t i = 0; i < kSlotsPerThread * threads + 2; ++i)
    carve_partial(c, heads / kv.kv_heads, padded(kv.head_dim));
  return c.used();
}

void attend(const AttendCall& call, ThreadPool& pool) noexcept {
  const auto every = [](const AttendSequence&) { return true; };
  constexpr int64_t kTasksPerThread = 4;  // enough to spread evenly
  if (pool.size() == 1 || count_tasks(call, every) >= kTasksPerThread * pool.size())
    return attend_whole(call, pool, every);
  attend_whole(call, pool, [&](const AttendSequence& s) { return !is_long_row(call, s); });
  attend_in_parts(call, pool);
}

}  // namespace tenon::cpu
