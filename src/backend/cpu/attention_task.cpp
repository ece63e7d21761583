#include "backend/cpu/attention_task.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "backend/cpu/hadamard.h"
#include "backend/cpu/highway_targets.h"
#include "backend/cpu/kv_layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention_task.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "backend/cpu/attention_span-inl.h"
#include "backend/cpu/kv_widen-inl.h"
#include "backend/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

// ---- C[kRows][n] += A * B in registers, k ascending. A: kColumns ? [k][kRows] : [kRows][32]; B: [k][ldb].

template <int kRows, int kVectors, bool kColumns>
HWY_INLINE void multiply_block(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, int64_t ldb, int64_t k,
                               float* HWY_RESTRICT c, int64_t ldc, bool from_zero) {
  Vec sums[kRows][kVectors];
  TENON_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TENON_UNROLL
    for (int v = 0; v < kVectors; ++v)
      sums[r][v] = from_zero ? hn::Zero(kFloats) : hn::LoadU(kFloats, c + r * ldc + v * kLanes);
  }
  for (int64_t j = 0; j < k; ++j, b += ldb) {
    Vec right[kVectors];
    TENON_UNROLL
    for (int v = 0; v < kVectors; ++v) right[v] = hn::LoadU(kFloats, b + v * kLanes);
    TENON_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const Vec left = set(kColumns ? a[j * kRows + r] : a[r * kTile + j]);
      TENON_UNROLL
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(left, right[v], sums[r][v]);
    }
  }
  TENON_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TENON_UNROLL
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[r][v], kFloats, c + r * ldc + v * kLanes);
  }
}

// Columns from `i` on; n is a multiple of 16.
template <int kRows, int kVectors, bool kColumns>
HWY_INLINE void multiply(const float* a, const float* b, int64_t ldb, int64_t k, float* c, int64_t ldc, int64_t n,
                         bool from_zero, int64_t i = 0) {
  for (; i + kVectors * kLanes <= n; i += kVectors * kLanes)
    multiply_block<kRows, kVectors, kColumns>(a, b + i, ldb, k, c + i, ldc, from_zero);
  if constexpr (kVectors > 1) {
    if (i < n) multiply<kRows, kVectors / 2, kColumns>(a, b, ldb, k, c, ldc, n, from_zero, i);
  }
}

// ---- One row group against one tile.

struct GroupTile {
  const AttendCall* call;
  const float* queries;  // [head_dim][rows]
  const float* k;
  const float* v;
  float* scores;                           // [rows][32], become weights
  int begin[kGroupRows], end[kGroupRows];  // slots each row sees; none: begin >= end
  float* out;                              // [rows][padded head_dim]
  float* max;
  float* lanes;  // [rows][16]

  bool sees(int r) const { return begin[r] < end[r]; }
};

// Scores of one row: scaled, capped, -infinity where not seen. Returns the largest.
HWY_INLINE float mask_scores(const GroupTile& t, int r) {
  float* scores = t.scores + r * kTile;
  const Vec scale = set(t.call->scale), cap = set(t.call->softcap);
  const bool whole = t.begin[r] == 0 && t.end[r] == kTile;
  const Vec begin = set(static_cast<float>(t.begin[r])), end = set(static_cast<float>(t.end[r]));
  Vec top = set(kMinusInfinity);
  for (int64_t j = 0; j < kTile; j += kLanes) {
    Vec s = hn::Mul(hn::Load(kFloats, scores + j), scale);
    if (t.call->softcap > 0) s = hn::Mul(cap, tanh(hn::Div(s, cap)));
    if (!whole) {
      const Vec slot = hn::Iota(kFloats, static_cast<float>(j));
      s = hn::IfThenElse(hn::And(hn::Ge(slot, begin), hn::Lt(slot, end)), s, set(kMinusInfinity));
    }
    hn::Store(s, kFloats, scores + j);
    top = hn::Max(top, s);
  }
  return hn::GetLane(hn::MaxOfLanes(kFloats, top));
}

