#include "formats/gguf.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/bytes.h"
#include "base/checked.h"
#include "formats/readers.h"

namespace tenon::formats {
namespace {

constexpr size_t kFixedSize[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};  // by GgufType; 0: string, array

struct GgmlType {
  uint32_t number;
  DType dtype;
};
constexpr GgmlType kGgmlTypes[] = {
    {0, DType::f32},     {1, DType::f16},      {2, DType::q4_0},   {3, DType::q4_1},    {6, DType::q5_0},
    {7, DType::q5_1},    {8, DType::q8_0},     {9, DType::q8_1},   {10, DType::q2_k},   {11, DType::q3_k},
    {12, DType::q4_k},   {13, DType::q5_k},    {14, DType::q6_k},  {15, DType::q8_k},   {16, DType::iq2_xxs},
    {17, DType::iq2_xs}, {18, DType::iq3_xxs}, {19, DType::iq1_s}, {20, DType::iq4_nl}, {21, DType::iq3_s},
    {22, DType::iq2_s},  {23, DType::iq4_xs},  {24, DType::i8},    {25, DType::i16},    {26, DType::i32},
    {27, DType::i64},    {28, DType::f64},     {29, DType::iq1_m}, {30, DType::bf16},   {34, DType::tq1_0},
    {35, DType::tq2_0},  {39, DType::mxfp4},   {40, DType::nvfp4}, {41, DType::q1_0},   {42, DType::q2_0},
};

template <class T>
T load(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

std::optional<int64_t> integer_at(GgufType type, const std::byte* p) {
  switch (type) {
    case GgufType::u8:
      return load<uint8_t>(p);
    case GgufType::i8:
      return load<int8_t>(p);
    case GgufType::u16:
      return load<uint16_t>(p);
    case GgufType::i16:
      return load<int16_t>(p);
    case GgufType::u32:
      return load<uint32_t>(p);
    case GgufType::i32:
      return load<int32_t>(p);
    case GgufType::i64:
      return load<int64_t>(p);
    case GgufType::boolean:
      return load<uint8_t>(p) != 0;
    case GgufType::u64: {
      auto v = load<uint64_t>(p);
      return v >> 63 ? std::nullopt : std::optional<int64_t>(static_cast<int64_t>(v));
    }
    default:
      return std::nullopt;
  }
}

std::optional<double> real_at(GgufType type, const std::byte* p) {
  if (type == GgufType::f32) return static_cast<double>(load<float>(p));
  if (type == GgufType::f64) return load<double>(p);
  if (type == GgufType::u64) return static_cast<double>(load<uint64_t>(p));
  if (auto i = integer_at(type, p); i && type != GgufType::boolean) return static_cast<double>(*i);
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> GgufValue::integer() const {
  return kFixedSize[static_cast<size_t>(type)] && type != GgufType::boolean ? integer_at(type, raw.data())
                                                                            : std::nullopt;
}
std::optional<double> GgufValue::real() const {
  return kFixedSize[static_cast<size_t>(type)] ? real_at(type, raw.data()) : std::nullopt;
}
std::optional<bool> GgufValue::flag() const {
  return type == GgufType::boolean ? std::optional(load<uint8_t>(raw.data()) != 0) : std::nullopt;
}
std::optional<std::string_view> GgufValue::string() const {
  if (type != GgufType::string) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(raw.data()), raw.size());
}

std::optional<std::vector<int64_t>> GgufValue::integers() const {
  if (type != GgufType::array) return std::nullopt;
  std::vector<int64_t> out;
  size_t size = kFixedSize[static_cast<size_t>(item)];
  if (size == 0 || item == GgufType::f32 || item == GgufType::f64)
    return count == 0 ? std::optional(out) : std::nullopt;
  out.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    auto v = integer_at(item, raw.data() + i * size);
    if (!v) return std::nullopt;
    out.push_back(*v);
  }
  return out;
}

std::optional<std::vector<double>> GgufValue::reals() const {
  if (type != GgufType::array) return std::nullopt;
  std::vector<double> out;
  size_t size = kFixedSize[static_cast<size_t>(item)];
  if (size == 0 || item == GgufType::boolean) return count == 0 ? std::optional(out) : std::nullopt;
  out.reserve(count);
  for (uint64_t i = 0; i < count; ++i) out.push_back(*real_at(item, raw.data() + i * size));
  return out;
}

std::optional<std::vector<std::string_view>> GgufValue::strings() const {
  if (type != GgufType::array || (item != GgufType::string && count > 0)) return std::nullopt;
  std::vector<std::string_view> out;
  out.reserve(count);
  const std::byte* p = raw.data();
  for (uint64_t i = 0; i < count; ++i) {
    auto n = load<uint64_t>(p);
    out.emplace_back(reinterpret_cast<const char*>(p + 8), n);
    p += 8 + n;
  }
  return out;
}

const GgufValue* Gguf::find(std::string_view key) const {
  for (const GgufKey& k : keys_)
    if (k.name == key) return &k.value;
  return nullptr;
}

std::optional<int64_t> Gguf::integer(std::string_view key) const {
  const GgufValue* v = find(key);
  return v ? v->integer() : std::nullopt;
}
std::optional<double> Gguf::real(std::string_view key) const {
  const GgufValue* v = find(key);
  return v ? v->real() : std::nullopt;
}
std::optional<bool> Gguf::flag(std::string_view key) const {
  const GgufValue* v = find(key);
  return v ? v->flag() : std::nullopt;
}
std::optional<std::string_view> Gguf::string(std::string_view key) const {
  const GgufValue* v = find(key);
  return v ? v->string() : std::nullopt;
}

std::optional<DType> dtype_of_ggml(uint32_t type) {
  for (const GgmlType& t : kGgmlTypes)
    if (t.number == type) return t.dtype;
  return std::nullopt;
}

bool looks_like_gguf(std::span<const std::byte> file) {
  return file.size() >= 4 && std::memcmp(file.data(), "GGUF", 4) == 0;
}

struct GgufParser {
  std::shared_ptr<const MappedFile> file;
  std::string source;
  ByteReader r;
  std::shared_ptr<Gguf> gguf = std::make_shared<Gguf>();
  std::vector<TensorInfo> tensors;
  uint64_t alignment = 32;

