#include "backend/cpu/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "backend/cpu/hadamard.h"
#include "backend/reference/attention.h"
#include "support/isa_levels.h"

namespace tenon::cpu {
namespace {

using test::at_every_isa;
using test::is_fused;
using Vector = std::vector<float>;

constexpr float kSentinel = 12345.678f;
constexpr KvType kTypes[] = {KvType::f32, KvType::f16, KvType::bf16, KvType::q8, KvType::q4};

struct Shape {
  KvType type = KvType::bf16;
  int64_t heads = 1, kv_heads = 1, head_dim = 16;
  int64_t window = 0;
  float softcap = 0;

  KvShape kv() const { return {type, kv_heads, head_dim}; }
  int64_t q_size() const { return heads * head_dim; }
  int64_t kv_size() const { return kv_heads * head_dim; }
};

std::string text(const Shape& s) {
  return "type " + std::to_string(static_cast<int>(s.type)) + ", heads " + std::to_string(s.heads) + "/" +
         std::to_string(s.kv_heads) + " x " + std::to_string(s.head_dim) + ", window " + std::to_string(s.window) +
         ", softcap " + std::to_string(s.softcap);
}

// The queries, keys and values of one sequence.
struct Tokens {
  int64_t count;
  Vector q, k, v;

  Tokens(const Shape& s, int64_t n, uint32_t seed) : count(n) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal(0, 1.5f);
    for (auto [values, size] : {std::pair{&q, s.q_size()}, {&k, s.kv_size()}, {&v, s.kv_size()}}) {
      values->resize(static_cast<size_t>(n * size));
      for (float& x : *values) x = normal(engine);
    }
  }
};

struct Aligned {
  explicit Aligned(size_t bytes)
      : memory(bytes + 64, std::byte{0xFF}) {}  // NaN in every type: what nobody wrote must not be used
  std::byte* data() { return memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64; }
  std::vector<std::byte> memory;
};

enum class By { vector_code, reference };

// A pool and sequences that advance in it step by step.
class Scene {
 public:
  Scene(const Shape& shape, int threads, By by = By::vector_code)
      : shape_(shape),
        pool_bytes_(kv_block_bytes(shape.kv())),
        by_(by),
        threads_(threads),
        scratch_(attend_scratch_bytes(shape.kv(), shape.heads, threads)) {}

  // `blocks` scattered blocks of the pool belong to the sequence; fewer than it needs make a ring.
  void add(const Tokens& tokens, int64_t blocks) {
    std::vector<int32_t> table(static_cast<size_t>(blocks));
    std::iota(table.begin(), table.end(), used_);
    std::shuffle(table.begin(), table.end(), std::mt19937(7));
    used_ += static_cast<int32_t>(blocks);
    sequences_.push_back({&tokens, std::move(table), 0, Vector(tokens.q.size(), kSentinel)});
  }

  // The first `count` tokens of every sequence are stored without being attended to from.
  void store_prefix(int64_t count) {
    make_pool();
    for (Sequence& s : sequences_) {
      const std::vector<AttendSequence> rows = {{0, count, 0, s.table.data(), static_cast<int64_t>(s.table.size())}};
      store_kv(shape_.kv(), pool_->data(), s.tokens->k.data(), shape_.kv_size(), s.tokens->v.data(), shape_.kv_size(),
               rows, threads_);
      s.done = count;
    }
  }

  // Every sequence in turn takes up to `chunk` of its tokens in each step, until all are done.
  void run(int64_t chunk) {
    make_pool();
    while (step(chunk)) {
    }
  }

  const Vector& output(size_t sequence) const { return sequences_[sequence].y; }

 private:
  struct Sequence {
    const Tokens* tokens;
    std::vector<int32_t> table;
    int64_t done;
    Vector y;
  };

  // Rows of a step are packed, with a gap between rows and sentinels in it.
  static constexpr int64_t kGap = 3;

  void make_pool() {
    if (!pool_) pool_ = std::make_unique<Aligned>(static_cast<size_t>(used_) * pool_bytes_);
  }

