// What the files beside a tokenizer add: end tokens, BOS, chat templates.
#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "text/spec.h"

namespace tenon::text {
namespace {

namespace fs = std::filesystem;

std::optional<int32_t> id_of(const TokenizerSpec& spec, std::string_view token) {
  for (const AddedToken& t : spec.added)
    if (t.content == token) return t.id;
  int32_t id = spec.vocabulary->find_spelled(token);
  return id < 0 ? std::nullopt : std::optional(id);
}

// A token is a string or {"content": string}.
std::optional<std::string> token_text(const Json& config, const char* key) {
  auto it = config.find(key);
  if (it == config.end()) return std::nullopt;
  if (it->is_string()) return it->get<std::string>();
  if (it->is_object() && it->contains("content") && (*it)["content"].is_string())
    return (*it)["content"].get<std::string>();
  return std::nullopt;
}

void add_end(TokenizerSpec& spec, std::optional<int32_t> id) {
  if (id && std::find(spec.eos.begin(), spec.eos.end(), *id) == spec.eos.end()) spec.eos.push_back(*id);
}

void add_template(TokenizerSpec& spec, std::string name, std::string source) {
  auto same = std::find_if(spec.chat_templates.begin(), spec.chat_templates.end(),
                           [&](const auto& t) { return t.first == name; });
  if (same != spec.chat_templates.end())
    same->second = std::move(source);
  else
    spec.chat_templates.emplace_back(std::move(name), std::move(source));
}

// A string, or a list of {"name", "template"}.
void read_template_field(const Json& config, TokenizerSpec& spec) {
  auto it = config.find("chat_template");
  if (it == config.end()) return;
  if (it->is_string()) return add_template(spec, "default", it->get<std::string>());
  if (!it->is_array()) return;
  for (const Json& entry : *it)
    if (entry.is_object() && entry.contains("name") && entry.contains("template") && entry["name"].is_string() &&
        entry["template"].is_string())
      add_template(spec, entry["name"].get<std::string>(), entry["template"].get<std::string>());
}

void read_token_names(const fs::path& file, TokenizerSpec& spec) {
  if (!fs::exists(file)) return;
  Json config = read_json(file);
  if (!config.is_object()) return;
  if (auto bos = token_text(config, "bos_token"))
    if (auto id = id_of(spec, *bos)) spec.bos = id;
  if (auto eos = token_text(config, "eos_token")) add_end(spec, id_of(spec, *eos));
  read_template_field(config, spec);
}

// eos_token_id may be a list; the vocabulary bounds it.
void read_generation_config(const fs::path& file, TokenizerSpec& spec) {
  if (!fs::exists(file)) return;
  Json config = read_json(file);
  if (!config.is_object() || !config.contains("eos_token_id")) return;
  const Json& v = config["eos_token_id"];
  for (const Json& id : v.is_array() ? v : Json::array({v}))
    if (id.is_number_integer() && id.get<int64_t>() >= 0 && id.get<int64_t>() < Vocabulary::kMaxTokens)
      add_end(spec, static_cast<int32_t>(id.get<int64_t>()));
}

constexpr uint64_t kMaxTemplateBytes = 4 << 20;

void read_template_files(const fs::path& folder, TokenizerSpec& spec) {
  if (fs::exists(folder / "chat_template.json")) read_template_field(read_json(folder / "chat_template.json"), spec);
  if (fs::exists(folder / "chat_template.jinja"))
    add_template(spec, "default", read_file(folder / "chat_template.jinja", kMaxTemplateBytes));
  fs::path more = folder / "additional_chat_templates";
  if (!fs::is_directory(more)) return;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(more))
    if (entry.path().extension() == ".jinja") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& f : files) add_template(spec, f.stem().string(), read_file(f, kMaxTemplateBytes));
}

}  // namespace

void read_companions(const fs::path& folder, TokenizerSpec& spec) {
  read_token_names(folder / "special_tokens_map.json", spec);
  read_token_names(folder / "tokenizer_config.json", spec);
  read_generation_config(folder / "generation_config.json", spec);
  read_template_files(folder, spec);
}

}  // namespace tenon::text
