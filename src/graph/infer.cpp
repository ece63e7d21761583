#include "base/error.h"
#include "graph/graph.h"

namespace tenon::graph {
namespace {

using Types = std::span<const TensorType>;

[[noreturn]] void mismatch(const char* op, Types in, const char* why) {
  std::string types;
  for (const TensorType& t : in) types += (types.empty() ? "" : ", ") + to_string(t);
  fail(ErrorCode::invalid_file, "{}({}): {}; config and weights of this model do not fit together", op, types, why);
}

void expect(bool ok, const char* op, Types in, const char* why) {
  if (!ok) mismatch(op, in, why);
}

TensorType with_last(TensorType t, int64_t n, DType dtype = DType::f32) {
  t.shape.back() = n;
  t.dtype = dtype;
  return t;
}

TensorType rule(const Embedding& o, Types in) {
  expect(in.size() == 2 && in[0].shape.size() == 2 && in[1].shape.size() == 1, o.kName, in, "wants a table and ids");
  return {DType::f32, {in[1].shape[0], in[0].shape[1]}};
}

TensorType rule(const Linear& o, Types in) {
  expect((in.size() == 2 || in.size() == 3) && in[1].shape.size() == 2, o.kName, in,
         "wants x, a matrix and perhaps a bias");
  const Dim& out = in[1].shape[o.in_out ? 1 : 0];
  const Dim& k = in[1].shape[o.in_out ? 0 : 1];
  expect(in[0].last() == k.size, o.kName, in, "inner dimensions differ");
  expect(in.size() == 2 || (in[2].shape.size() == 1 && in[2].shape[0] == out), o.kName, in,
         "the bias has another size");
  return with_last(in[0], out.size);
}

TensorType rule(const LowRank& o, Types in) {
  expect(in.size() == 5 && in[0].shape.size() == 2 && in[1].shape.size() == 2 && in[4].shape.size() == 1, o.kName, in,
         "wants y, x, two stacks of matrices and the rows' adapters");
  expect(in[0].shape[0] == in[1].shape[0] && in[0].shape[0] == in[4].shape[0], o.kName, in,
         "an adapter of the head is not supported");
  const auto &a = in[2].shape, &b = in[3].shape;
  expect(a.size() == 3 && b.size() == 3 && a[0] == b[0] && a[1] == b[1] && a[2].size == in[1].last() &&
             b[2].size == in[0].last(),
         o.kName, in, "the adapter is of another model");
  return in[0];
}

TensorType rule(const RmsNorm& o, Types in) {
  expect(in.size() == 1 || (in.size() == 2 && in[1].shape.size() == 1 && in[1].last() == in[0].last()), o.kName, in,
         "the weight has another size");
  return in[0];
}

TensorType rule(const LayerNorm& o, Types in) {
  expect(in.size() == 3 && in[1].shape.size() == 1 && in[1].last() == in[0].last() && in[2].shape == in[1].shape,
         o.kName, in, "weight or bias have another size");
  return in[0];
}

TensorType rule(const RopeTable& o, Types in) {
  expect(in.size() == 1 && in[0].shape.size() == 1, o.kName, in, "wants positions");
  return {DType::f32, {in[0].shape[0], o.spec.rotary}};
}

TensorType rule(const Rope& o, Types in) {
  expect(in.size() == 2 && in[0].shape.size() == 3 && in[1].shape.size() == 2, o.kName, in,
         "wants [rows, heads, d] and a table");
  expect(in[1].last() <= in[0].last() && in[1].last() % 2 == 0, o.kName, in, "rotates more than a head");
  return in[0];
}

TensorType rule(const Attend& o, Types in) {
  expect(in.size() == 3 && in[0].shape.size() == 3 && in[1].shape.size() == 3, o.kName, in, "wants q, k, v by heads");
  expect(in[1].shape == in[2].shape && in[0].last() == in[1].last(), o.kName, in, "q, k, v differ in head size");
  int64_t heads = in[0].shape[1].size, kv_heads = in[1].shape[1].size;
  expect(kv_heads > 0 && heads % kv_heads == 0, o.kName, in, "query heads are not a multiple of key heads");
  return in[0];
}

TensorType same(const char* name, Types in) {
  expect(in.size() == 2 && in[0] == in[1], name, in, "operands differ");
  return in[0];
}

TensorType rule(const Activate& o, Types in) {
  expect(in.size() == 1, o.kName, in, "wants one value");
  return in[0];
}
TensorType rule(const Gated& o, Types in) { return same(o.kName, in); }
TensorType rule(const Add& o, Types in) { return same(o.kName, in); }
TensorType rule(const Multiply& o, Types in) { return same(o.kName, in); }
TensorType rule(const Scale& o, Types in) {
  expect(in.size() == 1, o.kName, in, "wants one value");
  return in[0];
}
TensorType rule(const Softcap& o, Types in) {
  expect(in.size() == 1, o.kName, in, "wants one value");
  return in[0];
}

TensorType rule(const SelectRows& o, Types in) {
  expect(in.size() == 2 && in[0].shape.size() >= 2 && in[1].shape.size() == 1, o.kName, in, "wants rows and indices");
  TensorType t = in[0];
  t.shape[0] = in[1].shape[0];
  return t;
}

TensorType rule(const Slice& o, Types in) {
  expect(in.size() == 1 && o.begin >= 0 && o.count > 0 && o.begin + o.count <= in[0].last(), o.kName, in,
         "is out of range");
  return with_last(in[0], o.count);
}

TensorType rule(const Reshape& o, Types in) {
  expect(in.size() == 1 && !in[0].shape.empty(), o.kName, in, "wants one value");
  TensorType t{in[0].dtype, {in[0].shape[0]}};
  for (int64_t n : o.rest) t.shape.emplace_back(n);
  expect(t.features() == in[0].features(), o.kName, in, "changes the number of elements");
  return t;
}

TensorType rule(const Input&, Types) { fail(ErrorCode::internal, "an input's type is declared"); }
TensorType rule(const Weight&, Types) { fail(ErrorCode::internal, "a weight's type is declared"); }

}  // namespace

TensorType infer(const Op& op, std::span<const TensorType> inputs) {
  return std::visit([&](const auto& o) { return rule(o, inputs); }, op);
}

}  // namespace tenon::graph
