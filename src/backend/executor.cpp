#include "backend/executor.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace tenon::backend {

using graph::as;

namespace {
constexpr size_t kMaxInputs = 5;
}

Executor::Executor(graph::Graph graph, graph::ActivationPlan plan, const Device& device)
    : graph_(std::move(graph)), plan_(std::move(plan)), device_(device) {
  weights_.resize(graph_.nodes.size());
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const graph::Node& n = graph_.nodes[i];
    KernelFn k = nullptr;
    if (!graph::is_leaf(n.op) && !as<graph::Reshape>(n.op)) {
      k = device.kernel(graph_, i);
      TENON_CHECK(k && n.inputs.size() <= kMaxInputs);
    }
    kernels_.push_back(k);
  }
}

size_t Executor::scratch_bytes(const StepBounds& bounds) const {
  size_t most = 0;
  for (size_t i = 0; i < graph_.nodes.size(); ++i)
    if (kernels_[i]) most = std::max(most, device_.scratch_bytes(graph_, i, bounds));
  return most;
}

void Executor::set_input(std::string_view name, std::byte* data) {
  for (size_t i = 0; i < graph_.nodes.size(); ++i)
    if (auto in = as<graph::Input>(graph_.nodes[i].op); in && in->name == name) weights_[i].data = data;
}

Operand Executor::operand(size_t i, const Step& step) const noexcept {
  const graph::Node& n = graph_.nodes[i];
  if (as<graph::Weight>(n.op)) return weights_[i];
  Operand o;
  o.dtype = n.type.dtype;
  o.rows = graph::Sizes{step.rows, step.outputs}.of(n.type.shape[0]);
  o.features = n.type.features();
  o.last = n.type.shape.size() > 1 ? n.type.last() : 1;
  o.data = as<graph::Input>(n.op) ? weights_[i].data : arena_ + plan_.values[i].offset;
  return o;
}

void Executor::run(size_t begin, size_t end, const Step& step) noexcept {
  std::array<Operand, kMaxInputs> inputs;
  for (size_t i = begin; i < end; ++i) {
    if (!kernels_[i]) continue;
    const graph::Node& n = graph_.nodes[i];
    for (size_t k = 0; k < n.inputs.size(); ++k) inputs[k] = operand(static_cast<size_t>(n.inputs[k]), step);
    kernels_[i](n.op, {{inputs.data(), n.inputs.size()}, operand(i, step), &step});
  }
}

}  // namespace tenon::backend
