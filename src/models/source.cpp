#include "models/source.h"

#include <set>

#include "base/checked.h"
#include "base/error.h"
#include "formats/gguf.h"
#include "tensor/quant.h"

namespace tenon::models {

using formats::Checkpoint;
using formats::TensorInfo;
using graph::TensorType;

CheckpointSource::CheckpointSource(const Checkpoint& checkpoint, const Config& config)
    : checkpoint_(checkpoint), packed_(checkpoint, config) {
  if (const formats::Gguf* g = checkpoint.gguf()) architecture_ = g->string("general.architecture").value_or("");
}

namespace {

// What `find` has for a name or for the name without the bare model's prefix.
template <class Find>
auto by_either_name(std::string_view name, Find&& find) {
  auto found = find(name);
  for (std::string_view prefix : {"transformer.", "model."})
    if (!found && name.starts_with(prefix)) found = find(name.substr(prefix.size()));
  return found;
}

TensorType type_of(const TensorInfo& t) {
  TensorType type{t.dtype, {}};
  for (int64_t n : t.shape) type.shape.emplace_back(n);
  return type;
}

TensorType type_of(const formats::PackedWeight& w) { return {w.held, {w.out, w.in}}; }

}  // namespace

const TensorInfo* CheckpointSource::locate(std::string_view name) const {
  if (checkpoint_.gguf()) {
    auto gguf = formats::gguf_name(architecture_, name);
    return gguf ? checkpoint_.find(*gguf) : nullptr;
  }
  return by_either_name(name, [&](std::string_view n) { return checkpoint_.find(n); });
}

const formats::PackedWeight* CheckpointSource::packed(std::string_view name) const {
  return by_either_name(name, [&](std::string_view n) { return packed_.find(n); });
}

std::optional<TensorType> CheckpointSource::find(std::string_view name) const {
  if (const formats::PackedWeight* w = packed(name)) return type_of(*w);
  const TensorInfo* t = locate(name);
  if (!t) return std::nullopt;
  return type_of(*t);
}

TensorType CheckpointSource::require(std::string_view name) const {
  if (const formats::PackedWeight* w = packed(name)) return type_of(*w);
  const TensorInfo* t = locate(name);
  if (!t) {
    std::string stored = std::string(name);
    if (checkpoint_.gguf()) stored = formats::gguf_name(architecture_, name).value_or(stored);
    t = &checkpoint_.at(stored);  // throws, naming what is near
  }
  if (!is_float(t->dtype))
    fail(ErrorCode::unsupported, "{}: tensor {} has type {}, which is not a weight type",
         checkpoint_.files()[t->file]->name(), printable(t->name), tenon::name(t->dtype));
  return type_of(*t);
}

std::vector<float> CheckpointSource::values(std::string_view name) const {
  if (packed(name)) fail(ErrorCode::unsupported, "{} is quantised, a table cannot be", printable(name));
  require(name);
  const TensorInfo& t = *locate(name);
  if (t.elements() > 1 << 20)
    fail(ErrorCode::invalid_file, "{} has {} elements, too many for a table", printable(t.name), t.elements());
  std::vector<std::byte> raw(t.bytes);
  checkpoint_.contiguous(t, raw);
  std::vector<float> out(static_cast<size_t>(t.elements()));
  decode(t.dtype, raw.data(), out.data(), t.elements());
  return out;
}

Config read_config(const std::filesystem::path& path, const Checkpoint& checkpoint) {
  if (const formats::Gguf* g = checkpoint.gguf()) return Config::from_gguf(*g);
  std::filesystem::path folder = std::filesystem::is_directory(path) ? path : path.parent_path();
  std::filesystem::path file = folder / "config.json";
  if (!std::filesystem::exists(file))
    fail(ErrorCode::not_found, "{}: no config.json, so the network of these weights is unknown", folder.string());
  return Config::from_file(file);
}

Model::Model(std::filesystem::path path, Checkpoint checkpoint, Config config)
    : path_(std::move(path)),
      checkpoint_(std::move(checkpoint)),
      config_(std::move(config)),
      family_(&family_of(config_)) {
  source_ = std::make_unique<CheckpointSource>(checkpoint_, config_);
}

std::shared_ptr<const Model> Model::open(const std::filesystem::path& path, std::span<const AdapterFile> adapters) {
  Checkpoint checkpoint = Checkpoint::open(path);
  Config config = read_config(path, checkpoint);
  std::shared_ptr<Model> model(new Model(path, std::move(checkpoint), std::move(config)));
  model->adapted_ = std::make_unique<AdaptedSource>(*model->source_, adapters);
  model->dimensions_ = model->family_->load(model->config_, *model->source_).dimensions;
  graph::Graph g = model->build(false);
  model->adapted_->require_used(g);
  if (model->config_.dialect().rope_interleaved)
    for (const char* name : {"q_proj.lora_A", "k_proj.lora_A"})
      for (const graph::Node& n : g.nodes)
        if (auto w = graph::as<graph::Weight>(n.op); w && w->name.ends_with(name))
          fail(ErrorCode::unsupported,
               "{}: this GGUF file keeps the rows of q_proj and k_proj in an order of its own, which adapters do not "
               "have; use the model's Hugging Face directory",
               printable(path.string(), 200));
  model->dimensions_.vocab = g.nodes[static_cast<size_t>(g.output("logits"))].type.last();
  return model;
}

graph::Graph Model::build(bool hidden_states) const {
  try {
    Network network = family_->load(config_, *source_);
    Builder builder(*adapted_);
    Step step(builder, hidden_states);
    builder.output("logits", network.logits(Scope(builder, ""), step));
    graph::Graph g = builder.take();
    g.verify();
    return g;
  } catch (const Error& e) {  // the graph knows shapes, not files
    std::string file = path_.string();
    if (std::string_view(e.what()).find(file) != std::string_view::npos) throw;
    fail(e.code(), "{}: {}", printable(file, 200), e.what());
  }
}

int64_t Model::parameters() const {
  int64_t n = 0;
  for (const graph::Node& node : build(false).nodes)
    if (graph::as<graph::Weight>(node.op)) n += graph::elements(node.type, {});
  return n;
}

std::string id_of(const std::filesystem::path& path) {
  auto p = path.filename().empty() ? path.parent_path() : path;
  return std::filesystem::is_directory(path) ? p.filename().string() : p.stem().string();
}

}  // namespace tenon::models
