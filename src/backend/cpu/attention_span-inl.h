// A row group against several whole tiles at once, for inclusion per Highway target. The same arithmetic as tile by
// tile; the tiles' independent parts overlap, and sums stay in registers from tile to tile.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "backend/cpu/attention_task.h"
#include "backend/cpu/kv_widen-inl.h"
#include "backend/cpu/math-inl.h"
#include "hwy/highway.h"

#if defined(TENON_BACKEND_CPU_ATTENTION_SPAN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TENON_BACKEND_CPU_ATTENTION_SPAN_INL_H
#undef TENON_BACKEND_CPU_ATTENTION_SPAN_INL_H
#else
#define TENON_BACKEND_CPU_ATTENTION_SPAN_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr int64_t kTileVectors = kTile / kLanes;
constexpr int64_t kSumLanes = 16;
constexpr int64_t kSpan = kAttendSpan;
constexpr int64_t kSpanPositions = kSpan * kTile;

// Accumulators fill the registers: rows of a group x vectors of a block.
constexpr bool kManyRegisters = kLanes == 16;
constexpr int kGroupRows = kManyRegisters ? 8 : 6;
constexpr int block_vectors(int rows) {
  if (kManyRegisters) return rows <= 3 ? 8 : rows <= 6 ? 4 : 2;
  return rows == 1 ? 8 : rows <= 3 ? 4 : 2;
}

// sums[r][v] += left[r] * right[v]; the smaller side is kept in registers.
template <int kRows, int kVectors, class Left, class Right>
HWY_INLINE void add_products(Vec (&sums)[kRows][kVectors], const Left& left, const Right& right) {
  if constexpr (kRows < kVectors) {
    Vec l[kRows];
    TENON_UNROLL
    for (int r = 0; r < kRows; ++r) l[r] = left(r);
    TENON_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const Vec b = right(v);
      TENON_UNROLL
      for (int r = 0; r < kRows; ++r) sums[r][v] = hn::MulAdd(l[r], b, sums[r][v]);
    }
  } else {
    Vec b[kVectors];
    TENON_UNROLL
    for (int v = 0; v < kVectors; ++v) b[v] = right(v);
    TENON_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const Vec l = left(r);
      TENON_UNROLL
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(l, b[v], sums[r][v]);
    }
  }
}

struct GroupSpan {
  const AttendCall* call;
  const float* queries;  // [head_dim][rows]
  float* scores;         // [rows][128], become weights
  float* out;            // [rows][padded head_dim]
  float* max;
  float* lanes;  // [rows][16]
};

HWY_INLINE Vec finish_score(const AttendCall& call, Vec product) {
  const Vec score = hn::Mul(product, set(call.scale));
  if (!(call.softcap > 0)) return score;
  const Vec cap = set(call.softcap);
  return hn::Mul(cap, tanh(hn::Div(score, cap)));
}

// Scores of kVectors vectors of positions from `first` on.
template <int kRows, int kVectors, class Matrix>
HWY_INLINE void score_block(const GroupSpan& g, const Matrix* k, int64_t first) {
  constexpr int kTiles = std::max<int>(1, kVectors / kTileVectors), kColumns = kVectors / kTiles;
  Matrix tiles[kTiles];
  for (int t = 0; t < kTiles; ++t) tiles[t] = k[first / kTile + t].from(first % kTile);
  Vec sums[kRows][kVectors];
  TENON_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TENON_UNROLL
    for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(kFloats);
  }
  for (int64_t d = 0; d < g.call->kv.head_dim; ++d) {
    TENON_UNROLL
    for (int t = 0; t < kTiles; ++t) tiles[t].prefetch(d * kTile);
    add_products(
        sums, [&](int r) HWY_ATTR { return set(g.queries[d * kRows + r]); },
        [&](int v) HWY_ATTR { return tiles[v / kColumns].load(d * kTile + v % kColumns * kLanes); });
  }
  TENON_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TENON_UNROLL
    for (int v = 0; v < kVectors; ++v)
      hn::Store(finish_score(*g.call, sums[r][v]), kFloats, g.scores + r * kSpanPositions + first + v * kLanes);
  }
}

// Per tile, the factor of what came before it: [tile][8 rows].
struct Rescale {
  static constexpr int kStride = 8;
  alignas(64) float factors[kSpan * kStride] = {};
};

