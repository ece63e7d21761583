// safetensors: u64 header length, JSON header, data. Every tensor is checked to lie in the data and to fill it without
// holes or overlaps, as the format's specification demands. The header is read with a small parser of our own: a file
// may list 100,000 tensors, and duplicate names must be seen.
#include <algorithm>
#include <unordered_set>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/json.h"
#include "formats/readers.h"

namespace tenon::formats {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxHeader = 100'000'000;  // the reference's own limit

// Receives the header's JSON events: {name: {dtype, shape, data_offsets}}, __metadata__: {string: string}.
class HeaderEvents : public nlohmann::json_sax<Json> {
 public:
  struct Entry {
    std::string name, dtype;
    std::vector<int64_t> shape;
    std::vector<uint64_t> offsets;
    bool has_dtype = false, has_shape = false, has_offsets = false;
  };

  HeaderEvents(std::string source) : source_(std::move(source)) {}
  std::vector<Entry> entries;
  std::vector<std::pair<std::string, std::string>> metadata;

  bool start_object(size_t) override {
    if (++depth_ > 2 || in_array_) unexpected("an object");
    return true;
  }
  bool end_object() override {
    if (depth_ == 2 && !in_metadata_) finish_entry();
    in_metadata_ = false;
    --depth_;
    return true;
  }
  bool key(string_t& text) override {
    if (depth_ == 1) {
      if (!names_.insert(text).second) bad("duplicate tensor name " + printable(text));
      in_metadata_ = text == "__metadata__";
      if (in_metadata_) return true;
      entries.emplace_back().name = text;
    } else if (in_metadata_) {
      metadata.emplace_back(text, "");
    } else if (text != "dtype" && text != "shape" && text != "data_offsets") {
      bad("tensor " + printable(entries.back().name) + " has an unknown field " + printable(text));
    }
    key_ = text;
    return true;
  }
  bool string(string_t& text) override {
    if (depth_ == 2 && in_metadata_) {
      metadata.back().second = text;
      return true;
    }
    if (depth_ != 2 || in_array_ || key_ != "dtype") unexpected("a string");
    if (std::exchange(entries.back().has_dtype, true)) bad("dtype given twice for " + printable(entries.back().name));
    entries.back().dtype = text;
    return true;
  }
  bool start_array(size_t) override {
    if (depth_ != 2 || in_metadata_ || in_array_ || (key_ != "shape" && key_ != "data_offsets")) unexpected("an array");
    bool& seen = key_ == "shape" ? entries.back().has_shape : entries.back().has_offsets;
    if (std::exchange(seen, true)) bad(key_ + " given twice for " + printable(entries.back().name));
    in_array_ = true;
    return true;
  }
  bool end_array() override {
    in_array_ = false;
    return true;
  }
  bool number_unsigned(number_unsigned_t n) override {
    if (!in_array_) unexpected("a number");
    if (key_ == "shape") {
      if (entries.back().shape.size() >= 64)
        bad("tensor " + printable(entries.back().name) + " has more than 64 dimensions");
      entries.back().shape.push_back(
          checked_cast<int64_t>(n, source_ + ": shape of " + printable(entries.back().name)));
    } else {
      if (entries.back().offsets.size() >= 2)
        bad("data_offsets of " + printable(entries.back().name) + " has more than two numbers");
      entries.back().offsets.push_back(n);
    }
    return true;
  }
  bool number_integer(number_integer_t) override { return negative(); }
  bool number_float(number_float_t, const string_t&) override { return negative(); }
  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool binary(binary_t&) override { return unexpected("binary data"); }
  bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception& e) override {
    // The reason follows the library's own name and position of the error.
    std::string_view reason = e.what();
    if (size_t colon = reason.find(": "); colon != std::string_view::npos) reason.remove_prefix(colon + 2);
    fail(ErrorCode::invalid_file, "{}: the header is not valid JSON at offset {}: {}", source_, at + 8,
         printable(reason, 150));
  }

 private:
  [[noreturn]] void bad(const std::string& why) { fail(ErrorCode::invalid_file, "{}: header: {}", source_, why); }
  [[noreturn]] bool unexpected(const char* what) {
    if (in_metadata_) bad(fmt::format("{} in __metadata__, which holds strings", what));
    if (depth_ < 2) bad(fmt::format("{} where a tensor's description is wanted", what));
    bad(fmt::format("{} in the {} of tensor {}", what, printable(key_), printable(entries.back().name)));
  }
  [[noreturn]] bool negative() {
    if (!in_array_) unexpected("a number");
    bad(fmt::format("{} of {} holds a number that is no size", key_, printable(entries.back().name)));
  }
  void finish_entry() {
    const Entry& e = entries.back();
    if (!e.has_dtype || !e.has_shape || !e.has_offsets || e.offsets.size() != 2)
      bad("tensor " + printable(e.name) + " lacks dtype, shape or data_offsets");
  }