// Scores of one row become weights relative to `max`, added to its running sum.
HWY_INLINE void weigh_scores(const GroupTile& t, int r, float max, float rescale) {
  float* scores = t.scores + r * kTile;
  float* lanes = t.lanes + r * kSumLanes;
  const Vec top = set(max), factor = set(rescale);
  for (int64_t j = 0; j < kSumLanes; j += kLanes) {
    const Vec a = exp(hn::Sub(hn::Load(kFloats, scores + j), top));
    const Vec b = exp(hn::Sub(hn::Load(kFloats, scores + j + kSumLanes), top));
    hn::Store(a, kFloats, scores + j);
    hn::Store(b, kFloats, scores + j + kSumLanes);
    hn::Store(hn::MulAdd(hn::Load(kFloats, lanes + j), factor, hn::Add(a, b)), kFloats, lanes + j);
  }
}

HWY_INLINE void rescale_row(float* out, int64_t n, float factor) {
  if (factor == 1.0f) return;
  for (int64_t i = 0; i < n; i += kLanes) hn::Store(hn::Mul(hn::Load(kFloats, out + i), set(factor)), kFloats, out + i);
}

template <int kRows>
HWY_INLINE void weigh_group(const GroupTile& t, int64_t stride) {
  constexpr int kPadded = 8;
  alignas(64) float max[2 * kPadded] = {}, rescale[2 * kPadded] = {};
  for (int r = 0; r < kRows; ++r) {
    const float top = t.sees(r) ? mask_scores(t, r) : t.max[r];
    max[r] = top > t.max[r] ? top : t.max[r];
    rescale[r] = t.max[r] - max[r];
  }
  for (int64_t i = 0; i < kPadded; i += kLanes) hn::Store(exp(hn::Load(kFloats, rescale + i)), kFloats, rescale + i);
  for (int r = 0; r < kRows; ++r) {
    if (!t.sees(r)) continue;
    weigh_scores(t, r, max[r], rescale[r]);
    rescale_row(t.out + r * stride, stride, rescale[r]);
    t.max[r] = max[r];
  }
}

// Slots that all rows see are taken together, the others row by row: what is not seen is not touched.
template <int kRows>
HWY_INLINE void add_values(const GroupTile& t, int64_t stride) {
  int begin = t.begin[0], end = t.end[0];
  for (int r = 1; r < kRows; ++r) {
    begin = std::max(begin, t.begin[r]);
    end = std::min(end, t.end[r]);
  }
  const auto add_row = [&](int r, int from, int to) HWY_ATTR {
    if (from < to)
      multiply<1, 4, false>(t.scores + r * kTile + from, t.v + from * stride, stride, to - from, t.out + r * stride,
                            stride, stride, false);
  };
  if (begin >= end) {
    for (int r = 0; r < kRows; ++r) add_row(r, t.begin[r], t.end[r]);
    return;
  }
  for (int r = 0; r < kRows; ++r) add_row(r, t.begin[r], begin);
  multiply<kRows, std::min(4, block_vectors(kRows)), false>(t.scores + begin, t.v + begin * stride, stride, end - begin,
                                                            t.out, stride, stride, false);
  for (int r = 0; r < kRows; ++r) add_row(r, end, t.end[r]);
}

template <int kRows>
HWY_NOINLINE void attend_group(const GroupTile& t) {
  const int64_t dim = t.call->kv.head_dim;
  constexpr int kVectors = std::min<int>(block_vectors(kRows), kTileVectors);
  multiply<kRows, kVectors, true>(t.queries, t.k, kTile, dim, t.scores, kTile, kTile, true);
  weigh_group<kRows>(t, padded(dim));
  add_values<kRows>(t, padded(dim));
}

template <int kRows = kGroupRows>
HWY_INLINE void attend_group(int64_t rows, const GroupTile& t) {
  if constexpr (kRows > 0) {
    if (rows == kRows)
      attend_group<kRows>(t);
    else
      attend_group<kRows - 1>(rows, t);
  }
}

// ---- A task.

