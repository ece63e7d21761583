// PyTorch checkpoints: the zip container (torch >= 1.6: data.pkl and one entry per storage) and the one before it (five
// pickles, then the storages). Storages are used where they lie.
#include <cstring>
#include <map>

#include "base/bytes.h"
#include "base/checked.h"
#include "formats/pickle.h"
#include "formats/readers.h"
#include "formats/zip_directory.h"

namespace tenon::formats {
namespace {

using Kind = PickleObject::Kind;

struct StorageSpan {
  uint64_t offset = 0, size = 0;
};

// Expanded views (stride 0) can be far larger than the file; all of them together may not exceed this.
constexpr uint64_t kMaxExpanded = 256 << 20;
constexpr size_t kMaxName = 512;

struct TorchFile {
  std::string source;
  uint32_t index;
  std::map<std::string, StorageSpan, std::less<>> storages;
  Checkpoint& out;
  uint64_t expanded = 0;    // bytes
  size_t entries_left = 0;  // of dicts; an entry may be seen several times, but not exponentially often

  static bool is_contiguous(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides, int64_t elements) {
    if (elements == 0) return true;
    int64_t expected = 1;
    for (size_t d = shape.size(); d-- > 0;) {
      if (shape[d] != 1 && strides[d] != expected) return false;
      expected *= shape[d];
    }
    return true;
  }

  static std::vector<int64_t> integers(const Pickle& p, int32_t tuple) {
    std::vector<int64_t> out;
    for (int32_t i : p.items(p.at(tuple))) out.push_back(p.at(i).integer);
    return out;
  }

  // The storage's place in the file; throws when it is missing or shorter than declared.
  StorageSpan span_of(const PickleObject& storage, const std::string& what) const {
    auto it = storages.find(storage.text);
    if (it == storages.end())
      fail(ErrorCode::invalid_file, "{}: its storage {} is missing from the file (storage missing)", what,
           printable(storage.text));
    StorageSpan span = it->second;
    uint64_t element = storage.dtype ? static_cast<uint64_t>(info(*storage.dtype).bytes) : 1;
    uint64_t declared = storage.integer < 0 ? 0 : checked_mul(static_cast<uint64_t>(storage.integer), element, what);
    if (declared > span.size)
      fail(ErrorCode::invalid_file, "{}: its storage {} has {} bytes, {} are declared (storage range)", what,
           printable(storage.text), span.size, declared);
    span.size = declared;
    return span;
  }

  // The farthest element of a tensor, counted from the storage's start; null when a stride is negative or
  // the sum overflows.
  static std::optional<int64_t> last_element(int64_t offset, const std::vector<int64_t>& shape,
                                             const std::vector<int64_t>& strides) {
    int64_t last = offset;
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t reach = 0;
      if (strides[d] < 0) return std::nullopt;
      if (shape[d] > 0 &&
          (__builtin_mul_overflow(shape[d] - 1, strides[d], &reach) || __builtin_add_overflow(last, reach, &last)))
        return std::nullopt;
    }
    return last;
  }

  void add(const Pickle& p, const PickleObject& o, std::string name) {
    std::string what = source + ": tensor " + printable(name);
    auto parts = p.items(o);
    StorageSpan storage = span_of(p.at(parts[0]), what);
    std::vector<int64_t> strides = integers(p, parts[2]);
    TensorInfo t;
    t.name = std::move(name);
    t.dtype = *o.dtype;
    t.shape = integers(p, parts[1]);
    t.file = index;
    auto size = static_cast<uint64_t>(info(t.dtype).bytes);
    int64_t n = checked_elements(t.shape, what + " (storage range)");
    t.bytes = bytes_for(t.dtype, n, what);
    auto last = n > 0 ? last_element(o.integer, t.shape, strides) : std::nullopt;
    if (o.integer < 0 || (n > 0 && (!last || static_cast<uint64_t>(*last) >= storage.size / size)))
      fail(ErrorCode::invalid_file,
           "{}: shape, strides and offset {} reach outside its storage of {} bytes (storage range)", what, o.integer,
           storage.size);
    if (t.bytes > storage.size && (expanded = checked_add(expanded, t.bytes, what)) > kMaxExpanded)
      fail(ErrorCode::invalid_file, "{}: views that repeat their elements take more than {} bytes (storage range)",
           what, kMaxExpanded);
    t.offset = storage.offset + (n > 0 ? static_cast<uint64_t>(o.integer) * size : 0);
    if (!is_contiguous(t.shape, strides, n)) t.strides = std::move(strides);
    out.add(std::move(t));
  }

