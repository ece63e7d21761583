// Where every value of a step lives: lifetimes to offsets in one arena, planned at the symbols' bounds.
#pragma once
#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace tenon::graph {

struct Placement {
  int64_t offset = -1;  // in the activation arena; -1: not there (weights, inputs, dead)
  int64_t bytes = 0;    // at the bounds
};

struct ActivationPlan {
  std::vector<Placement> values;  // by node; a reshape has its input's
  int64_t bytes = 0;              // of the arena
  size_t head_begin = 0;          // nodes from here on have an `outputs` dimension and run once per chunk of outputs
};

// Values are aligned to 64 bytes. Values that nodes after head_begin or the graph's outputs read live to the end of the
// step. Throws Error{internal} if a node before head_begin depends on one after it.
ActivationPlan plan_activations(const Graph& graph, const Sizes& bounds);

}  // namespace tenon::graph
