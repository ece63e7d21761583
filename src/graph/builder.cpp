#include "graph/builder.h"

#include "base/error.h"

namespace tenon::graph {

const TensorType& Value::type() const { return builder->graph().nodes[static_cast<size_t>(id)].type; }

Value Value::heads(int64_t n) const {
  if (n <= 0 || type().features() % n != 0)
    fail(ErrorCode::invalid_file,
         "{} does not split into {} heads; config and weights of this model do not fit together", to_string(type()), n);
  return builder->apply(Reshape{{n, type().features() / n}}, {*this});
}
Value Value::merge_heads() const { return builder->apply(Reshape{{type().features()}}, {*this}); }
Value Value::columns(int64_t begin, int64_t count) const { return builder->apply(Slice{begin, count}, {*this}); }

int32_t Builder::add(Node node) {
  graph_.nodes.push_back(std::move(node));
  return static_cast<int32_t>(graph_.nodes.size()) - 1;
}

template <class Leaf>
std::optional<Value> Builder::find(std::string_view name) {
  for (size_t i = 0; i < graph_.nodes.size(); ++i)
    if (auto leaf = as<Leaf>(graph_.nodes[i].op); leaf && leaf->name == name)
      return Value{this, static_cast<int32_t>(i)};
  return std::nullopt;
}

Value Builder::input(std::string name, TensorType type) {
  if (auto known = find<Input>(name)) return *known;
  return {this, add({Input{std::move(name)}, {}, std::move(type)})};
}

Value Builder::weight(const std::string& name) {
  if (auto known = find<Weight>(name)) return *known;
  return {this, add({Weight{name}, {}, weights_.require(name)})};
}

Value Builder::apply(Op op, std::initializer_list<Value> inputs) {
  Node node{std::move(op), {}, {}};
  std::vector<TensorType> types;
  for (const Value& v : inputs) {
    node.inputs.push_back(v.id);
    types.push_back(v.type());
  }
  node.type = infer(node.op, types);
  return {this, add(std::move(node))};
}

int32_t Builder::state(KvState state) {
  graph_.states.push_back(state);
  return static_cast<int32_t>(graph_.states.size()) - 1;
}

void Builder::output(std::string name, Value v) { graph_.outputs.push_back({std::move(name), v.id}); }

std::string Scope::full(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

Scope Scope::operator/(std::string_view name) const { return {*builder_, full(name)}; }

bool Scope::has(std::string_view name) const { return builder_->weights().find(full(name)).has_value(); }

Value Scope::weight(std::string_view name) const { return builder_->weight(full(name)); }

// NVFP4 in GGUF keeps a second-level scale of the whole matrix beside it.
Value Scope::scaled(Value y) const {
  if (!has("scale")) return y;
  std::vector<float> scale = builder_->weights().values(full("scale"));
  if (scale.size() != 1) fail(ErrorCode::unsupported, "{} has {} values, wanted one", full("scale"), scale.size());
  return y * scale[0];
}

Value Scope::adapted(Value y, Value x) const {
  if (!has("lora_A")) return y;
  const Value rows = builder_->input("adapters", {DType::i32, {Symbol::rows}});
  return builder_->apply(LowRank{}, {y, x, weight("lora_A"), weight("lora_B"), rows});
}

Value Scope::embedding(std::string_view name, Value ids) const {
  Scope s = *this / name;
  return s.scaled(builder_->apply(Embedding{}, {s.weight("weight"), ids}));
}

Value Scope::linear(std::string_view name, Value x, bool in_out) const {
  Scope s = *this / name;
  Value w = s.weight("weight");
  if (!s.has("bias")) return s.adapted(s.scaled(builder_->apply(Linear{in_out}, {x, w})), x);
  if (s.has("scale")) fail(ErrorCode::unsupported, "{} has a bias and a scale", s.path_);
  return s.adapted(builder_->apply(Linear{in_out}, {x, w, s.weight("bias")}), x);
}

Value Scope::tied_head(std::string_view embedding, Value x) const {
  Scope s = *this / embedding;
  return s.scaled(builder_->apply(Linear{}, {x, s.weight("weight")}));
}

Value Scope::rms_norm(std::string_view name, Value x, float eps, float offset) const {
  return builder_->apply(RmsNorm{eps, offset}, {x, (*this / name).weight("weight")});
}

Value Scope::layer_norm(std::string_view name, Value x, float eps) const {
  Scope s = *this / name;
  return builder_->apply(LayerNorm{eps}, {x, s.weight("weight"), s.weight("bias")});
}

Value operator+(Value a, Value b) { return a.builder->apply(Add{}, {a, b}); }
Value operator*(Value a, Value b) { return a.builder->apply(Multiply{}, {a, b}); }
Value operator*(Value a, float factor) { return a.builder->apply(Scale{factor}, {a}); }
Value activate(Activation f, Value x) { return x.builder->apply(Activate{f}, {x}); }
Value softcap(Value x, float cap) { return x.builder->apply(Softcap{cap}, {x}); }
Value rope(Value x, Value table, bool interleaved) { return x.builder->apply(Rope{interleaved}, {x, table}); }

}  // namespace tenon::graph
