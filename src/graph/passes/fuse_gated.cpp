#include "graph/passes/pass.h"

namespace tenon::graph {

Graph fuse_gated(const Graph& graph) {
  std::vector<int> uses(graph.nodes.size());
  for (const Node& n : graph.nodes)
    for (int32_t v : n.inputs) uses[static_cast<size_t>(v)]++;
  for (const Output& o : graph.outputs) uses[static_cast<size_t>(o.node)]++;

  return rewrite(graph, [&](Graph& out, const Node& node, size_t index) {
    if (as<Multiply>(node.op))
      for (size_t side : {0, 1}) {
        const auto& old = graph.nodes[index].inputs;
        auto* act = as<Activate>(graph.nodes[static_cast<size_t>(old[side])].op);
        if (!act || uses[static_cast<size_t>(old[side])] != 1) continue;
        int32_t gate = out.nodes[static_cast<size_t>(node.inputs[side])].inputs[0];
        out.nodes.push_back({Gated{act->f}, {gate, node.inputs[1 - side]}, node.type});
        return static_cast<int32_t>(out.nodes.size()) - 1;
      }
    out.nodes.push_back(node);
    return static_cast<int32_t>(out.nodes.size()) - 1;
  });
}

}  // namespace tenon::graph
