#include "base/error.h"
#include "graph/passes/pass.h"

namespace tenon::graph {
namespace {

int32_t push(Graph& out, Op op, std::vector<int32_t> inputs, const TensorType& type) {
  out.nodes.push_back({std::move(op), std::move(inputs), type});
  return static_cast<int32_t>(out.nodes.size()) - 1;
}

// The plain definitions of fused ops; -1: the op is already plain.
int32_t lower(Graph& out, const Gated& o, const Node& n) {
  int32_t a = push(out, Activate{o.f}, {n.inputs[0]}, n.type);
  return push(out, Multiply{}, {a, n.inputs[1]}, n.type);
}

int32_t lower(Graph& out, const Softcap& o, const Node& n) {
  int32_t x = push(out, Scale{1 / o.cap}, {n.inputs[0]}, n.type);
  x = push(out, Activate{Activation::tanh}, {x}, n.type);
  return push(out, Scale{o.cap}, {x}, n.type);
}

template <class T>
int32_t lower(Graph&, const T&, const Node&) {
  return -1;
}

}  // namespace

Graph legalize(const Graph& graph, const std::function<bool(const Graph&, size_t)>& supported) {
  return rewrite(graph, [&](Graph& out, const Node& node, size_t index) {
    if (!is_leaf(node.op) && !supported(graph, index)) {
      int32_t id = std::visit([&](const auto& o) { return lower(out, o, node); }, node.op);
      if (id < 0)
        fail(ErrorCode::unsupported, "this device has no kernel for {} -> {}", name(node.op), to_string(node.type));
      return id;
    }
    out.nodes.push_back(node);
    return static_cast<int32_t>(out.nodes.size()) - 1;
  });
}

}  // namespace tenon::graph