  std::string source_, key_;
  std::unordered_set<std::string> names_;
  int depth_ = 0;
  bool in_array_ = false, in_metadata_ = false;
};

TensorInfo checked(const HeaderEvents::Entry& e, const std::string& source, uint64_t data_begin, uint64_t data_size) {
  TensorInfo t;
  t.name = e.name;
  auto dtype = dtype_named(e.dtype);
  if (e.dtype == "F8_E8M0FNU") dtype = DType::f8_e8m0;
  if (!dtype || is_block_quantised(*dtype))
    fail(ErrorCode::invalid_file, "{}: tensor {} has the unknown dtype {}", source, printable(e.name),
         printable(e.dtype));
  t.dtype = *dtype;
  t.shape = e.shape;
  std::string what = source + ": tensor " + printable(e.name);
  int64_t n = checked_elements(t.shape, what);
  t.bytes = bytes_for(t.dtype, n, what);
  if (e.offsets[0] > e.offsets[1])
    fail(ErrorCode::invalid_file, "{}: data_offsets [{}, {}] end before they begin", what, e.offsets[0], e.offsets[1]);
  if (e.offsets[1] > data_size)
    fail(ErrorCode::invalid_file, "{}: data_offsets [{}, {}] lie outside the {} bytes of data (truncated or corrupt)",
         what, e.offsets[0], e.offsets[1], data_size);
  if (e.offsets[1] - e.offsets[0] != t.bytes)
    fail(ErrorCode::invalid_file, "{}: data_offsets span {} bytes, its shape and dtype need {}", what,
         e.offsets[1] - e.offsets[0], t.bytes);
  t.offset = data_begin + e.offsets[0];
  return t;
}

void check_no_holes(std::vector<TensorInfo>& tensors, const std::string& source, uint64_t begin, uint64_t end) {
  std::vector<const TensorInfo*> order;
  for (const TensorInfo& t : tensors) order.push_back(&t);
  std::sort(order.begin(), order.end(),
            [](auto* a, auto* b) { return std::pair(a->offset, a->bytes) < std::pair(b->offset, b->bytes); });
  uint64_t at = begin;
  for (const TensorInfo* t : order) {
    if (t->offset != at)
      fail(ErrorCode::invalid_file, "{}: {} before tensor {} at offset {}", source,
           t->offset < at ? "overlapping data" : "a hole in the data", printable(t->name), t->offset);
    at = t->offset + t->bytes;
  }
  if (at != end)
    fail(ErrorCode::invalid_file, "{}: {} bytes after the last tensor belong to none (metadata incomplete)", source,
         end - at);
}

}  // namespace

void read_safetensors(std::shared_ptr<const MappedFile> file, Checkpoint& out) {
  std::string source = file->name();
  ByteReader r(file->bytes(), source);
  auto header_size = r.read<uint64_t>("header length");
  if (header_size > kMaxHeader)
    fail(ErrorCode::invalid_file, "{}: header length {} is larger than {} allowed", source, header_size, kMaxHeader);
  std::string_view text = r.chars(header_size, "header (of the declared length)");
  if (text.empty() || text[0] != '{')
    fail(ErrorCode::invalid_file, "{}: the header does not start with {{ at offset 8", source);
  if (text.find('\0') != std::string_view::npos)
    fail(ErrorCode::invalid_file, "{}: the header holds a NUL byte", source);
  HeaderEvents events(source);
  Json::sax_parse(text, &events);

  uint64_t begin = r.offset(), end = file->bytes().size();
  uint32_t index = out.add_file(file);
  std::vector<TensorInfo> tensors;
  for (const auto& e : events.entries) {
    tensors.push_back(checked(e, source, begin, end - begin));
    tensors.back().file = index;
  }
  check_no_holes(tensors, source, begin, end);
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorInfo& a, const TensorInfo& b) { return a.offset < b.offset; });
  for (TensorInfo& t : tensors) out.add(std::move(t));
  out.add_metadata(std::move(events.metadata));
}

void read_safetensors_index(const fs::path& index, Checkpoint& out) {
  ShardIndex shards = read_shard_index(index);
  for (const std::string& name : shards.files) {
    fs::path path = index.parent_path() / name;
    if (!fs::exists(path)) fail(ErrorCode::not_found, "{}: shard {} is missing", index.string(), printable(name));
    auto file = MappedFile::open(path);
    bool torch = name.ends_with(".bin") || name.ends_with(".pth") || name.ends_with(".pt");
    torch ? read_torch(std::move(file), out) : read_safetensors(std::move(file), out);
  }
  for (const auto& [tensor, file] : shards.tensors) {
    const TensorInfo* t = out.find(tensor);
    if (!t || out.files()[t->file]->path() != index.parent_path() / file)
      fail(ErrorCode::invalid_file, "{}: tensor {} is missing from {}", index.string(), printable(tensor),
           printable(file));
  }
}

}  // namespace tenon::formats