  explicit GgufParser(std::shared_ptr<const MappedFile> f)
      : file(std::move(f)), source(file->name()), r(file->bytes(), source) {}

  [[noreturn]] void bad(std::string_view what) {
    fail(ErrorCode::invalid_file, "{}: {} at offset {}", source, what, r.offset());
  }

  std::string_view string(std::string_view field) { return r.chars(r.read<uint64_t>(field), field); }

  // Skips an array's items, checking every length; returns the bytes they take.
  void array_items(GgufValue& v, std::string_view field) {
    auto item = r.read<uint32_t>(field);
    v.count = r.read<uint64_t>(field);
    if (item > static_cast<uint32_t>(GgufType::f64))
      bad(fmt::format("array {} has items of the unknown type {}", printable(field), item));
    v.item = static_cast<GgufType>(item);
    if (v.item == GgufType::array)
      bad(fmt::format("{} is an array of arrays, which GGUF readers do not take", printable(field)));
    uint64_t begin = r.offset();
    if (size_t size = kFixedSize[item]) {
      std::string what = "array " + printable(field);
      r.take(checked_mul(v.count, size, source + ": " + what), what);
    } else {
      if (v.count > r.remaining() / 8)
        bad(fmt::format("array {} claims {} strings, more than the file holds", printable(field), v.count));
      for (uint64_t i = 0; i < v.count; ++i) r.take(r.read<uint64_t>(field), field);
    }
    v.raw = file->bytes().subspan(begin, r.offset() - begin);
  }

