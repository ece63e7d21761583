// Writing a network down: values with operators, scopes that find weights by the checkpoint's own names.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace tenon::graph {

// What the builder asks of a checkpoint. Names are Hugging Face's; shapes outermost first.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual std::optional<TensorType> find(std::string_view name) const = 0;
  // Throws Error{not_found} that names the file and the nearest names.
  virtual TensorType require(std::string_view name) const = 0;
  // A small tensor's values in f32 (rope factors).
  virtual std::vector<float> values(std::string_view name) const = 0;
};

class Builder;

struct Value {
  Builder* builder = nullptr;
  int32_t id = -1;
  const TensorType& type() const;
  Value heads(int64_t n) const;  // [rows, n * d] -> [rows, n, d]
  Value merge_heads() const;     // [rows, n, d] -> [rows, n * d]
  Value columns(int64_t begin, int64_t count) const;
};

class Builder {
 public:
  explicit Builder(const WeightSource& weights) : weights_(weights) {}

  Value input(std::string name, TensorType type);  // one node per name
  Value weight(const std::string& name);           // one node per name
  Value apply(Op op, std::initializer_list<Value> inputs);
  int32_t state(KvState state);
  void output(std::string name, Value v);

  const WeightSource& weights() const { return weights_; }
  const Graph& graph() const { return graph_; }
  Graph take() { return std::move(graph_); }

 private:
  int32_t add(Node node);
  template <class Leaf>
  std::optional<Value> find(std::string_view name);
  const WeightSource& weights_;
  Graph graph_;
};

// A prefix of weight names: scope / "layers" / 3 is "model.layers.3".
class Scope {
 public:
  Scope(Builder& builder, std::string path) : builder_(&builder), path_(std::move(path)) {}
  Scope operator/(std::string_view name) const;
  Scope operator/(int64_t index) const { return *this / std::to_string(index); }

  bool has(std::string_view name) const;  // a leaf fact: "bias", "q_norm.weight"
  Value weight(std::string_view name) const;

  Value embedding(std::string_view name, Value ids) const;
  Value linear(std::string_view name, Value x, bool in_out = false) const;  // with NAME.bias if there is one
  Value tied_head(std::string_view embedding, Value x) const;
  Value rms_norm(std::string_view name, Value x, float eps, float offset = 0) const;
  Value layer_norm(std::string_view name, Value x, float eps) const;

 private:
  std::string full(std::string_view name) const;
  Value adapted(Value y, Value x) const;  // by each row's adapter, where this layer has any
  Value scaled(Value y) const;            // times this weight's own scale, where the file has one
  Builder* builder_;
  std::string path_;
};

Value operator+(Value a, Value b);
Value operator*(Value a, Value b);
Value operator*(Value a, float factor);
Value activate(Activation f, Value x);
Value softcap(Value x, float cap);
Value rope(Value x, Value table, bool interleaved);

}  // namespace tenon::graph
