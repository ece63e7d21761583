// tenon inspect: what a model file holds.
#include <cstdio>
#include <iostream>
#include <map>

#include "base/error.h"
#include "cli/command.h"
#include "cli/process.h"
#include "formats/gguf.h"
#include "formats/sha256.h"
#include "models/source.h"
#include "pipelines/text.h"

namespace tenon::cli {
namespace {

using formats::Checkpoint;
using formats::TensorInfo;
using runtime::human_bytes;

struct Options {
  std::string model;
  bool json = false, tensors = false, sha256 = false;
};

std::string hash(const Checkpoint& c, const TensorInfo& t) {
  if (t.strides.empty()) return formats::sha256_hex(c.bytes(t));
  std::vector<std::byte> raw(t.bytes);
  c.contiguous(t, raw);
  return formats::sha256_hex(raw);
}

Json tensor_list(const Checkpoint& c, bool sha256) {
  Json list = Json::array();
  for (const TensorInfo& t : c.tensors()) {
    Json row = {{"name", t.name}, {"dtype", name(t.dtype)}, {"shape", t.shape}, {"bytes", t.bytes}};
    if (sha256) row["sha256"] = hash(c, t);
    list.push_back(std::move(row));
  }
  return list;
}

// The container alone: what can be said of any well-formed file.
Json container_facts(const Checkpoint& c) {
  std::map<std::string, uint64_t> by_dtype;
  uint64_t bytes = 0;
  int64_t elements = 0;
  for (const TensorInfo& t : c.tensors()) {
    by_dtype[name(t.dtype)] += t.bytes;
    bytes += t.bytes;
    elements += t.elements();
  }
  Json files = Json::array();
  for (const auto& f : c.files())
    files.push_back({{"name", f->path().filename().string()}, {"bytes", f->bytes().size()}});
  const char* container[] = {"safetensors", "gguf", "torch"};
  return {{"container", container[static_cast<int>(c.container())]},
          {"files", files},
          {"tensor_count", c.tensors().size()},
          {"elements", elements},
          {"tensor_bytes", bytes},
          {"dtypes", by_dtype}};
}

Json model_facts(const models::Model& m) {
  models::Dimensions d = m.dimensions();
  int64_t parameters = m.parameters();
  uint64_t held = 0;
  for (const graph::Node& n : m.build(false).nodes)
    if (auto w = graph::as<graph::Weight>(n.op)) {
      const formats::PackedWeight* packed = m.source().packed(w->name);
      held += packed ? packed->bytes() : m.source().locate(w->name)->bytes;
    }
  auto n = static_cast<uint64_t>(parameters);
  return {{"architecture", m.config().string("model_type")},
          {"family", m.family().name},
          {"parameters", parameters},
          {"parameter_bytes", held},
          {"layers", d.layers},
          {"hidden_size", d.hidden},
          {"attention_heads", d.heads},
          {"key_value_heads", d.kv_heads},
          {"head_dim", d.head_dim},
          {"vocabulary", d.vocab},
          {"context", d.context},
          {"bytes_as", {{"FP32", 4 * n}, {"BF16", 2 * n}, {"INT8", n}, {"INT4", (n + 1) / 2}}}};
}

Json tokenizer_facts(const std::string& path) {
  auto t = pipelines::load_tokenizer(path);
  if (!t) return nullptr;
  Json names = Json::array();
  for (const auto& [name, source] : t->chat_templates()) names.push_back(name);
  Json facts = {
      {"kind", t->kind()}, {"vocabulary", t->vocab_size()}, {"chat_templates", names}, {"adds_bos", t->adds_bos()}};
  if (auto id = t->bos_id()) facts["bos"] = t->token(*id);
  Json eos = Json::array();
  for (int32_t id : t->eos_ids()) eos.push_back(t->token(id));
  facts["eos"] = eos;
  return facts;
}

void print(const Json& facts) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [key, value] : facts.items()) {
    if (key == "tensors" || key == "files" || value.is_null()) continue;
    if (value.is_object()) {
      for (const auto& [inner, v] : value.items()) {
        bool bytes = key == "dtypes" || key == "bytes_as";
        rows.push_back({key + " " + inner, bytes           ? human_bytes(v.get<uint64_t>())
                                           : v.is_string() ? v.get<std::string>()
                                                           : v.dump()});
      }
      continue;
    }
    std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (key.ends_with("_bytes")) text += " (" + human_bytes(value.get<uint64_t>()) + ")";
    rows.push_back({key, text});
  }
  for (const Json& f : facts["files"])
    rows.push_back({"file " + f["name"].get<std::string>(), human_bytes(f["bytes"].get<uint64_t>())});
  std::cout << table(rows);
  if (!facts.contains("tensors")) return;
  rows.clear();
  for (const Json& t : facts["tensors"]) {
    rows.push_back({printable(t["name"].get<std::string>(), 120), t["dtype"], t["shape"].dump()});
    if (t.contains("sha256")) rows.back().push_back(t["sha256"]);
  }
  std::cout << "\n" << table(rows);
}

int inspect(const Options& o) {
  Checkpoint c = Checkpoint::open(o.model);
  Json facts = container_facts(c);
  // The container is judged here; whether tenon can run the network is said beside it.
  try {
    auto model = models::Model::open(o.model);
    facts.update(model_facts(*model));
    facts["tokenizer"] = tokenizer_facts(o.model);
  } catch (const Error& e) {
    if (const formats::Gguf* g = c.gguf())
      facts["architecture"] = std::string(g->string("general.architecture").value_or(""));
    facts["runnable"] = std::string("no: ") + e.what();
  }
  if (o.tensors) facts["tensors"] = tensor_list(c, o.sha256);
  if (o.json)
    std::cout << facts.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  else
    print(facts);
  return 0;
}

std::function<int()> declare(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("model", o->model, "model directory, .gguf, .safetensors or .bin file")->required();
  app.add_flag("--tensors", o->tensors, "list all tensors");
  app.add_flag("--sha256", o->sha256, "with --tensors: hash of each tensor's contiguous bytes");
  app.add_flag("--json", o->json, "for machines");
  return [o] { return inspect(*o); };
}

}  // namespace

extern const Command inspect_command{"inspect", "What a model is: architecture, parameters, dtypes, tokenizer, files",
                                     "  tenon inspect model.gguf\n"
                                     "  tenon inspect model/ --json\n"
                                     "  tenon inspect weights.safetensors --tensors --sha256\n",
                                     declare};

}  // namespace tenon::cli