  void key_value() {
    GgufKey k;
    k.name = string("key (string length)");
    if (k.name.empty()) bad("a key has an empty name");
    auto type = r.read<uint32_t>("value type");
    if (type > static_cast<uint32_t>(GgufType::f64))
      bad(fmt::format("key {} has the unknown value type {}", printable(k.name), type));
    k.value.type = static_cast<GgufType>(type);
    if (k.value.type == GgufType::array) {
      array_items(k.value, k.name);
    } else if (k.value.type == GgufType::string) {
      std::string_view s = string("string " + printable(k.name));
      k.value.raw = {reinterpret_cast<const std::byte*>(s.data()), s.size()};
    } else {
      k.value.raw = r.take(kFixedSize[type], k.name);
    }
    gguf->keys_.push_back(k);
  }

  void tensor() {
    TensorInfo t;
    t.name = string("tensor name (string length)");
    auto dims = r.read<uint32_t>("number of dimensions");
    if (dims < 1 || dims > 4) bad(fmt::format("tensor {} has {} dimensions, wanted 1 to 4", printable(t.name), dims));
    for (uint32_t i = 0; i < dims; ++i)
      t.shape.insert(t.shape.begin(), checked_cast<int64_t>(r.read<uint64_t>("dimension"),
                                                            source + ": dimension of " + printable(t.name)));
    auto type = r.read<uint32_t>("tensor type");
    auto dtype = dtype_of_ggml(type);
    if (!dtype) bad(fmt::format("tensor {} has the unknown ggml type {}", printable(t.name), type));
    t.dtype = *dtype;
    t.offset = r.read<uint64_t>("tensor offset");
    std::string what = source + ": tensor " + printable(t.name);
    int64_t n = checked_elements(t.shape, what);
    if (t.shape.back() % info(t.dtype).block)
      fail(ErrorCode::invalid_file, "{}: rows of {} elements do not fill whole {} blocks of {}", what, t.shape.back(),
           name(t.dtype), info(t.dtype).block);
    t.bytes = bytes_for(t.dtype, n, what);
    if (t.offset % alignment)
      fail(ErrorCode::invalid_file, "{}: offset {} is not a multiple of the alignment {}", what, t.offset, alignment);
    tensors.push_back(std::move(t));
  }

  void header() {
    r.chars(4, "magic");
    if (!looks_like_gguf(file->bytes()))
      fail(ErrorCode::invalid_file, "{}: no GGUF file: the magic at offset 0 is not 'GGUF'", source);
    auto version = r.read<uint32_t>("version");
    if (version == 0x02000000 || version == 0x03000000)
      fail(ErrorCode::unsupported,
           "{}: a big-endian GGUF file (byte order); convert it with gguf-py's gguf_convert_endian", source);
    if (version != 2 && version != 3)
      fail(ErrorCode::invalid_file, "{}: GGUF version {} is not supported (2 and 3 are) at offset 4", source, version);
    gguf->version_ = version;
    auto tensor_count = r.read<uint64_t>("tensor count"), key_count = r.read<uint64_t>("key count");
    // A key takes at least 13 bytes, a tensor 32: counts beyond that are lies, found before anything is allocated.
    if (key_count > r.remaining() / 13)
      bad(fmt::format("{} keys (the key count) do not fit in the file (truncated or corrupt)", key_count));
    if (tensor_count > r.remaining() / 32)
      bad(fmt::format("{} tensors (the tensor count) do not fit in the file (truncated or corrupt)", tensor_count));
    std::set<std::string_view> names;
    for (uint64_t i = 0; i < key_count; ++i) {
      key_value();
      if (!names.insert(gguf->keys_.back().name).second) bad("duplicate key " + printable(gguf->keys_.back().name));
    }
    if (const GgufValue* a = gguf->find("general.alignment")) {
      auto n = a->integer();
      if (!n || a->type != GgufType::u32 || *n < 8 || *n > 1 << 24 || (*n & (*n - 1)) != 0)
        fail(ErrorCode::invalid_file, "{}: general.alignment {} is no power of two from 8 to 2^24", source,
             n.value_or(-1));
      alignment = static_cast<uint64_t>(*n);
    }
    for (uint64_t i = 0; i < tensor_count; ++i) tensor();
    uint64_t data = round_up(r.offset(), alignment);
    for (TensorInfo& t : tensors) {
      std::string what = source + ": tensor " + printable(t.name);
      t.offset = checked_add(data, t.offset, what);
      if (checked_add(t.offset, t.bytes, what) > file->bytes().size())
        fail(ErrorCode::invalid_file,
             "{}: its {} bytes at offset {} reach past the end of the file ({} bytes; truncated or corrupt)", what,
             t.bytes, t.offset, file->bytes().size());
    }
    check_overlaps();
    gguf->file_ = file;
  }

