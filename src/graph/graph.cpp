#include "graph/graph.h"

#include <fmt/format.h>

#include "base/error.h"

namespace tenon::graph {

int32_t Graph::output(std::string_view name) const {
  for (const Output& o : outputs)
    if (o.name == name) return o.node;
  return -1;
}

void Graph::verify() const {
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& n = nodes[i];
    std::vector<TensorType> in;
    for (int32_t v : n.inputs) {
      TENON_CHECK(v >= 0 && static_cast<size_t>(v) < i);
      in.push_back(nodes[static_cast<size_t>(v)].type);
    }
    if (!is_leaf(n.op)) TENON_CHECK(infer(n.op, in) == n.type);
    if (auto a = as<Attend>(n.op)) TENON_CHECK(a->state >= 0 && static_cast<size_t>(a->state) < states.size());
  }
  for (const Output& o : outputs) TENON_CHECK(o.node >= 0 && static_cast<size_t>(o.node) < nodes.size());
}

std::string text_form(const Graph& graph) {
  std::string out;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& n = graph.nodes[i];
    std::string args;
    auto add = [&](std::string text) { args += (args.empty() ? "" : ", ") + text; };
    for (int32_t v : n.inputs) add(fmt::format("%{}", v));
    std::visit(
        [&](const auto& o) {
          o.fields([&](const char* key, const auto& value) { add(fmt::format("{}={}", key, value)); });
        },
        n.op);
    out += fmt::format("%{} = {}({}) -> {}\n", i, name(n.op), args, to_string(n.type));
  }
  for (const Output& o : graph.outputs) out += fmt::format("{} = %{}\n", o.name, o.node);
  return out;
}

}  // namespace tenon::graph
