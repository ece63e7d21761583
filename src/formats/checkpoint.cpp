#include "formats/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "base/checked.h"
#include "base/error.h"
#include "base/json.h"
#include "formats/gguf.h"
#include "formats/readers.h"

namespace tenon::formats {

namespace fs = std::filesystem;

int64_t TensorInfo::elements() const {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

const TensorInfo* Checkpoint::find(std::string_view name) const {
  auto it = index_.find(std::string(name));
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

namespace {

// Levenshtein distance, given up beyond `most`.
size_t distance(std::string_view a, std::string_view b, size_t most) {
  if (a.size() > b.size() + most || b.size() > a.size() + most) return most + 1;
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i), best = row[0];
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t cost = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = std::exchange(row[j], cost);
      best = std::min(best, cost);
    }
    if (best > most) return most + 1;
  }
  return row.back();
}

}  // namespace

const TensorInfo& Checkpoint::at(std::string_view name) const {
  if (const TensorInfo* t = find(name)) return *t;
  std::vector<std::pair<size_t, std::string_view>> near;
  constexpr size_t kMost = 12;
  if (name.size() < 300)
    for (const TensorInfo& t : tensors_)
      if (size_t d = t.name.size() < 300 ? distance(name, t.name, kMost) : kMost + 1; d <= kMost)
        near.emplace_back(d, t.name);
  std::sort(near.begin(), near.end());
  std::string hint;
  for (size_t i = 0; i < std::min<size_t>(3, near.size()); ++i)
    hint += (i ? ", " : "; nearest: ") + printable(near[i].second);
  fail(ErrorCode::not_found, "{}: there is no tensor {} among {}{}", files_.empty() ? "checkpoint" : files_[0]->name(),
       printable(name, 120), tensors_.size(), hint);
}

std::span<const std::byte> Checkpoint::bytes(const TensorInfo& t) const {
  TENON_CHECK(t.strides.empty());
  return files_[t.file]->bytes().subspan(t.offset, t.bytes);
}

void Checkpoint::contiguous(const TensorInfo& t, std::span<std::byte> out) const {
  TENON_CHECK(out.size() == t.bytes);
  if (t.bytes == 0) return;
  if (t.strides.empty()) {
    std::memcpy(out.data(), bytes(t).data(), t.bytes);
    return;
  }
  const std::byte* base = files_[t.file]->bytes().data() + t.offset;
  auto size = static_cast<size_t>(info(t.dtype).bytes);
  std::vector<int64_t> at(t.shape.size(), 0);
  for (std::byte* to = out.data(); to < out.data() + out.size(); to += size) {
    int64_t element = 0;
    for (size_t d = 0; d < at.size(); ++d) element += at[d] * t.strides[d];
    std::memcpy(to, base + static_cast<size_t>(element) * size, size);
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < t.shape[d]) break;
      at[d] = 0;
    }
  }
}

void Checkpoint::add(TensorInfo tensor) {
  auto [it, added] = index_.try_emplace(tensor.name, tensors_.size());
  if (!added)
    fail(ErrorCode::invalid_file, "{}: duplicate tensor name {}", files_[tensor.file]->name(), printable(tensor.name));
  tensors_.push_back(std::move(tensor));
}

uint32_t Checkpoint::add_file(std::shared_ptr<const MappedFile> file) {
  files_.push_back(std::move(file));
  return static_cast<uint32_t>(files_.size()) - 1;
}

namespace {

void read_file_into(const fs::path& path, Checkpoint& out, Container& container) {
  if (path.filename().string().ends_with(".index.json")) {
    // Shards say themselves what they are.
    read_safetensors_index(path, out);
    container =
        path.filename().string().find("safetensors") == std::string::npos ? Container::torch : Container::safetensors;
    return;
  }
  auto file = MappedFile::open(path);
  auto bytes = file->bytes();
  auto starts = [&](std::string_view magic) {
    return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
  };
  std::string ending = path.extension().string();
  bool torch_name = ending == ".bin" || ending == ".pth" || ending == ".pt" || ending == ".ckpt";
  if (ending != ".safetensors" && (looks_like_gguf(bytes) || ending == ".gguf")) {
    container = Container::gguf;
    read_gguf(file, out);
  } else if (ending != ".safetensors" && (starts("PK") || starts("\x80") || torch_name)) {
    container = Container::torch;
    read_torch(file, out);
  } else {
    container = Container::safetensors;
    read_safetensors(file, out);
  }
}

// The weights of a model directory.
fs::path weights_in(const fs::path& folder) {
  for (const char* name :
       {"model.safetensors.index.json", "model.safetensors", "pytorch_model.bin.index.json", "pytorch_model.bin"})
    if (fs::exists(folder / name)) return folder / name;
  std::vector<fs::path> found;
  for (const char* ending : {".safetensors", ".gguf", ".index.json"}) {
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().filename().string().ends_with(ending)) found.push_back(entry.path());
    std::sort(found.begin(), found.end());
    // A split GGUF is opened by its first part.
    if (!found.empty() && (found.size() == 1 || found[0].filename().string().find("-00001-of-") != std::string::npos))
      return found[0];
    if (!found.empty())
      fail(ErrorCode::invalid_file, "{}: several {} files and no index; name the one to open",
           printable(folder.string(), 300), ending);
  }
  fail(ErrorCode::not_found,
       "{}: no weights here (model.safetensors, *.safetensors.index.json, *.gguf, pytorch_model.bin)",
       printable(folder.string(), 300));
}

}  // namespace

Checkpoint Checkpoint::open(const fs::path& path) {
  Checkpoint out;
  read_file_into(fs::is_directory(path) ? weights_in(path) : path, out, out.container_);
  return out;
}

ShardIndex read_shard_index(const fs::path& index) {
  Json json = read_json(index);
  std::string source = index.string();
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    fail(ErrorCode::invalid_file, "{}: weight_map is missing or not an object", source);
  ShardIndex out;
  std::unordered_set<std::string> seen;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    if (!file.is_string())
      fail(ErrorCode::invalid_file, "{}: weight_map entry {} is not a file name", source, printable(tensor));
    std::string name = file.get<std::string>();
    fs::path relative(name);
    bool escapes = relative.is_absolute() || name.empty() || name.find('\0') != std::string::npos;
    for (const fs::path& part : relative) escapes |= part == "..";
    if (escapes)
      fail(ErrorCode::invalid_file, "{}: weight_map names {}, a path outside the model's folder", source,
           printable(name));
    if (seen.insert(name).second) out.files.push_back(name);
    out.tensors.emplace_back(tensor, name);
  }
  return out;
}

}  // namespace tenon::formats