  // Tensors of nested dicts get dotted names; other values (epochs, versions) are passed over.
  int64_t walk(const Pickle& p, const PickleObject& dict, const std::string& prefix, int depth) {
    if (depth > 16) fail(ErrorCode::invalid_file, "{}: dicts are nested too deep", source);
    int64_t found = 0;
    auto items = p.items(dict);
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      if (entries_left-- == 0)
        fail(ErrorCode::invalid_file, "{}: dicts refer to each other too often (nested too deep)", source);
      const PickleObject &key = p.at(items[i]), &value = p.at(items[i + 1]);
      if (key.kind != Kind::string || (value.kind != Kind::tensor && value.kind != Kind::dict)) continue;
      if (prefix.size() + key.text.size() > kMaxName)
        fail(ErrorCode::invalid_file, "{}: the name {} is longer than {} bytes", source, printable(key.text), kMaxName);
      std::string name = prefix + std::string(key.text);
      if (value.kind == Kind::tensor) {
        add(p, value, std::move(name));
        ++found;
      } else {
        // Training checkpoints wrap the weights in one more dict, which is no part of their names.
        bool wrapper = prefix.empty() && (name == "state_dict" || name == "model_state_dict" || name == "module");
        found += walk(p, value, wrapper ? "" : name + ".", depth + 1);
      }
    }
    return found;
  }

  void add_state_dict(const Pickle& p) {
    if (p.top().kind != Kind::dict)
      fail(ErrorCode::invalid_file, "{}: holds no dict of tensors (not a state dict)", source);
    entries_left = 4 * p.item_count() + 64;
    if (walk(p, p.top(), "", 0) == 0)
      fail(ErrorCode::invalid_file, "{}: its dict holds no tensors (not a state dict)", source);
  }
};

void read_zip(std::span<const std::byte> bytes, TorchFile& file) {
  const ZipEntry* data = nullptr;
  auto entries = read_zip_directory(bytes, file.source);
  for (const ZipEntry& e : entries) {
    if (e.name.ends_with("/data.pkl") || e.name == "data.pkl") {
      if (data) fail(ErrorCode::invalid_file, "{}: the zip has two data.pkl entries (bad zip)", file.source);
      data = &e;
    }
    auto content = bytes.subspan(e.offset, e.size);
    if (e.size < 1 << 20 && crc32_of(content) != e.crc)
      fail(ErrorCode::invalid_file, "{}: zip entry {} has a wrong CRC (bad zip, corrupt)", file.source,
           printable(e.name));
    if (e.name.ends_with("/byteorder") || e.name == "byteorder")
      if (std::string_view(reinterpret_cast<const char*>(content.data()), content.size()) == "big")
        fail(ErrorCode::unsupported,
             "{}: a big-endian checkpoint (byte order); save it again on a little-endian machine", file.source);
    if (size_t at = e.name.rfind("data/"); at != std::string::npos && (at == 0 || e.name[at - 1] == '/'))
      file.storages[e.name.substr(at + 5)] = {e.offset, e.size};
  }
  if (!data)
    fail(ErrorCode::invalid_file, "{}: no data.pkl entry in the zip (missing entry; not a torch checkpoint)",
         file.source);
  ByteReader r(bytes.subspan(data->offset, data->size), file.source);
  file.add_state_dict(Pickle::read(r));
}

// Magic number, protocol version, system info, the object, the keys of its storages; then each storage: u64 elements,
// raw data.
void read_legacy(std::span<const std::byte> bytes, TorchFile& file) {
  ByteReader r(bytes, file.source);
  Pickle magic = Pickle::read(r), version = Pickle::read(r), system = Pickle::read(r);
  if (magic.top().kind != Kind::integer || version.top().integer != 1001)
    fail(ErrorCode::invalid_file, "{}: a pickle, but no torch checkpoint", file.source);
  auto facts = system.items(system.top());
  for (size_t i = 0; i + 1 < facts.size(); i += 2)
    if (system.at(facts[i]).text == "little_endian" && system.at(facts[i + 1]).integer == 0)
      fail(ErrorCode::unsupported, "{}: a big-endian checkpoint (byte order)", file.source);
  Pickle object = Pickle::read(r), keys = Pickle::read(r);
  std::map<std::string_view, uint64_t> element_size;
  for (const PickleObject& o : object.objects())
    if (o.kind == Kind::storage) element_size[o.text] = o.dtype ? static_cast<uint64_t>(info(*o.dtype).bytes) : 1;
  for (int32_t key : keys.items(keys.top())) {
    std::string_view name = keys.at(key).text;
    auto it = element_size.find(name);
    if (it == element_size.end())
      fail(ErrorCode::invalid_file, "{}: storage {} is used by no tensor", file.source, printable(name));
    auto n = r.read<uint64_t>("storage size");
    uint64_t size = checked_mul(n, it->second, file.source + ": storage");
    uint64_t offset = r.offset();
    r.take(size, "storage");
    file.storages[std::string(name)] = {offset, size};
  }
  file.add_state_dict(object);
}

}  // namespace

void read_torch(std::shared_ptr<const MappedFile> file, Checkpoint& out) {
  auto bytes = file->bytes();
  TorchFile t{.source = file->name(), .index = out.add_file(file), .storages = {}, .out = out};
  bool pickle = !bytes.empty() && bytes[0] == std::byte{0x80};
  pickle ? read_legacy(bytes, t) : read_zip(bytes, t);
}

}  // namespace tenon::formats
