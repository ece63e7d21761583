// The reference device: every op in plain loops, one thread. Slow; for debugging and as the oracle of tests.
#include <cstring>

#include "backend/device.h"
#include "backend/reference/attention.h"
#include "backend/reference/elementwise.h"
#include "backend/reference/linear.h"
#include "backend/rope_table.h"
#include "tensor/quant.h"

namespace tenon::backend {
namespace {

using namespace graph;

int64_t lines(const Operand& x) { return x.rows * (x.features / x.last); }
int64_t count(const Operand& x) { return x.rows * x.features; }

void embedding(const Embedding&, const KernelArgs& a) noexcept {
  const Operand& table = a.inputs[0];
  for (int64_t r = 0; r < a.output.rows; ++r) read_row(table, a.inputs[1].i32()[r], a.output.f32() + r * table.last);
}

void linear(const Linear& op, const KernelArgs& a) noexcept {
  const Operand &x = a.inputs[0], &w = a.inputs[1];
  cpu::LinearWeight weight{w.dtype,   op.in_out ? w.last : w.rows, op.in_out ? w.rows : w.last, w.data, nullptr,
                           op.in_out, w.data ? nullptr : w.reader};
  reference::linear(weight, {x.f32(), lines(x), x.last, a.output.f32(), a.output.last,
                             a.inputs.size() > 2 ? a.inputs[2].f32() : nullptr, nullptr, a.step->f32_activations});
}

void low_rank(const LowRank&, const KernelArgs& args) noexcept {
  const Operand &y = args.inputs[0], &x = args.inputs[1], &a = args.inputs[2], &b = args.inputs[3];
  const int64_t rank = a.features / a.last;
  for (int64_t r = 0; r < y.rows; ++r) {
    const int64_t adapter = args.inputs[4].i32()[r];
    for (int64_t o = 0; o < y.last; ++o) {
      double sum = y.f32()[r * y.last + o];
      for (int64_t k = 0; adapter >= 0 && k < rank; ++k) {
        double dot = 0;
        for (int64_t i = 0; i < x.last; ++i)
          dot += static_cast<double>(x.f32()[r * x.last + i]) * a.f32()[adapter * a.features + k * a.last + i];
        sum += dot * b.f32()[adapter * b.features + k * b.last + o];
      }
      args.output.f32()[r * y.last + o] = static_cast<float>(sum);
    }
  }
}

void rms_norm(const RmsNorm& op, const KernelArgs& a) noexcept {
  const Operand& x = a.inputs[0];
  for (int64_t r = 0; r < lines(x); ++r)
    reference::rms_norm(x.f32() + r * x.last, a.inputs.size() > 1 ? a.inputs[1].f32() : nullptr, op.offset, op.eps,
                        a.output.f32() + r * x.last, x.last);
}

void layer_norm(const LayerNorm& op, const KernelArgs& a) noexcept {
  const Operand& x = a.inputs[0];
  for (int64_t r = 0; r < lines(x); ++r)
    reference::layer_norm(x.f32() + r * x.last, a.inputs[1].f32(), a.inputs[2].f32(), op.eps,
                          a.output.f32() + r * x.last, x.last);
}

void rope_table(const RopeTable& op, const KernelArgs& a) noexcept {
  for (int64_t r = 0; r < a.output.rows; ++r) {
    int64_t position = a.inputs[0].i32()[r];
    fill_rope_row(op.spec, position, rope_length(*a.step, r, position), a.output.f32() + r * a.output.features);
  }
}

void rope(const Rope& op, const KernelArgs& a) noexcept {
  const Operand &x = a.inputs[0], &table = a.inputs[1];
  for (int64_t r = 0; r < x.rows; ++r)
    reference::rope(x.f32() + r * x.features, table.f32() + r * table.last, op.interleaved, table.last,
                    x.features / x.last, x.last, a.output.f32() + r * x.features);
}

void attend(const Attend& op, const KernelArgs& a) noexcept {
  const KvView& kv = a.step->states[static_cast<size_t>(op.state)];
  const Operand &q = a.inputs[0], &k = a.inputs[1], &v = a.inputs[2];
  reference::store_kv(kv.shape, kv.pool, k.f32(), k.features, v.f32(), v.features, kv.sequences);
  reference::attend({kv.shape, q.features / q.last, op.scale, kv.window, op.softcap, q.f32(), q.features,
                     a.output.f32(), a.output.features, kv.pool, kv.sequences, nullptr});
}

void activate(const Activate& op, const KernelArgs& a) noexcept {
  reference::activate(op.f, a.inputs[0].f32(), a.output.f32(), count(a.output));
}
void gated(const Gated& op, const KernelArgs& a) noexcept {
  reference::gated(op.f, a.inputs[0].f32(), a.inputs[1].f32(), a.output.f32(), count(a.output));
}
void add(const Add&, const KernelArgs& a) noexcept {
  for (int64_t i = 0; i < count(a.output); ++i) a.output.f32()[i] = a.inputs[0].f32()[i] + a.inputs[1].f32()[i];
}
void multiply(const Multiply&, const KernelArgs& a) noexcept {
  for (int64_t i = 0; i < count(a.output); ++i) a.output.f32()[i] = a.inputs[0].f32()[i] * a.inputs[1].f32()[i];
}
void scale(const Scale& op, const KernelArgs& a) noexcept {
  for (int64_t i = 0; i < count(a.output); ++i) a.output.f32()[i] = a.inputs[0].f32()[i] * op.factor;
}
void softcap(const Softcap& op, const KernelArgs& a) noexcept {
  reference::softcap(a.inputs[0].f32(), op.cap, a.output.f32(), count(a.output));
}

void select_rows(const SelectRows&, const KernelArgs& a) noexcept {
  const Operand& x = a.inputs[0];
  for (int64_t r = 0; r < a.output.rows; ++r)
    for (int64_t i = 0; i < x.features; ++i)
      a.output.f32()[r * x.features + i] = x.f32()[a.inputs[1].i32()[r] * x.features + i];
}

void slice(const Slice& op, const KernelArgs& a) noexcept {
  const Operand& x = a.inputs[0];
  for (int64_t r = 0; r < lines(x); ++r)
    for (int64_t i = 0; i < op.count; ++i) a.output.f32()[r * op.count + i] = x.f32()[r * x.last + op.begin + i];
}

constexpr Kernel kKernels[] = {
    on<Embedding, embedding>(),  on<Linear, linear>(),
    on<RmsNorm, rms_norm>(),     on<LayerNorm, layer_norm>(),
    on<RopeTable, rope_table>(), on<Rope, rope>(),
    on<Attend, attend>(),        on<Activate, activate>(),
    on<Gated, gated>(),          on<Add, add>(),
    on<Multiply, multiply>(),    on<Scale, scale>(),
    on<Softcap, softcap>(),      on<SelectRows, select_rows>(),
    on<Slice, slice>(),          on<LowRank, low_rank>(),
};

class ReferenceDevice final : public Device {
 public:
  std::string_view name() const override { return "reference"; }
  KernelFn kernel(const Graph& graph, size_t node) const override {
    return find_kernel(kKernels, graph.nodes[node].op);
  }
  size_t scratch_bytes(const Graph&, size_t, const StepBounds&) const override { return 0; }
  uint64_t panel_bytes(const Graph&, size_t, DType) const override { return 0; }
  bool pack(const Operand&, std::byte*, ThreadPool&) const noexcept override { return false; }
  void pack(const Operand&, MakeRows, std::byte*, ThreadPool&) const override {}
};

const ReferenceDevice kDevice;

}  // namespace

extern const Device& reference_device;
const Device& reference_device = kDevice;

}  // namespace tenon::backend