  void check_overlaps() {
    std::vector<const TensorInfo*> order;
    for (const TensorInfo& t : tensors)
      if (t.bytes) order.push_back(&t);
    std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->offset < b->offset; });
    for (size_t i = 1; i < order.size(); ++i)
      if (order[i]->offset < order[i - 1]->offset + order[i - 1]->bytes)
        fail(ErrorCode::invalid_file, "{}: tensors {} and {} overlap at offset {}", source,
             printable(order[i - 1]->name), printable(order[i]->name), order[i]->offset);
  }
};

namespace {

std::shared_ptr<const Gguf> add_part(std::shared_ptr<const MappedFile> file, Checkpoint& out) {
  GgufParser p(std::move(file));
  p.header();
  uint32_t index = out.add_file(p.file);
  for (TensorInfo& t : p.tensors) {
    t.file = index;
    out.add(std::move(t));
  }
  return p.gguf;
}

// model-00002-of-00003.gguf for part 2 of 3.
std::filesystem::path part_path(const std::filesystem::path& first, int64_t part, int64_t count) {
  std::string name = first.filename().string(), from = fmt::format("-{:05}-of-{:05}.gguf", 1, count);
  if (!name.ends_with(from))
    fail(ErrorCode::invalid_file, "{}: part 1 of {} (split.count) must be named like x{}", first.string(), count, from);
  return first.parent_path() /
         (name.substr(0, name.size() - from.size()) + fmt::format("-{:05}-of-{:05}.gguf", part, count));
}

}  // namespace

void read_gguf(std::shared_ptr<const MappedFile> file, Checkpoint& out) {
  std::filesystem::path path = file->path();
  std::shared_ptr<const Gguf> first = add_part(file, out);
  out.set_gguf(first);
  int64_t count = first->integer("split.count").value_or(1), number = first->integer("split.no").value_or(0);
  if (count < 1 || count > 100000) fail(ErrorCode::invalid_file, "{}: split.count is {}", path.string(), count);
  if (number != 0)
    fail(ErrorCode::invalid_file, "{}: this is part {} of a split model (split.no); open the first part", path.string(),
         number + 1);
  for (int64_t i = 2; i <= count; ++i) {
    std::filesystem::path part = part_path(path, i, count);
    if (!std::filesystem::exists(part))
      fail(ErrorCode::not_found, "{}: part {} of {} is missing", part.string(), i, count);
    auto gguf = add_part(MappedFile::open(part), out);
    if (gguf->integer("split.no").value_or(-1) != i - 1 || gguf->integer("split.count").value_or(-1) != count)
      fail(ErrorCode::invalid_file, "{}: split.no and split.count do not say part {} of {} (wrong order?)",
           part.string(), i, count);
  }
  if (auto n = first->integer("split.tensors.count"); n && *n != static_cast<int64_t>(out.tensors().size()))
    fail(ErrorCode::invalid_file, "{}: split.tensors.count is {}, the parts hold {} tensors", path.string(), *n,
         out.tensors().size());
}

}  // namespace tenon::formats
