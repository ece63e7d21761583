#include "graph/passes/pass.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "graph/builder.h"

namespace tenon::graph {
namespace {

// Any name is a weight of the shape given.
class FakeWeights final : public WeightSource {
 public:
  std::map<std::string, TensorType> tensors;
  std::optional<TensorType> find(std::string_view name) const override {
    auto it = tensors.find(std::string(name));
    return it == tensors.end() ? std::nullopt : std::optional(it->second);
  }
  TensorType require(std::string_view name) const override {
    auto t = find(name);
    if (!t) fail(ErrorCode::not_found, "no tensor {}", name);
    return *t;
  }
  std::vector<float> values(std::string_view) const override { return {}; }
};

FakeWeights mlp_weights() {
  FakeWeights w;
  for (const char* n : {"mlp.gate.weight", "mlp.up.weight"}) w.tensors[n] = {DType::bf16, {8, 4}};
  w.tensors["mlp.down.weight"] = {DType::bf16, {4, 8}};
  return w;
}

Graph mlp(const FakeWeights& w) {
  Builder b(w);
  Value x = b.input("x", {DType::f32, {Symbol::rows, 4}});
  Scope s = Scope(b, "") / "mlp";
  Value gate = s.linear("gate", x), up = s.linear("up", x);
  b.output("y", x + s.linear("down", activate(Activation::silu, gate) * up));
  return b.take();
}

TEST(Passes, FusesTheGateIntoOneOp) {
  FakeWeights w = mlp_weights();
  Graph g = remove_dead(fuse_gated(mlp(w)));
  g.verify();
  EXPECT_EQ(text_form(g),
            "%0 = input(name=x) -> F32[rows, 4]\n"
            "%1 = weight(name=mlp.gate.weight) -> BF16[8, 4]\n"
            "%2 = linear(%0, %1, in_out=false) -> F32[rows, 8]\n"
            "%3 = weight(name=mlp.up.weight) -> BF16[8, 4]\n"
            "%4 = linear(%0, %3, in_out=false) -> F32[rows, 8]\n"
            "%5 = gated(%2, %4, f=0) -> F32[rows, 8]\n"
            "%6 = weight(name=mlp.down.weight) -> BF16[4, 8]\n"
            "%7 = linear(%5, %6, in_out=false) -> F32[rows, 4]\n"
            "%8 = add(%0, %7) -> F32[rows, 4]\n"
            "y = %8\n");
}

TEST(Passes, AGateUsedTwiceIsNotFused) {
  FakeWeights w = mlp_weights();
  Builder b(w);
  Value x = b.input("x", {DType::f32, {Symbol::rows, 4}});
  Value a = activate(Activation::silu, x);
  b.output("y", a * x);
  b.output("a", a);
  Graph g = remove_dead(fuse_gated(b.take()));
  EXPECT_EQ(text_form(g).find("gated"), std::string::npos);
}

TEST(Passes, LegalizeLowersWhatTheDeviceLacks) {
  FakeWeights w = mlp_weights();
  Graph g = fuse_gated(mlp(w));
  Graph lowered = legalize(g, [](const Graph& graph, size_t i) { return !as<Gated>(graph.nodes[i].op); });
  lowered.verify();
  EXPECT_EQ(text_form(lowered).find("gated"), std::string::npos);
  EXPECT_NE(text_form(lowered).find("multiply"), std::string::npos);
  EXPECT_THROW(legalize(g, [](const Graph& graph, size_t i) { return !as<Linear>(graph.nodes[i].op); }), Error);
}

TEST(Infer, MismatchNamesBothShapes) {
  FakeWeights w;
  w.tensors["p.weight"] = {DType::f32, {8, 5}};
  Builder b(w);
  Value x = b.input("x", {DType::f32, {Symbol::rows, 4}});
  try {
    Scope(b, "").linear("p", x);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("linear(F32[rows, 4], F32[8, 5])"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace tenon::graph