  bool step(int64_t chunk) {
    const int64_t ldq = shape_.q_size() + kGap, ldk = shape_.kv_size() + kGap;
    std::vector<AttendSequence> rows;
    Vector q, k, v;
    int64_t count = 0;
    for (const Sequence& s : sequences_) {
      const int64_t n = std::min(chunk, s.tokens->count - s.done);
      if (n == 0) continue;
      rows.push_back({count, n, s.done, s.table.data(), static_cast<int64_t>(s.table.size())});
      for (int64_t r = s.done; r < s.done + n; ++r) {
        append(q, s.tokens->q, r, shape_.q_size());
        append(k, s.tokens->k, r, shape_.kv_size());
        append(v, s.tokens->v, r, shape_.kv_size());
      }
      count += n;
    }
    if (rows.empty()) return false;
    Vector y(static_cast<size_t>(count * ldq), kSentinel);
    attend_rows(rows, q, k, v, y, ldq, ldk);
    auto part = rows.begin();
    for (Sequence& s : sequences_) {
      if (s.done == s.tokens->count) continue;
      for (int64_t r = 0; r < part->row_count; ++r) take(y, part->row_begin + r, s.y, s.done + r);
      s.done += part++->row_count;
    }
    return true;
  }

  void append(Vector& to, const Vector& from, int64_t row, int64_t size) {
    to.insert(to.end(), from.begin() + row * size, from.begin() + (row + 1) * size);
    to.insert(to.end(), kGap, kSentinel);
  }

  void take(const Vector& y, int64_t row, Vector& to, int64_t to_row) {
    const int64_t size = shape_.q_size();
    const auto from = y.begin() + row * (size + kGap);
    std::copy_n(from, size, to.begin() + to_row * size);
    for (int64_t i = size; i < size + kGap; ++i) EXPECT_EQ(from[i], kSentinel) << "written between rows";
  }

  void attend_rows(const std::vector<AttendSequence>& rows, const Vector& q, const Vector& k, const Vector& v,
                   Vector& y, int64_t ldq, int64_t ldk) {
    AttendCall call;
    call.kv = shape_.kv();
    call.heads = shape_.heads;
    call.scale = 1 / std::sqrt(static_cast<float>(shape_.head_dim));
    call.window = shape_.window;
    call.softcap = shape_.softcap;
    call.q = q.data();
    call.y = y.data();
    call.ldq = call.ldy = ldq;
    call.pool = pool_->data();
    call.sequences = rows;
    call.scratch = scratch_.data();
    if (by_ == By::reference) {
      reference::store_kv(call.kv, call.pool, k.data(), ldk, v.data(), ldk, rows);
      reference::attend(call);
    } else {
      store_kv(call.kv, call.pool, k.data(), ldk, v.data(), ldk, rows, threads_);
      attend(call, threads_);
    }
  }

  Shape shape_;
  size_t pool_bytes_;
  By by_;
  ThreadPool threads_;
  Aligned scratch_;
  std::unique_ptr<Aligned> pool_;
  int32_t used_ = 0;
  std::vector<Sequence> sequences_;
};

int64_t blocks_for(int64_t positions) { return (positions + kKvBlock - 1) / kKvBlock; }

Vector alone(const Shape& shape, const Tokens& tokens, int64_t chunk, int threads, By by = By::vector_code) {
  Scene scene(shape, threads, by);
  scene.add(tokens, blocks_for(tokens.count));
  scene.run(chunk);
  return scene.output(0);
}

void expect_same_bits(const Vector& got, const Vector& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(0, std::memcmp(&got[i], &want[i], sizeof(float)))
        << "element " << i << ": " << got[i] << ", not " << want[i];
}

void expect_near(const Vector& got, const Vector& want, float tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], tolerance) << "element " << i;
}

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (KvType type : kTypes) {
    all.push_back({type, 9, 3, 64});
    all.push_back({type, 4, 1, 80, 0, 30});
    all.push_back({type, 2, 2, 17, 40});
    all.push_back({type, 14, 2, 36, 33, 5});
  }
  all.push_back({KvType::bf16, 1, 1, 256});
  all.push_back({KvType::bf16, 71, 1, 8});
  all.push_back({KvType::q8, 3, 1, 33, 1});
  all.push_back({KvType::q4, 5, 1, 128});
  return all;
}

