// Graph to graph rewrites. run_passes() runs the list in order; TENON_PASSES=none skips the optional ones (debugging).
#pragma once
#include <functional>

#include "graph/graph.h"

namespace tenon::graph {

Graph fuse_gated(const Graph& graph);  // multiply(activate(f, gate), up) -> gated
Graph remove_dead(const Graph& graph);

// Replaces ops the device has no kernel for by their plainer definitions (lower()); throws Error{unsupported} for an op
// that has neither. `supported(node index)` is asked about nodes of `graph`.
Graph legalize(const Graph& graph, const std::function<bool(const Graph&, size_t)>& supported);

// fuse, legalize, dead; each verified.
Graph run_passes(const Graph& graph, const std::function<bool(const Graph&, size_t)>& supported);

// Copies nodes one by one while `rewrite` may replace them: given the old node with inputs already renumbered, it
// appends what it wants to `out` and returns the id of the replacement.
Graph rewrite(const Graph& graph, const std::function<int32_t(Graph& out, const Node& node, size_t index)>& rewrite);

}  // namespace tenon::graph
