// Pointwise nonlinearities, alone and gating another value.
#pragma once
#include <cstdint>

namespace tenon::graph {

enum class Activation : uint8_t {
  silu,
  gelu,
  gelu_tanh,
  relu,
  relu2,
  quick_gelu,
  sigmoid,
  tanh
};  // gelu is the erf form

struct Activate {
  static constexpr const char* kName = "activate";
  Activation f = Activation::silu;
  bool operator==(const Activate&) const = default;
  template <class F>
  void fields(F&& visit) const {
    visit("f", static_cast<int>(f));
  }
};

// gated(gate, up) = f(gate) * up
struct Gated {
  static constexpr const char* kName = "gated";
  Activation f = Activation::silu;
  bool operator==(const Gated&) const = default;
  template <class F>
  void fields(F&& visit) const {
    visit("f", static_cast<int>(f));
  }
};

}  // namespace tenon::graph
