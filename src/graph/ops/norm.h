// Norms over the last dimension.
#pragma once

namespace tenon::graph {

// rms_norm(x, weight?) = x / sqrt(mean(x^2) + eps) * (weight + offset)   (Zhang & Sennrich 2019)
struct RmsNorm {
  static constexpr const char* kName = "rms_norm";
  float eps = 1e-6f;
  float offset = 0;  // 1 where the checkpoint stores the weight minus one (Gemma)
  bool operator==(const RmsNorm&) const = default;
  template <class F>
  void fields(F&& f) const {
    f("eps", eps), f("offset", offset);
  }
};

// layer_norm(x, weight, bias) = (x - mean) / sqrt(var + eps) * weight + bias   (Ba et al. 2016)
struct LayerNorm {
  static constexpr const char* kName = "layer_norm";
  float eps = 1e-5f;
  bool operator==(const LayerNorm&) const = default;
  template <class F>
  void fields(F&& f) const {
    f("eps", eps);
  }
};

}  // namespace tenon::graph
