// Where values come from: the step's inputs and the model's weights.
#pragma once
#include <string>

namespace tenon::graph {

struct Input {
  static constexpr const char* kName = "input";
  std::string name;
  bool operator==(const Input&) const = default;
  template <class F>
  void fields(F&& f) const {
    f("name", name);
  }
};

struct Weight {
  static constexpr const char* kName = "weight";
  std::string name;  // the checkpoint's name in Hugging Face spelling
  bool operator==(const Weight&) const = default;
  template <class F>
  void fields(F&& f) const {
    f("name", name);
  }
};

}  // namespace tenon::graph
