#include "graph/passes/pass.h"

namespace tenon::graph {

Graph remove_dead(const Graph& graph) {
  std::vector<char> live(graph.nodes.size());
  for (const Output& o : graph.outputs) live[static_cast<size_t>(o.node)] = 1;
  for (size_t i = graph.nodes.size(); i-- > 0;)
    if (live[i])
      for (int32_t v : graph.nodes[i].inputs) live[static_cast<size_t>(v)] = 1;
  return rewrite(graph, [&](Graph& out, const Node& node, size_t index) {
    if (!live[index]) return int32_t{-1};
    out.nodes.push_back(node);
    return static_cast<int32_t>(out.nodes.size()) - 1;
  });
}

}  // namespace tenon::graph