// q4's keys are rotated, and so are the queries that meet them.
HWY_INLINE void rotate_queries(const AttendTask& t, int64_t rows, float* to) {
  const int64_t dim = t.call->kv.head_dim, n = hadamard_size(dim);
  alignas(64) float q[kMostRotated];
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t begin = 0; begin < dim; begin += n) {
      for (int64_t d = 0; d < n; ++d) q[d] = to[(begin + d) * rows + r];
      hadamard(q, n, n);
      for (int64_t d = 0; d < n; ++d) to[(begin + d) * rows + r] = q[d];
    }
}

void pack_queries(const AttendTask& t, float* to) {
  const int64_t dim = t.call->kv.head_dim;
  for (int64_t base = 0; base < t.rows(); base += kGroupRows) {
    const int64_t rows = std::min<int64_t>(kGroupRows, t.rows() - base);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t row = t.sequence->row_begin + t.row + (base + r) / t.group,
                    head = t.kv_head * t.group + (base + r) % t.group;
      const float* q = t.call->q + row * t.call->ldq + head * dim;
      for (int64_t d = 0; d < dim; ++d) to[base * dim + d * rows + r] = q[d];
    }
    if (t.call->kv.type == KvType::q4) rotate_queries(t, rows, to + base * dim);
  }
}

HWY_INLINE const std::byte* head_of(const AttendTask& t, int64_t tile) {
  const KvShape& kv = t.call->kv;
  const auto block = static_cast<uint64_t>(t.sequence->blocks[tile % t.sequence->block_count]);
  return t.call->pool + block * kv_block_stride(kv) + static_cast<uint64_t>(t.kv_head * kv_layout(kv).head_bytes);
}

HWY_INLINE void attend_tile(const AttendTask& t, const AttendScratch& s, const AttendPartial& p, int64_t tile) {
  const KvShape& kv = t.call->kv;
  const KvLayout layout = kv_layout(kv);
  const int64_t dim = kv.head_dim, first = tile * kTile;
  const std::byte* head = head_of(t, tile);
  const int64_t ahead = tile < t.position(t.rows() - 1) / kTile ? head_of(t, tile + 1) - head : 0;
  GroupTile g;
  g.call = t.call;
  g.k = load_keys(kv, layout, head, s.k, ahead);
  g.v = load_values(kv, layout, head, s.v, ahead);
  g.scores = s.scores;
  for (int64_t base = 0; base < t.rows(); base += kGroupRows) {
    const int64_t rows = std::min<int64_t>(kGroupRows, t.rows() - base);
    bool seen = false;
    for (int64_t r = 0; r < rows; ++r) {
      g.begin[r] = static_cast<int>(std::max<int64_t>(t.first_visible(base + r) - first, 0));
      g.end[r] = static_cast<int>(std::min<int64_t>(t.position(base + r) + 1 - first, kTile));
      seen = seen || g.sees(static_cast<int>(r));
    }
    if (!seen) continue;
    g.queries = s.queries + base * dim;
    g.out = p.out + base * padded(dim);
    g.max = p.max + base;
    g.lanes = s.lanes + base * kSumLanes;
    attend_group(rows, g);
  }
}

// All rows see all positions of the span.
HWY_INLINE bool all_see_span(const AttendTask& t, int64_t tile) {
  return t.first_visible(t.rows() - 1) <= tile * kTile && (tile + kSpan) * kTile <= t.position(0) + 1;
}

template <class Keys, class Values>
HWY_INLINE void attend_span_groups(const AttendTask& t, const AttendScratch& s, const AttendPartial& p, const Keys* k,
                                   const Values* v) {
  const int64_t dim = t.call->kv.head_dim;
  for (int64_t base = 0; base < t.rows(); base += kGroupRows) {
    const GroupSpan g{t.call,       s.queries + base * dim,    s.scores, p.out + base * padded(dim),
                      p.max + base, s.lanes + base * kSumLanes};
    attend_group_span<Keys, Values>(std::min<int64_t>(kGroupRows, t.rows() - base), g, k, v);
  }
}

