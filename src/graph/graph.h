// A network as a straight line of ops. A node is a value: node i may use only nodes before it.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op.h"
#include "graph/state.h"
#include "graph/type.h"

namespace tenon::graph {

struct Node {
  Op op;
  std::vector<int32_t> inputs;
  TensorType type;
};

struct Output {
  std::string name;
  int32_t node = -1;
};

struct Graph {
  std::vector<Node> nodes;
  std::vector<KvState> states;
  std::vector<Output> outputs;

  int32_t output(std::string_view name) const;  // -1: none
  // Throws Error{internal} if a node uses a later one, an index is out of range, or a stored type differs from infer().
  void verify() const;
};

// The type an op gives for these inputs; throws Error{invalid_file} with the types involved when they do not fit.
TensorType infer(const Op& op, std::span<const TensorType> inputs);

// One line a node: "%7 = linear(%3, %5) -> F32[rows, 576]". For golden tests and bug reports.
std::string text_form(const Graph& graph);

}  // namespace tenon::graph