// Scores become weights relative to the largest score so far, tile by tile, and are added to the rows' running sums.
template <int kRows>
HWY_INLINE void weigh_span(const GroupSpan& g, Rescale& rescale) {
  float max[kSpan][kRows];
  for (int r = 0; r < kRows; ++r)
    for (int64_t t = 0; t < kSpan; ++t) {
      const float* scores = g.scores + r * kSpanPositions + t * kTile;
      Vec top = hn::Load(kFloats, scores);
      for (int64_t j = kLanes; j < kTile; j += kLanes) top = hn::Max(top, hn::Load(kFloats, scores + j));
      max[t][r] = hn::GetLane(hn::MaxOfLanes(kFloats, top));
    }
  for (int r = 0; r < kRows; ++r) {
    float before = g.max[r];
    for (int64_t t = 0; t < kSpan; ++t) {
      max[t][r] = max[t][r] > before ? max[t][r] : before;
      rescale.factors[t * Rescale::kStride + r] = before - max[t][r];
      before = max[t][r];
    }
    g.max[r] = before;
  }
  for (int64_t i = 0; i < kSpan * Rescale::kStride; i += kLanes)
    hn::Store(exp(hn::Load(kFloats, rescale.factors + i)), kFloats, rescale.factors + i);
  for (int r = 0; r < kRows; ++r)
    for (int64_t j = 0; j < kSumLanes; j += kLanes) {
      Vec sum = hn::Load(kFloats, g.lanes + r * kSumLanes + j);
      TENON_UNROLL
      for (int64_t t = 0; t < kSpan; ++t) {
        float* scores = g.scores + r * kSpanPositions + t * kTile + j;
        const Vec top = set(max[t][r]);
        const Vec a = exp(hn::Sub(hn::Load(kFloats, scores), top));
        const Vec b = exp(hn::Sub(hn::Load(kFloats, scores + kSumLanes), top));
        hn::Store(a, kFloats, scores);
        hn::Store(b, kFloats, scores + kSumLanes);
        sum = hn::MulAdd(sum, set(rescale.factors[t * Rescale::kStride + r]), hn::Add(a, b));
      }
      hn::Store(sum, kFloats, g.lanes + r * kSumLanes + j);
    }
}

// kVectors vectors of the rows' output from column `first` on.
template <int kRows, int kVectors, class Matrix>
HWY_INLINE void add_values_block(const GroupSpan& g, const Rescale& rescale, const Matrix* v, int64_t first) {
  const int64_t stride = padded(g.call->kv.head_dim);
  float* out = g.out + first;
  Vec sums[kRows][kVectors];
  TENON_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TENON_UNROLL
    for (int i = 0; i < kVectors; ++i) sums[r][i] = hn::Load(kFloats, out + r * stride + i * kLanes);
  }
  for (int64_t t = 0; t < kSpan; ++t) {
    TENON_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const Vec factor = set(rescale.factors[t * Rescale::kStride + r]);
      TENON_UNROLL
      for (int i = 0; i < kVectors; ++i) sums[r][i] = hn::Mul(sums[r][i], factor);
    }
    const Matrix tile = v[t];
    const float* weights = g.scores + t * kTile;
    for (int64_t j = 0; j < kTile; ++j) {
      TENON_UNROLL
      for (int i = 0; i < kVectors; ++i) tile.prefetch(j * stride + first + i * kLanes);
      add_products(
          sums, [&](int r) HWY_ATTR { return set(weights[r * kSpanPositions + j]); },
          [&](int i) HWY_ATTR { return tile.load(j * stride + first + i * kLanes); });
    }
  }
  TENON_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TENON_UNROLL
    for (int i = 0; i < kVectors; ++i) hn::Store(sums[r][i], kFloats, out + r * stride + i * kLanes);
  }
}

template <int kRows, int kVectors, class Matrix>
HWY_INLINE void add_values(const GroupSpan& g, const Rescale& rescale, const Matrix* v, int64_t first) {
  const int64_t end = padded(g.call->kv.head_dim);
  for (; first + kVectors * kLanes <= end; first += kVectors * kLanes)
    add_values_block<kRows, kVectors>(g, rescale, v, first);
  if constexpr (kVectors > 1) {
    if (first < end) add_values<kRows, kVectors / 2>(g, rescale, v, first);
  }
}

// k: the tiles' [head_dim][32], v: [32][padded head_dim].
template <int kRows, class Keys, class Values>
HWY_NOINLINE void attend_group_span(const GroupSpan& g, const Keys* k, const Values* v) {
  constexpr int kVectors = std::min<int>(block_vectors(kRows), kSpanPositions / kLanes);
  for (int64_t first = 0; first < kSpanPositions; first += kVectors * kLanes) score_block<kRows, kVectors>(g, k, first);
  Rescale rescale;
  weigh_span<kRows>(g, rescale);
  add_values<kRows, block_vectors(kRows)>(g, rescale, v, 0);
}

template <class Keys, class Values, int kRows = kGroupRows>
HWY_INLINE void attend_group_span(int64_t rows, const GroupSpan& g, const Keys* k, const Values* v) {
  if constexpr (kRows > 0) {
    if (rows == kRows)
      attend_group_span<kRows, Keys, Values>(g, k, v);
    else
      attend_group_span<Keys, Values, kRows - 1>(rows, g, k, v);
  }
}

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