// Keys and values that one group uses are widened where they are used.
template <class Matrix>
HWY_INLINE void attend_span_in_place(const AttendTask& t, const AttendScratch& s, const AttendPartial& p,
                                     int64_t tile) {
  const int64_t v_offset = kv_layout(t.call->kv).v, last = t.position(t.rows() - 1) / kTile;
  Matrix k[kSpan], v[kSpan];
  for (int64_t i = 0; i < kSpan; ++i) {
    const std::byte* head = head_of(t, tile + i);
    const std::byte* next = head_of(t, std::min(tile + i + kSpan, last));
    k[i] = {reinterpret_cast<const uint16_t*>(head), reinterpret_cast<const uint16_t*>(next)};
    v[i] = {reinterpret_cast<const uint16_t*>(head + v_offset), reinterpret_cast<const uint16_t*>(next + v_offset)};
  }
  attend_span_groups(t, s, p, k, v);
}

// q8, q4: only the scales are widened beforehand.
template <class Keys, class Values>
HWY_INLINE void attend_grouped_span_in_place(const AttendTask& t, const AttendScratch& s, const AttendPartial& p,
                                             int64_t tile) {
  const KvLayout layout = kv_layout(t.call->kv);
  const int64_t scales = layout.groups * kTile, last = t.position(t.rows() - 1) / kTile;
  using Code = std::remove_reference_t<decltype(*Keys::at)>;
  Keys k[kSpan];
  Values v[kSpan];
  for (int64_t i = 0; i < kSpan; ++i) {
    const std::byte* head = head_of(t, tile + i);
    const std::byte* next = head_of(t, std::min(tile + i + kSpan, last));
    widen(KvType::f16, head + layout.k_scales, s.k + i * scales, scales, next - head);
    widen(KvType::f16, head + layout.v_scales, s.v + i * scales, scales, next - head);
    k[i] = {reinterpret_cast<Code*>(head), reinterpret_cast<Code*>(next), s.k + i * scales};
    v[i] = {reinterpret_cast<Code*>(head + layout.v), reinterpret_cast<Code*>(next + layout.v), s.v + i * scales};
  }
  attend_span_groups(t, s, p, k, v);
}

HWY_INLINE void attend_span(const AttendTask& t, const AttendScratch& s, const AttendPartial& p, int64_t tile) {
  const KvShape& kv = t.call->kv;
  const bool in_place = t.rows() <= kGroupRows && padded(kv.head_dim) == kv.head_dim;
  if (in_place && kv.type == KvType::bf16) return attend_span_in_place<Bf16Matrix>(t, s, p, tile);
  if (in_place && kv.type == KvType::f16) return attend_span_in_place<F16Matrix>(t, s, p, tile);
  if (in_place && kv.head_dim % kKvGroup == 0) {
    if (kv.type == KvType::q8) return attend_grouped_span_in_place<Q8Keys, Q8Values>(t, s, p, tile);
    if (kv.type == KvType::q4) return attend_grouped_span_in_place<Q4Keys, Q4Values>(t, s, p, tile);
  }
  const KvLayout layout = kv_layout(kv);
  FloatMatrix k[kSpan], v[kSpan];
  for (int64_t i = 0; i < kSpan; ++i) {
    const std::byte* head = head_of(t, tile + i);
    const int64_t ahead = tile + i < t.position(t.rows() - 1) / kTile ? head_of(t, tile + i + 1) - head : 0;
    k[i] = {load_keys(kv, layout, head, s.k + i * kTile * kv.head_dim, ahead)};
    v[i] = {load_values(kv, layout, head, s.v + i * kTile * padded(kv.head_dim), ahead)};
  }
  attend_span_groups(t, s, p, k, v);
}

// The tiles of one segment, in order, into p.
void sum_segment(const AttendTask& t, const AttendScratch& s, int64_t segment, const AttendPartial& p) {
  const int64_t rows = t.rows(), begin = std::max(t.first_visible(0), segment * kSegment);
  const int64_t end = std::min(t.position(rows - 1) + 1, (segment + 1) * kSegment);
  std::fill_n(p.out, rows * padded(t.call->kv.head_dim), 0.0f);
  std::fill_n(p.max, rows, kMinusInfinity);
  std::fill_n(s.lanes, rows * kSumLanes, 0.0f);
  for (int64_t tile = begin / kTile; tile * kTile < end;) {
    const bool together = all_see_span(t, tile) && (tile + kSpan) * kTile <= end;
    if (together)
      attend_span(t, s, p, tile);
    else
      attend_tile(t, s, p, tile);
    tile += together ? kSpan : 1;
  }
  for (int64_t r = 0; r < rows; ++r) p.sum[r] = sum_by_halves<kSumLanes>(s.lanes + r * kSumLanes);
}

