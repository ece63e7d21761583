// A place where graphs run. Devices are listed in device.cpp.
#pragma once
#include <cstdint>
#include <string_view>

#include "backend/kernel.h"

namespace tenon::backend {

// Bounds of a step that scratch is sized for.
struct StepBounds {
  graph::Sizes sizes;
  int threads = 1;
  bool f32_activations = false;
  cpu::KvType kv = cpu::KvType::bf16;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;
  virtual KernelFn kernel(const graph::Graph& graph, size_t node) const = 0;  // null: none
  virtual size_t scratch_bytes(const graph::Graph& graph, size_t node, const StepBounds& bounds) const = 0;
  // Bytes of a weight's packed form, held as `dtype`, 0 when it has none; and packing itself: false where it does not
  // fit into them.
  virtual uint64_t panel_bytes(const graph::Graph& graph, size_t weight_node, DType dtype) const = 0;
  virtual bool pack(const Operand& weight, std::byte* panels, ThreadPool& threads) const noexcept = 0;
  // Of a weight without data, whose rows are made for it.
  virtual void pack(const Operand& weight, MakeRows rows, std::byte* panels, ThreadPool& threads) const = 0;
};

// "cpu" (vector kernels) or "reference" (plain loops, for debugging). Throws Error{invalid_argument} listing the
// devices.
const Device& device_named(std::string_view name);

}  // namespace tenon::backend
