// The CPU device: one line per kernel.
#include <cmath>
#include <cstring>

#include "backend/cpu/attention.h"
#include "backend/cpu/elementwise.h"
#include "backend/cpu/linear.h"
#include "backend/device.h"
#include "backend/rope_table.h"
#include "tensor/quant.h"

namespace tenon::backend {
namespace {

using namespace graph;

// Pieces big enough that waking a thread pays.
constexpr int64_t kPieceBytes = 16 << 10;

// fn(row) over the output's rows of `features` floats, split over threads.
template <class F>
void each_row(const KernelArgs& a, int64_t rows, int64_t features, F&& fn) {
  int64_t grain = std::max<int64_t>(1, kPieceBytes / (4 * std::max<int64_t>(1, features)));
  a.step->threads->parallel_for(rows, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) fn(r);
  });
}

void embedding(const Embedding&, const KernelArgs& a) noexcept {
  const Operand& table = a.inputs[0];
  const int32_t* ids = a.inputs[1].i32();
  each_row(a, a.output.rows, a.output.features,
           [&](int64_t r) { read_row(table, ids[r], a.output.f32() + r * table.last); });
}

void linear(const Linear& op, const KernelArgs& a) noexcept {
  const Operand &x = a.inputs[0], &w = a.inputs[1];
  cpu::LinearWeight weight{w.dtype,
                           op.in_out ? w.last : w.rows,
                           op.in_out ? w.rows : w.last,
                           w.data,
                           w.panels,
                           op.in_out,
                           w.data || w.panels ? nullptr : w.reader};
  cpu::LinearCall call;
  call.x = x.f32();
  call.m = x.rows * (x.features / x.last);
  call.ldx = x.last;
  call.y = a.output.f32();
  call.ldy = a.output.last;
  call.bias = a.inputs.size() > 2 ? a.inputs[2].f32() : nullptr;
  call.scratch = a.step->scratch;
  call.f32_activations = a.step->f32_activations;
  cpu::linear(weight, call, *a.step->threads);
}

void low_rank(const LowRank&, const KernelArgs& args) noexcept {
  const Operand &y = args.inputs[0], &x = args.inputs[1], &a = args.inputs[2], &b = args.inputs[3];
  const int64_t rank = a.features / a.last;
  each_row(args, y.rows, y.last, [&](int64_t r) {
    const int64_t adapter = args.inputs[4].i32()[r];
    float* out = args.output.f32() + r * y.last;
    std::memcpy(out, y.f32() + r * y.last, static_cast<size_t>(y.last) * 4);
    if (adapter >= 0)
      cpu::add_low_rank(x.f32() + r * x.last, a.f32() + adapter * a.features, b.f32() + adapter * b.features, rank,
                        x.last, y.last, out);
  });
}

void rms_norm(const RmsNorm& op, const KernelArgs& a) noexcept {
  const Operand& x = a.inputs[0];
  const float* weight = a.inputs.size() > 1 ? a.inputs[1].f32() : nullptr;
  each_row(a, x.rows * (x.features / x.last), x.last, [&](int64_t r) {
    cpu::rms_norm(x.f32() + r * x.last, weight, op.offset, op.eps, a.output.f32() + r * x.last, x.last);
  });
}

void layer_norm(const LayerNorm& op, const KernelArgs& a) noexcept {
  const Operand& x = a.inputs[0];
  each_row(a, x.rows * (x.features / x.last), x.last, [&](int64_t r) {
    cpu::layer_norm(x.f32() + r * x.last, a.inputs[1].f32(), a.inputs[2].f32(), op.eps, a.output.f32() + r * x.last,
                    x.last);
  });
}

void rope_table(const RopeTable& op, const KernelArgs& a) noexcept {
  each_row(a, a.output.rows, 64 * a.output.features, [&](int64_t r) {
    fill_rope_row(op.spec, a.inputs[0].i32()[r], rope_length(*a.step, r, a.inputs[0].i32()[r]),
                  a.output.f32() + r * a.output.features);
  });
}

void rope(const Rope& op, const KernelArgs& a) noexcept {
  const Operand &x = a.inputs[0], &table = a.inputs[1];
  each_row(a, x.rows, x.features, [&](int64_t r) {
    cpu::rope(x.f32() + r * x.features, table.f32() + r * table.last, op.interleaved, table.last, x.features / x.last,
              x.last, a.output.f32() + r * x.features);
  });
}

void attend(const Attend& op, const KernelArgs& a) noexcept {
  const KvView& kv = a.step->states[static_cast<size_t>(op.state)];
  const Operand &q = a.inputs[0], &k = a.inputs[1], &v = a.inputs[2];
  cpu::store_kv(kv.shape, kv.pool, k.f32(), k.features, v.f32(), v.features, kv.sequences, *a.step->threads);
  cpu::AttendCall call;
  call.kv = kv.shape;
  call.heads = q.features / q.last;
  call.scale = op.scale;
  call.window = kv.window;
  call.softcap = op.softcap;
  call.q = q.f32();
  call.ldq = q.features;
  call.y = a.output.f32();
  call.ldy = a.output.features;
  call.pool = kv.pool;
  call.sequences = kv.sequences;
  call.scratch = a.step->scratch;
  cpu::attend(call, *a.step->threads);
}

