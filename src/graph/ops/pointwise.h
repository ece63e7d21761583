// Elementwise arithmetic on values of equal type, or with a constant.
#pragma once

namespace tenon::graph {

struct Add {
  static constexpr const char* kName = "add";
  bool operator==(const Add&) const = default;
  template <class F>
  void fields(F&&) const {}
};

struct Multiply {
  static constexpr const char* kName = "multiply";
  bool operator==(const Multiply&) const = default;
  template <class F>
  void fields(F&&) const {}
};

struct Scale {
  static constexpr const char* kName = "scale";
  float factor = 1;
  bool operator==(const Scale&) const = default;
  template <class F>
  void fields(F&& f) const {
    f("factor", factor);
  }
};

// cap * tanh(x / cap)
struct Softcap {
  static constexpr const char* kName = "softcap";
  float cap = 1;
  bool operator==(const Softcap&) const = default;
  template <class F>
  void fields(F&& f) const {
    f("cap", cap);
  }
};

}  // namespace tenon::graph
