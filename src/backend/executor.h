// A planned graph with its kernels chosen: run() walks it. Nothing is allocated, nothing can fail.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "backend/device.h"
#include "graph/plan.h"

namespace tenon::backend {

class Executor {
 public:
  // `graph` has passed the device's legalize. Keeps copies of what it needs.
  Executor(graph::Graph graph, graph::ActivationPlan plan, const Device& device);

  const graph::Graph& graph() const { return graph_; }
  const graph::ActivationPlan& plan() const { return plan_; }
  size_t scratch_bytes(const StepBounds& bounds) const;

  void set_arena(std::byte* activations) { arena_ = activations; }
  // Weights are resolved by node at every use, so packing and placement may change them between steps.
  void set_weight(size_t node, const Operand& weight) { weights_[node] = weight; }
  const Operand& weight(size_t node) const { return weights_[node]; }
  void set_input(std::string_view name, std::byte* data);

  // The nodes without an `outputs` dimension, once per step; then the head, once per chunk of outputs.
  void run_body(const Step& step) noexcept { run(0, plan_.head_begin, step); }
  void run_head(const Step& step) noexcept { run(plan_.head_begin, graph_.nodes.size(), step); }

  std::byte* value(int32_t node) const { return arena_ + plan_.values[static_cast<size_t>(node)].offset; }

 private:
  void run(size_t begin, size_t end, const Step& step) noexcept;
  Operand operand(size_t node, const Step& step) const noexcept;

  graph::Graph graph_;
  graph::ActivationPlan plan_;
  const Device& device_;
  std::vector<KernelFn> kernels_;
  std::vector<Operand> weights_;  // by node: weights and inputs
  std::byte* arena_ = nullptr;
};

}  // namespace tenon::backend
