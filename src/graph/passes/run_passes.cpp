#include "base/log.h"
#include "base/settings.h"
#include "graph/passes/pass.h"

namespace tenon::graph {

Graph rewrite(const Graph& graph, const std::function<int32_t(Graph&, const Node&, size_t)>& rewrite) {
  Graph out;
  out.states = graph.states;
  std::vector<int32_t> renamed;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node node = graph.nodes[i];
    for (int32_t& v : node.inputs) v = renamed[static_cast<size_t>(v)];
    renamed.push_back(rewrite(out, node, i));
  }
  for (const Output& o : graph.outputs) out.outputs.push_back({o.name, renamed[static_cast<size_t>(o.node)]});
  return out;
}

Graph run_passes(const Graph& graph, const std::function<bool(const Graph&, size_t)>& supported) {
  struct Pass {
    const char* name;
    bool optional;
    std::function<Graph(const Graph&)> run;
  };
  const Pass passes[] = {
      {"fuse_gated", true, fuse_gated},
      {"legalize", false, [&](const Graph& g) { return legalize(g, supported); }},
      {"remove_dead", true, remove_dead},
  };
  bool all = setting(Setting::passes) != "none";
  Graph g = graph;
  g.verify();
  for (const Pass& p : passes) {
    if (p.optional && !all) continue;
    size_t before = g.nodes.size();
    g = p.run(g);
    g.verify();
    log_debug("pass {}: {} -> {} nodes", p.name, before, g.nodes.size());
  }
  return g;
}

}  // namespace tenon::graph
