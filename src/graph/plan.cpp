#include "graph/plan.h"

#include <algorithm>

#include "base/checked.h"

namespace tenon::graph {
namespace {

bool has_outputs_dim(const Node& n) { return !n.type.shape.empty() && n.type.shape[0].symbol == Symbol::outputs; }

// First offset where `bytes` fit between the blocks alive at the same time. `alive` is sorted by offset.
int64_t first_fit(const std::vector<Placement>& alive, int64_t bytes) {
  int64_t at = 0;
  for (const Placement& p : alive) {
    if (at + bytes <= p.offset) return at;
    at = std::max(at, p.offset + p.bytes);
  }
  return at;
}

}  // namespace

ActivationPlan plan_activations(const Graph& graph, const Sizes& bounds) {
  const size_t n = graph.nodes.size();
  ActivationPlan plan;
  plan.values.resize(n);

  plan.head_begin = n;
  for (size_t i = 0; i < n; ++i)
    if (!is_leaf(graph.nodes[i].op) && has_outputs_dim(graph.nodes[i])) {
      plan.head_begin = i;
      break;
    }
  for (size_t i = plan.head_begin; i < n; ++i)
    TENON_CHECK(is_leaf(graph.nodes[i].op) || has_outputs_dim(graph.nodes[i]));

  // A reshape is its input: lifetimes and offsets belong to the root.
  std::vector<size_t> root(n), last_use(n, 0);
  for (size_t i = 0; i < n; ++i) {
    const Node& node = graph.nodes[i];
    root[i] = as<Reshape>(node.op) ? root[static_cast<size_t>(node.inputs[0])] : i;
    for (int32_t v : node.inputs) {
      size_t& last = last_use[root[static_cast<size_t>(v)]];
      // The head runs many times per step, so what it reads from the body must survive the whole step.
      bool crosses = i >= plan.head_begin && static_cast<size_t>(v) < plan.head_begin;
      last = std::max(last, crosses ? n : i);
    }
  }
  for (const Output& o : graph.outputs) last_use[root[static_cast<size_t>(o.node)]] = n;

  std::vector<Placement> alive;
  std::vector<std::pair<size_t, Placement>> open;  // (last use, place)
  for (size_t i = 0; i < n; ++i) {
    const Node& node = graph.nodes[i];
    if (is_leaf(node.op) || root[i] != i) continue;
    std::erase_if(open, [&](const auto& o) { return o.first < i; });
    alive.clear();
    for (const auto& o : open) alive.push_back(o.second);
    std::sort(alive.begin(), alive.end(), [](const Placement& a, const Placement& b) { return a.offset < b.offset; });
    int64_t bytes =
        static_cast<int64_t>(round_up(bytes_for(node.type.dtype, elements(node.type, bounds), "activation"), 64));
    Placement p{first_fit(alive, bytes), bytes};
    plan.values[i] = p;
    plan.bytes = std::max(plan.bytes, p.offset + p.bytes);
    open.emplace_back(last_use[i], p);
  }
  for (size_t i = 0; i < n; ++i)
    if (root[i] != i) plan.values[i] = plan.values[root[i]];
  return plan;
}

}  // namespace tenon::graph