HWY_INLINE void merge_row(float* total, const float* out, int64_t n, float a, float b) {
  for (int64_t i = 0; i < n; i += kLanes)
    hn::Store(hn::MulAdd(hn::Load(kFloats, total + i), set(a), hn::Mul(hn::Load(kFloats, out + i), set(b))), kFloats,
              total + i);
}

// Adds one segment's part to the rows' totals; a row's first segment starts it.
void merge_into_total(const AttendTask& t, int64_t segment, const AttendPartial& p, const AttendPartial& total) {
  const int64_t stride = padded(t.call->kv.head_dim);
  for (int64_t r = 0; r < t.rows(); ++r) {
    const int64_t first = t.first_visible(r) / kSegment;
    if (segment < first || segment * kSegment > t.position(r)) continue;
    if (segment == first) {
      if (p.out != total.out) std::copy_n(p.out + r * stride, stride, total.out + r * stride);
      total.max[r] = p.max[r];
      total.sum[r] = p.sum[r];
      continue;
    }
    const float max = p.max[r] > total.max[r] ? p.max[r] : total.max[r];
    const float a = hn::GetLane(exp(set(total.max[r] - max))), b = hn::GetLane(exp(set(p.max[r] - max)));
    total.max[r] = max;
    total.sum[r] = hn::GetLane(hn::MulAdd(set(total.sum[r]), set(a), set(p.sum[r] * b)));
    merge_row(total.out + r * stride, p.out + r * stride, stride, a, b);
  }
}

void finish_rows(const AttendTask& t, const AttendPartial& total) {
  const int64_t dim = t.call->kv.head_dim, stride = padded(dim);
  for (int64_t r = 0; r < t.rows(); ++r) {
    float* out = total.out + r * stride;
    for (int64_t i = 0; i < stride; i += kLanes)
      hn::Store(hn::Div(hn::Load(kFloats, out + i), set(total.sum[r])), kFloats, out + i);
    const int64_t row = t.sequence->row_begin + t.row + r / t.group, head = t.kv_head * t.group + r % t.group;
    std::copy_n(out, dim, t.call->y + row * t.call->ldy + head * dim);
  }
}

void attend_all_segments(const AttendTask& t, const AttendScratch& s) {
  pack_queries(t, s.queries);
  for (int64_t segment = t.first_segment(); segment <= t.last_segment(); ++segment) {
    sum_segment(t, s, segment, s.segment);
    merge_into_total(t, segment, s.segment, s.total);
  }
  finish_rows(t, s.total);
}

void attend_one_segment(const AttendTask& t, const AttendScratch& s, int64_t segment, const AttendPartial& p) {
  pack_queries(t, s.queries);
  sum_segment(t, s, segment, p);
}

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tenon::cpu {

HWY_EXPORT(attend_all_segments);
HWY_EXPORT(attend_one_segment);
HWY_EXPORT(merge_into_total);
HWY_EXPORT(finish_rows);

void attend_task(const AttendTask& task, const AttendScratch& scratch) noexcept {
  HWY_DYNAMIC_DISPATCH(attend_all_segments)(task, scratch);
}
void attend_segment(const AttendTask& task, const AttendScratch& scratch, int64_t segment,
                    const AttendPartial& partial) noexcept {
  HWY_DYNAMIC_DISPATCH(attend_one_segment)(task, scratch, segment, partial);
}
void merge_segment(const AttendTask& task, int64_t segment, const AttendPartial& partial,
                   const AttendPartial& total) noexcept {
  HWY_DYNAMIC_DISPATCH(merge_into_total)(task, segment, partial, total);
}
void write_rows(const AttendTask& task, const AttendPartial& total) noexcept {
  HWY_DYNAMIC_DISPATCH(finish_rows)(task, total);
}

}  // namespace tenon::cpu
#endif  // HWY_ONCE