TEST(Attention, IsTheReference) {
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(text(shape));
    const Tokens tokens(shape, 165, 1);
    const Vector want = alone(shape, tokens, 165, 1, By::reference);
    at_every_isa([&](Isa level) {
      const Vector got = alone(shape, tokens, 165, 1);
      // Scores of head_dim roundings each move the weights; the values are of size 1.5 or so.
      if (is_fused(level))
        expect_same_bits(got, want);
      else
        expect_near(got, want, 0x1p-24f * 64 * std::sqrt(static_cast<float>(shape.head_dim)));
    });
  }
}

TEST(Attention, IsSoftmaxInDoublePrecision) {
  at_every_isa([](Isa) {
    for (Shape shape : {Shape{KvType::f32, 4, 2, 40}, Shape{KvType::f32, 2, 2, 24, 20, 4}}) {
      const Tokens t(shape, 150, 2);
      const Vector y = alone(shape, t, 150, 2);
      const int64_t dim = shape.head_dim;
      for (int64_t r = 0; r < t.count; ++r)
        for (int64_t h = 0; h < shape.heads; ++h) {
          const int64_t kv_head = h / (shape.heads / shape.kv_heads);
          std::vector<double> out(static_cast<size_t>(dim));
          double sum = 0;
          for (int64_t p = shape.window ? std::max<int64_t>(0, r - shape.window + 1) : 0; p <= r; ++p) {
            const auto at = static_cast<size_t>((p * shape.kv_heads + kv_head) * dim);
            double score = 0;
            for (size_t d = 0; d < out.size(); ++d)
              score += double{t.q[static_cast<size_t>(r * shape.q_size() + h * dim) + d]} * t.k[at + d];
            score /= std::sqrt(static_cast<double>(dim));
            if (shape.softcap > 0) score = shape.softcap * std::tanh(score / shape.softcap);
            sum += std::exp(score);
            for (size_t d = 0; d < out.size(); ++d) out[d] += std::exp(score) * t.v[at + d];
          }
          for (size_t d = 0; d < out.size(); ++d)
            ASSERT_NEAR(y[static_cast<size_t>(r * shape.q_size() + h * dim) + d], out[d] / sum, 1e-5)
                << "row " << r << " head " << h;
        }
    }
  });
}

TEST(Attention, SameBitsInChunksAndWithThreads) {
  at_every_isa([](Isa) {
    for (const Shape& shape : shapes()) {
      SCOPED_TRACE(text(shape));
      const Tokens tokens(shape, 135, 3);
      const Vector want = alone(shape, tokens, 135, 1);
      for (int64_t chunk : {1, 7, 64}) expect_same_bits(alone(shape, tokens, chunk, 1), want);
      for (int64_t chunk : {1, 64, 135}) expect_same_bits(alone(shape, tokens, chunk, 2), want);
    }
  });
}

TEST(Attention, SameBitsInABatch) {
  at_every_isa([](Isa) {
    for (const Shape& shape : shapes()) {
      SCOPED_TRACE(text(shape));
      const Tokens a(shape, 70, 4), b(shape, 1, 5), c(shape, 133, 6), d(shape, 32, 7);
      for (int64_t chunk : {1, 40, 200})
        for (int threads : {1, 2}) {
          Scene scene(shape, threads);
          const Tokens* all[] = {&a, &b, &c, &d};
          for (const Tokens* t : all) scene.add(*t, blocks_for(t->count));
          scene.run(chunk);
          for (size_t i = 0; i < 4; ++i) expect_same_bits(scene.output(i), alone(shape, *all[i], 50, 1));
        }
    }
  });
}

