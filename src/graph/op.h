// The one list of ops. A new op: a header in ops/, a word in this variant, an infer() in infer.cpp, a reference kernel.
#pragma once
#include <string>
#include <variant>

#include "graph/ops/activation.h"
#include "graph/ops/attend.h"
#include "graph/ops/embedding.h"
#include "graph/ops/layout.h"
#include "graph/ops/leaf.h"
#include "graph/ops/linear.h"
#include "graph/ops/low_rank.h"
#include "graph/ops/norm.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/rope.h"

namespace tenon::graph {

using Op = std::variant<Input, Weight, Embedding, Linear, RmsNorm, LayerNorm, RopeTable, Rope, Attend, Activate, Gated,
                        Add, Multiply, Scale, Softcap, SelectRows, Slice, Reshape, LowRank>;

template <class T>
const T* as(const Op& op) {
  return std::get_if<T>(&op);
}

inline const char* name(const Op& op) {
  return std::visit([](const auto& o) { return o.kName; }, op);
}

inline bool is_leaf(const Op& op) { return as<Input>(op) || as<Weight>(op); }

}  // namespace tenon::graph
