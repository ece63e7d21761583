#include "models/adapters.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tensor/quant.h"

namespace tenon::models {

using formats::Checkpoint;
using formats::Config;
using formats::TensorInfo;
using graph::TensorType;

namespace {

constexpr int64_t kMostRank = 1024;  // kernels hold a row's x * a^T on the stack
constexpr std::string_view kPrefix = "base_model.model.", kA = ".lora_A", kB = ".lora_B", kWeight = ".weight";

// alpha / rank, or alpha / sqrt(rank) (rsLoRA, arXiv:2312.03732).
struct Scaling {
  double alpha;
  bool by_root;
  float of(int64_t rank) const {
    const auto r = static_cast<double>(rank);
    return static_cast<float>(alpha / (by_root ? std::sqrt(r) : r));
  }
};

Scaling read_scaling(const Config& c) {
  auto refuse = [&](std::string_view field, std::string_view why) {
    fail(ErrorCode::unsupported, "{}: '{}': {}", c.source(), field, why);
  };
  if (c.string("peft_type") != "LORA") refuse("peft_type", "only LORA adapters are supported");
  if (c.flag_or("use_dora", false)) refuse("use_dora", "DoRA's magnitudes are not supported");
  if (c.string_or("bias", "none") != "none") refuse("bias", "trained biases are not supported");
  for (const char* field : {"alpha_pattern", "modules_to_save", "trainable_token_indices"})
    if (c.has(field) && !c.json()[field].empty()) refuse(field, "is not supported");
  return {c.real("lora_alpha"), c.flag_or("use_rslora", false)};
}

}  // namespace

AdaptedSource::AdaptedSource(const graph::WeightSource& base, std::span<const AdapterFile> files)
    : base_(base), files_(files.begin(), files.end()) {
  for (const AdapterFile& f : files_) checkpoints_.push_back(Checkpoint::open(f.path / "adapter_model.safetensors"));
  for (size_t i = 0; i < files_.size(); ++i) add(i);
}

void AdaptedSource::add(size_t adapter) {
  const Scaling scaling = read_scaling(Config::from_file(files_[adapter].path / "adapter_config.json"));
  const Checkpoint& c = checkpoints_[adapter];
  const std::string file = c.files()[0]->name();
  for (const TensorInfo& t : c.tensors()) {
    std::string_view name = t.name;
    if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
    if (name.ends_with(kWeight)) name.remove_suffix(kWeight.size());
    const bool a = name.ends_with(kA), b = name.ends_with(kB);
    if (!a && !b) fail(ErrorCode::unsupported, "{}: tensor {} is no matrix of a LoRA adapter", file, printable(t.name));
    if (t.shape.size() != 2 || !is_float(t.dtype))
      fail(ErrorCode::invalid_file, "{}: tensor {} is no matrix", file, printable(t.name));
    const TensorInfo& other = c.at(std::string(t.name).replace(t.name.rfind(a ? kA : kB), kA.size(), a ? kB : kA));
    if (!a) continue;  // with its other half
    std::string layer(name.substr(0, name.size() - kA.size()));
    const int64_t rank = t.shape[0];
    if (other.shape.size() != 2 || other.shape[1] != rank || rank < 1 || rank > kMostRank)
      fail(ErrorCode::invalid_file, "{}: {} and its lora_B have ranks {} and {}, wanted one of at most {}", file,
           printable(t.name), rank, other.shape.size() == 2 ? other.shape[1] : 0, kMostRank);
    Layer& l = layers_[layer];
    if (!l.parts.empty() && (l.in != t.shape[1] || l.out != other.shape[0]))
      fail(ErrorCode::invalid_file, "{}: {} has the shape of another model than the adapter {}", file,
           printable(t.name), files_[l.parts[0].adapter].name);
    l.in = t.shape[1];
    l.out = other.shape[0];
    l.rank = std::max(l.rank, rank);
    l.parts.push_back({adapter, &t, &other, scaling.of(rank)});
  }
}

const AdaptedSource::Layer* AdaptedSource::layer(std::string_view weight, bool& is_b) const {
  is_b = weight.ends_with(kB);
  if (!is_b && !weight.ends_with(kA)) return nullptr;
  auto l = layers_.find(weight.substr(0, weight.size() - kA.size()));
  return l == layers_.end() ? nullptr : &l->second;
}

size_t AdaptedSource::tensors() const {
  size_t n = 0;
  for (const Checkpoint& c : checkpoints_) n += c.tensors().size();
  return n;
}

bool AdaptedSource::has(std::string_view weight) const {
  bool is_b;
  return layer(weight, is_b) != nullptr;
}

std::optional<TensorType> AdaptedSource::find(std::string_view name) const {
  bool is_b;
  const Layer* l = layer(name, is_b);
  if (!l) return base_.find(name);
  return TensorType{DType::f32, {static_cast<int64_t>(files_.size()), l->rank, is_b ? l->out : l->in}};
}

TensorType AdaptedSource::require(std::string_view name) const { return has(name) ? *find(name) : base_.require(name); }

void AdaptedSource::fill(std::string_view weight, std::span<float> out) const {
  bool is_b;
  const Layer& l = *layer(weight, is_b);
  std::fill(out.begin(), out.end(), 0.0f);
  for (const Part& p : l.parts) {
    const TensorInfo& t = is_b ? *p.b : *p.a;
    std::vector<float> values(static_cast<size_t>(t.elements()));
    decode(t.dtype, checkpoints_[p.adapter].bytes(t).data(), values.data(), t.elements());
    float* to = out.data() + static_cast<int64_t>(p.adapter) * l.rank * (is_b ? l.out : l.in);
    if (!is_b) {
      std::copy(values.begin(), values.end(), to);
      continue;
    }
    const int64_t rank = t.shape[1];
    for (int64_t o = 0; o < l.out; ++o)
      for (int64_t r = 0; r < rank; ++r) to[r * l.out + o] = p.scale * values[static_cast<size_t>(o * rank + r)];
  }
}

void AdaptedSource::require_used(const graph::Graph& graph) const {
  for (const auto& [name, l] : layers_) {
    const bool used = std::any_of(graph.nodes.begin(), graph.nodes.end(), [&, &layer = name](const graph::Node& n) {
      auto w = graph::as<graph::Weight>(n.op);
      return w && w->name.size() == layer.size() + kA.size() && w->name.starts_with(layer) && w->name.ends_with(kA);
    });
    if (!used)
      fail(ErrorCode::invalid_file, "{}: {} is no linear layer of this model that an adapter can change",
           files_[l.parts[0].adapter].path.string(), printable(name));
  }
}

}  // namespace tenon::models