TEST(Attention, SameBitsInARingOfBlocks) {
  at_every_isa([](Isa) {
    for (Shape shape :
         {Shape{KvType::bf16, 4, 2, 32, 40}, Shape{KvType::q8, 2, 1, 48, 33}, Shape{KvType::f32, 1, 1, 16, 1}})
      for (int64_t chunk : {1, 30, 64}) {
        SCOPED_TRACE(text(shape) + ", chunk " + std::to_string(chunk));
        const Tokens tokens(shape, 330, 8);
        Scene scene(shape, 2);
        // The window before the chunk's first token, the chunk, and what shares blocks with them.
        scene.add(tokens, blocks_for(shape.window + chunk) + 1);
        scene.run(chunk);
        expect_same_bits(scene.output(0), alone(shape, tokens, 330, 1));
      }
  });
}

TEST(Attention, SameBitsAcrossSegments) {
  for (Shape shape :
       {Shape{KvType::bf16, 3, 1, 16}, Shape{KvType::q8, 1, 1, 32, 1500}, Shape{KvType::f16, 2, 1, 16, 1024, 3}}) {
    SCOPED_TRACE(text(shape));
    const int64_t count = 2 * kSegment + 70;
    const Tokens tokens(shape, count, 9);
    const Vector plain = alone(shape, tokens, count, 1, By::reference);
    at_every_isa([&](Isa level) {
      const Vector want = alone(shape, tokens, count, 1);
      if (is_fused(level)) expect_same_bits(want, plain);
      expect_same_bits(alone(shape, tokens, 1, 2), want);
      for (int threads : {1, 2, 3}) expect_same_bits(alone(shape, tokens, 500, threads), want);
    });
  }
}

// More segments than are summed at a time; rows that end in the middle of that, and a short one beside them.
TEST(Attention, SameBitsWhenManySegmentsAreSharedByThreads) {
  for (Shape shape : {Shape{KvType::bf16, 3, 1, 8}, Shape{KvType::q8, 2, 1, 16, 30 * kSegment}}) {
    SCOPED_TRACE(text(shape));
    const int64_t prefix = 36 * kSegment + 5;
    const Tokens a(shape, prefix + 2, 13), b(shape, prefix + 3, 14), c(shape, prefix + 2, 15);
    const auto decode = [&](int threads, By by) {
      Scene scene(shape, threads, by);
      for (const Tokens* t : {&a, &b, &c}) scene.add(*t, blocks_for(t->count));
      scene.store_prefix(prefix);
      scene.run(1);
      return std::vector<Vector>{scene.output(0), scene.output(1), scene.output(2)};
    };
    const std::vector<Vector> plain = decode(1, By::reference);
    at_every_isa([&](Isa level) {
      const std::vector<Vector> want = decode(1, By::vector_code);
      for (size_t i = 0; i < 3; ++i) {
        if (is_fused(level)) expect_same_bits(want[i], plain[i]);
        for (int threads : {2, 3}) expect_same_bits(decode(threads, By::vector_code)[i], want[i]);
      }
    });
  }
}

TEST(Attention, ScoresFarApartDoNotOverflow) {
  at_every_isa([](Isa) {
    const Shape shape{KvType::f32, 1, 1, 16};
    Tokens tokens(shape, 100, 10);
    for (float& x : tokens.q) x *= 1e4f;
    const Vector y = alone(shape, tokens, 100, 1);
    for (float x : y) ASSERT_TRUE(std::isfinite(x));
  });
}

TEST(Attention, NanStaysInItsHead) {
  at_every_isa([](Isa) {
    const Shape shape{KvType::q8, 2, 2, 64};
    Tokens tokens(shape, 50, 11);
    const Vector clean = alone(shape, tokens, 50, 1);
    tokens.k[static_cast<size_t>(20 * shape.kv_size() + 3)] = std::numeric_limits<float>::infinity();
    const Vector y = alone(shape, tokens, 50, 1);
    for (int64_t r = 0; r < 50; ++r)
      for (int64_t h = 0; h < 2; ++h) {
        const auto at = static_cast<size_t>(r * shape.q_size() + h * shape.head_dim);
        if (h == 0 && r >= 20)
          EXPECT_TRUE(std::isnan(y[at])) << "row " << r;
        else
          EXPECT_EQ(y[at], clean[at]) << "row " << r << " head " << h;
      }
  });
}