// Pointwise ops see the whole value as one run of elements.
template <class F>
void pointwise(const KernelArgs& a, F&& fn) {
  int64_t n = a.output.rows * a.output.features;
  a.step->threads->parallel_for(n, kPieceBytes / 4, [&](int64_t begin, int64_t end, int) { fn(begin, end - begin); });
}

void activate(const Activate& op, const KernelArgs& a) noexcept {
  pointwise(a, [&](int64_t i, int64_t n) { cpu::activate(op.f, a.inputs[0].f32() + i, a.output.f32() + i, n); });
}
void gated(const Gated& op, const KernelArgs& a) noexcept {
  pointwise(a, [&](int64_t i, int64_t n) {
    cpu::gated(op.f, a.inputs[0].f32() + i, a.inputs[1].f32() + i, a.output.f32() + i, n);
  });
}
void add(const Add&, const KernelArgs& a) noexcept {
  pointwise(
      a, [&](int64_t i, int64_t n) { cpu::add(a.inputs[0].f32() + i, a.inputs[1].f32() + i, a.output.f32() + i, n); });
}
void multiply(const Multiply&, const KernelArgs& a) noexcept {
  pointwise(a, [&](int64_t i, int64_t n) {
    cpu::multiply(a.inputs[0].f32() + i, a.inputs[1].f32() + i, a.output.f32() + i, n);
  });
}
void scale(const Scale& op, const KernelArgs& a) noexcept {
  pointwise(a, [&](int64_t i, int64_t n) { cpu::scale(a.inputs[0].f32() + i, op.factor, a.output.f32() + i, n); });
}
void softcap(const Softcap& op, const KernelArgs& a) noexcept {
  pointwise(a, [&](int64_t i, int64_t n) { cpu::softcap(a.inputs[0].f32() + i, op.cap, a.output.f32() + i, n); });
}

void select_rows(const SelectRows&, const KernelArgs& a) noexcept {
  const Operand& x = a.inputs[0];
  for (int64_t r = 0; r < a.output.rows; ++r)
    std::memcpy(a.output.f32() + r * x.features, x.f32() + a.inputs[1].i32()[r] * x.features,
                static_cast<size_t>(x.features) * 4);
}

void slice(const Slice& op, const KernelArgs& a) noexcept {
  const Operand& x = a.inputs[0];
  each_row(a, x.rows * (x.features / x.last), op.count, [&](int64_t r) {
    std::memcpy(a.output.f32() + r * op.count, x.f32() + r * x.last + op.begin, static_cast<size_t>(op.count) * 4);
  });
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

class CpuDevice final : public Device {
 public:
  std::string_view name() const override { return "cpu"; }

  KernelFn kernel(const Graph& graph, size_t node) const override {
    return find_kernel(kKernels, graph.nodes[node].op);
  }

  size_t scratch_bytes(const Graph& graph, size_t node, const StepBounds& b) const override {
    const Node& n = graph.nodes[node];
    if (as<Linear>(n.op)) {
      const TensorType& x = graph.nodes[static_cast<size_t>(n.inputs[0])].type;
      return cpu::linear_scratch_bytes(graph.nodes[static_cast<size_t>(n.inputs[1])].type.dtype,
                                       elements(x, b.sizes) / x.last(), x.last(), b.threads, b.f32_activations);
    }
    if (auto a = as<Attend>(n.op)) {
      const KvState& s = graph.states[static_cast<size_t>(a->state)];
      return cpu::attend_scratch_bytes({b.kv, s.kv_heads, s.head_dim}, n.type.features() / n.type.last(), b.threads);
    }
    return 0;
  }

  uint64_t panel_bytes(const Graph& graph, size_t weight, DType dtype) const override {
    // Matrices that a linear op reads, stored [out, in]; an embedding still gathers its rows from the file.
    bool read = false;
    for (const Node& n : graph.nodes)
      if (auto l = as<Linear>(n.op); l && static_cast<size_t>(n.inputs[1]) == weight) {
        if (l->in_out) return 0;
        read = true;
      }
    if (!read) return 0;
    const TensorType& t = graph.nodes[weight].type;
    return t.shape.size() == 2 ? cpu::panel_bytes(dtype, t.shape[0].size, t.shape[1].size) : 0;
  }

  bool pack(const Operand& w, std::byte* panels, ThreadPool& threads) const noexcept override {
    return cpu::pack({w.dtype, w.rows, w.last, w.data, nullptr, false}, panels, threads);
  }
  void pack(const Operand& w, MakeRows rows, std::byte* panels, ThreadPool& threads) const override {
    cpu::pack(w.dtype, w.rows, w.last, rows, panels, threads);
  }
};

const CpuDevice kDevice;

}  // namespace

extern const Device& cpu_device;
const Device& cpu_device = kDevice;

}  // namespace tenon::backend
