#include "graph/plan.h"

#include <gtest/gtest.h>

#include <random>

namespace tenon::graph {
namespace {

// A random straight line of adds; checked against the definition of "alive at the same time".
Graph random_graph(std::mt19937& rng, int nodes) {
  Graph g;
  TensorType t{DType::f32, {Symbol::rows, 16}};
  g.nodes.push_back({Input{"x"}, {}, t});
  g.nodes.push_back({Scale{2}, {0}, t});
  for (int i = 2; i < nodes; ++i) {
    auto pick = [&] { return static_cast<int32_t>(1 + rng() % static_cast<unsigned>(i - 1)); };
    g.nodes.push_back({Add{}, {pick(), pick()}, t});
  }
  g.outputs.push_back({"y", nodes - 1});
  g.verify();
  return g;
}

TEST(Plan, ValuesAliveTogetherNeverOverlap) {
  std::mt19937 rng(3);
  for (int round = 0; round < 50; ++round) {
    Graph g = random_graph(rng, 30);
    ActivationPlan p = plan_activations(g, {7, 1});
    std::vector<size_t> last(g.nodes.size());
    for (size_t i = 0; i < g.nodes.size(); ++i) {
      last[i] = i;
      for (int32_t v : g.nodes[i].inputs) last[static_cast<size_t>(v)] = i;
    }
    last.back() = g.nodes.size();
    for (size_t a = 1; a < g.nodes.size(); ++a) {
      EXPECT_EQ(p.values[a].offset % 64, 0);
      EXPECT_GE(p.values[a].bytes, 7 * 16 * 4);
      EXPECT_LE(p.values[a].offset + p.values[a].bytes, p.bytes);
      for (size_t b = a + 1; b < g.nodes.size(); ++b) {
        if (b > last[a]) continue;  // a is dead when b is written
        bool apart = p.values[a].offset + p.values[a].bytes <= p.values[b].offset ||
                     p.values[b].offset + p.values[b].bytes <= p.values[a].offset;
        EXPECT_TRUE(apart) << a << " and " << b;
      }
    }
  }
}

TEST(Plan, WhatTheHeadReadsOutlivesTheBody) {
  Graph g;
  TensorType rows{DType::f32, {Symbol::rows, 8}}, outputs{DType::f32, {Symbol::outputs, 8}};
  g.nodes.push_back({Input{"x"}, {}, rows});
  g.nodes.push_back({Input{"output_rows"}, {}, {DType::i32, {Symbol::outputs}}});
  g.nodes.push_back({Scale{2}, {0}, rows});
  g.nodes.push_back({SelectRows{}, {2, 1}, outputs});
  g.nodes.push_back({Scale{3}, {3}, outputs});
  g.nodes.push_back({Scale{4}, {4}, outputs});
  g.outputs.push_back({"y", 5});
  ActivationPlan p = plan_activations(g, {4, 2});
  EXPECT_EQ(p.head_begin, 3u);
  for (size_t i : {3, 4, 5}) {
    bool apart = p.values[2].offset + p.values[2].bytes <= p.values[i].offset ||
                 p.values[i].offset + p.values[i].bytes <= p.values[2].offset;
    EXPECT_TRUE(apart);
  }
}

TEST(Plan, AReshapeSharesItsInputsMemory) {
  Graph g;
  g.nodes.push_back({Input{"x"}, {}, {DType::f32, {Symbol::rows, 8}}});
  g.nodes.push_back({Scale{2}, {0}, {DType::f32, {Symbol::rows, 8}}});
  g.nodes.push_back({Reshape{{2, 4}}, {1}, {DType::f32, {Symbol::rows, 2, 4}}});
  g.nodes.push_back({Scale{2}, {2}, {DType::f32, {Symbol::rows, 2, 4}}});
  g.outputs.push_back({"y", 3});
  ActivationPlan p = plan_activations(g, {4, 1});
  EXPECT_EQ(p.values[1].offset, p.values[2].offset);
  EXPECT_NE(p.values[2].offset, p.values[3].offset);
}

}  // namespace
}  // namespace tenon::graph