TEST(Attention, StoresTheSameBytesAsTheReference) {
  at_every_isa([](Isa) {
    for (KvType type : kTypes)
      for (int64_t dim : {16, 33, 100}) {
        const Shape shape{type, 2, 2, dim};
        Tokens t(shape, 40, 12);
        t.k[5] = 1e-9f, t.k[6] = -1e9f, t.v[7] = 70000, t.v[40] = -0.0f;
        for (size_t i = 0; i < static_cast<size_t>(dim); ++i) t.v[100 + i] = 0;
        t.k[300] = std::numeric_limits<float>::quiet_NaN();
        const std::vector<int32_t> table = {1, 0};
        const std::vector<AttendSequence> rows = {{0, t.count, 5, table.data(), 2}};
        const size_t bytes = 2 * kv_block_bytes(shape.kv());
        Aligned got(bytes), want(bytes);
        ThreadPool threads(2);
        store_kv(shape.kv(), got.data(), t.k.data(), shape.kv_size(), t.v.data(), shape.kv_size(), rows, threads);
        reference::store_kv(shape.kv(), want.data(), t.k.data(), shape.kv_size(), t.v.data(), shape.kv_size(), rows);
        EXPECT_EQ(0, std::memcmp(got.data(), want.data(), bytes))
            << "type " << static_cast<int>(type) << " dim " << dim;
      }
  });
}

TEST(Hadamard, IsItsOwnInverse) {
  for (int64_t dim : {64, 80, 96, 128, 1, 6}) {
    const int64_t n = hadamard_size(dim);
    Vector x(static_cast<size_t>(dim)), one(static_cast<size_t>(dim));
    std::mt19937 engine(3);
    std::normal_distribution<float> normal;
    for (float& v : x) v = normal(engine);
    Vector y = x;
    hadamard(y.data(), dim, n);
    hadamard(y.data(), dim, n);
    expect_near(y, x, 1e-5f);
    one[0] = 1;
    hadamard(one.data(), dim, n);
    for (int64_t i = 0; i < dim; ++i)
      EXPECT_FLOAT_EQ(one[static_cast<size_t>(i)], i < n ? 1 / std::sqrt(static_cast<float>(n)) : 0.0f);
  }
}

// A few large elements, as keys have them, cost the others little: with four bits the answer stays near the exact one.
TEST(Attention, Q4IsNearWithOutliers) {
  const Shape exact{KvType::f32, 4, 2, 64}, q4{KvType::q4, 4, 2, 64};
  Tokens tokens(exact, 200, 5);
  for (int64_t t = 0; t < 200; ++t) tokens.k[static_cast<size_t>(t * exact.kv_size() + 7)] *= 8;
  const Vector want = alone(exact, tokens, 200, 1), got = alone(q4, tokens, 200, 1);
  double error = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) error += std::pow(got[i] - want[i], 2), size += std::pow(want[i], 2);
  EXPECT_LT(std::sqrt(error / size), 0.35);
}

TEST(Attention, BlockBytes) {
  EXPECT_EQ(kv_block_bytes({KvType::bf16, 3, 64}), 3u * 2 * 32 * 64 * 2);
  EXPECT_EQ(kv_block_bytes({KvType::f32, 1, 17}), 2u * 32 * 17 * 4);
  EXPECT_EQ(kv_block_bytes({KvType::q8, 2, 64}), 2u * 2 * 32 * (64 + 2 * 2));
  EXPECT_EQ(kv_block_bytes({KvType::q8, 1, 33}), 2u * 32 * (33 + 2 * 2));
  EXPECT_EQ(kv_block_bytes({KvType::q4, 2, 64}), 2u * 2 * 32 * (32 + 2 * 2));
  for (KvType type : kTypes) EXPECT_EQ(kv_block_bytes({type, 3, 7}) % 64, 0u);
}

}  // namespace
}  // namespace tenon::cpu
