// linear(x [.., in], weight [out, in], bias [out]?) -> [.., out]: x * weight^T + bias.
#pragma once

namespace tenon::graph {

struct Linear {
  static constexpr const char* kName = "linear";
  bool in_out = false;  // the weight is stored [in, out] (GPT-2's Conv1D)
  bool operator==(const Linear&) const = default;
  template <class F>
  void fields(F&& f) const {
    f("in_out", in_out);
  }
};

}  // namespace tenon::graph
