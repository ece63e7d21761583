// PyTorch checkpoints: the zip container (torch >= 1.6: data.pkl and one entry per storage) and the one before it (five pickles,
// then the storages). Storages are used where they lie.
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

struct TorchFile {
  std::string source;
  uint32_t index;
  std::map<std::string, StorageSpan> storages;
  Checkpoint& out;

  bool is_contiguous(const TensorInfo& t, const std::vector<int64_t>& strides) const {
    int64_t expected = 1;
    for (size_t d = t.shape.size(); d-- > 0;) {
      if (t.shape[d] != 1 && strides[d] != expected) return false;
      expected *= t.shape[d];
    }
    return true;
  }

  void add(const Pickle& p, const PickleObject& o, std::string name) {
    const PickleObject& storage = p.at(o.items[0]);
    std::string what = source + ": tensor " + printable(name);
    auto it = storages.find(storage.text);
    if (it == storages.end()) fail(ErrorCode::invalid_file, "{}: its storage {} is missing from the file (storage missing)", what, printable(storage.text));
    TensorInfo t;
    t.name = std::move(name);
    t.dtype = *o.dtype;
    t.shape = o.shape;
    t.file = index;
    auto size = static_cast<uint64_t>(info(t.dtype).bytes);
    int64_t n = checked_elements(t.shape, what + " (storage range)");
    t.bytes = bytes_for(t.dtype, n, what);
    uint64_t declared = storage.integer < 0 ? 0 : checked_mul(static_cast<uint64_t>(storage.integer), storage.dtype ? size : 1, what);
    if (declared > it->second.size)
      fail(ErrorCode::invalid_file, "{}: its storage {} has {} bytes, {} are declared (storage range)", what, printable(storage.text), it->second.size, declared);
    // The last element's place, in elements; everything before it is inside too.
    int64_t last = o.integer;
    bool bad = o.integer < 0;
    for (size_t d = 0; d < t.shape.size(); ++d) {
      int64_t reach = 0;
      bad |= o.strides[d] < 0 || (t.shape[d] > 0 && __builtin_mul_overflow(t.shape[d] - 1, o.strides[d], &reach)) ||
             __builtin_add_overflow(last, reach, &last);
    }
    if (n > 0 && (bad || static_cast<uint64_t>(last) >= declared / size))
      fail(ErrorCode::invalid_file, "{}: shape, strides and offset {} reach outside its storage of {} bytes (storage range)", what, o.integer, declared);
    if (bad) fail(ErrorCode::invalid_file, "{}: negative offset or stride (storage range)", what);
    t.offset = it->second.offset + (n > 0 ? static_cast<uint64_t>(o.integer) * size : 0);
    if (!is_contiguous(t, o.strides)) t.strides = o.strides;
    out.add(std::move(t));
  }

  // Tensors of nested dicts get dotted names; other values (epochs, versions) are passed over.
  int64_t walk(const Pickle& p, const PickleObject& dict, const std::string& prefix, int depth) {
    if (depth > 16) fail(ErrorCode::invalid_file, "{}: dicts are nested too deep", source);
    int64_t found = 0;
    for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      const PickleObject &key = p.at(dict.items[i]), &value = p.at(dict.items[i + 1]);
      if (key.kind != Kind::string) continue;
      if (value.kind == Kind::tensor) {
        add(p, value, prefix + key.text);
        ++found;
      } else if (value.kind == Kind::dict) {
        // Training checkpoints wrap the weights in one more dict, which is no part of their names.
        bool wrapper = prefix.empty() && (key.text == "state_dict" || key.text == "model_state_dict" || key.text == "module");
        found += walk(p, value, wrapper ? "" : prefix + key.text + ".", depth + 1);
      }
    }
    return found;
  }

  void add_state_dict(const Pickle& p) {
    if (p.top().kind != Kind::dict) fail(ErrorCode::invalid_file, "{}: holds no dict of tensors (not a state dict)", source);
    if (walk(p, p.top(), "", 0) == 0) fail(ErrorCode::invalid_file, "{}: its dict holds no tensors (not a state dict)", source);
  }
};

void read_zip(std::span<const std::byte> bytes, TorchFile& file) {
  const ZipEntry* data = nullptr;
  auto entries = read_zip_directory(bytes, file.source);
  for (const ZipEntry& e : entries) {
    if (e.name.ends_with("/data.pkl") || e.name == "data.pkl") data = &e;
    auto content = bytes.subspan(e.offset, e.size);
    if (e.size < 1 << 20 && crc32_of(content) != e.crc)
      fail(ErrorCode::invalid_file, "{}: zip entry {} has a wrong CRC (bad zip, corrupt)", file.source, printable(e.name));
    if (e.name.ends_with("/byteorder") || e.name == "byteorder")
      if (std::string_view(reinterpret_cast<const char*>(content.data()), content.size()) == "big")
        fail(ErrorCode::unsupported, "{}: a big-endian checkpoint (byte order); save it again on a little-endian machine", file.source);
    if (size_t at = e.name.rfind("data/"); at != std::string::npos && (at == 0 || e.name[at - 1] == '/'))
      file.storages[e.name.substr(at + 5)] = {e.offset, e.size};
  }
  if (!data) fail(ErrorCode::invalid_file, "{}: no data.pkl entry in the zip (missing entry; not a torch checkpoint)", file.source);
  ByteReader r(bytes.subspan(data->offset, data->size), file.source);
  file.add_state_dict(Pickle::read(r));
}

// Magic number, protocol version, system info, the object, the keys of its storages; then each storage: u64 elements, raw data.
void read_legacy(std::span<const std::byte> bytes, TorchFile& file) {
  ByteReader r(bytes, file.source);
  Pickle magic = Pickle::read(r), version = Pickle::read(r), system = Pickle::read(r);
  if (magic.top().kind != Kind::integer || version.top().integer != 1001)
    fail(ErrorCode::invalid_file, "{}: a pickle, but no torch checkpoint", file.source);
  for (size_t i = 0; i + 1 < system.top().items.size(); i += 2)
    if (system.at(system.top().items[i]).text == "little_endian" && system.at(system.top().items[i + 1]).integer == 0)
      fail(ErrorCode::unsupported, "{}: a big-endian checkpoint (byte order)", file.source);
  Pickle object = Pickle::read(r), keys = Pickle::read(r);
  std::map<std::string, uint64_t> element_size;
  for (int32_t i = 0; i < object.size(); ++i)
    if (object.at(i).kind == Kind::storage)
      element_size[object.at(i).text] = object.at(i).dtype ? static_cast<uint64_t>(info(*object.at(i).dtype).bytes) : 1;
  for (int32_t key : keys.top().items) {
    const std::string& name = keys.at(key).text;
    auto it = element_size.find(name);
    if (it == element_size.end()) fail(ErrorCode::invalid_file, "{}: storage {} is used by no tensor", file.source, printable(name));
    auto n = r.read<uint64_t>("storage size");
    uint64_t size = checked_mul(n, it->second, file.source + ": storage");
    uint64_t offset = r.offset();
    r.take(size, "storage");
    file.storages[name] = {offset, size};
  }
  file.add_state_dict(object);
}

}  // namespace

void read_torch(std::shared_ptr<const MappedFile> file, Checkpoint& out) {
  auto bytes = file->bytes();
  TorchFile t{file->name(), out.add_file(file), {}, out};
  bool pickle = !bytes.empty() && bytes[0] == std::byte{0x80};
  pickle ? read_legacy(bytes, t) : read_zip(bytes, t);
}

}  // namespace tenon::formats
