#include "formats/packed_weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <optional>
#include <tuple>
#include <type_traits>

#include "base/checked.h"
#include "base/error.h"
#include "tensor/half.h"
#include "tensor/quant.h"
#include "tensor/quant/groups.h"

namespace tenon::formats {

uint64_t PackedWeight::bytes() const {
  return std::accumulate(parts.begin(), parts.end(), uint64_t{0},
                         [](uint64_t n, const TensorInfo* t) { return n + t->bytes; });
}

void PackedWeight::hold(int64_t, int64_t, std::byte*) const noexcept {}

namespace {

using Shape = std::vector<int64_t>;

uint32_t u32(const std::byte* p) {
  uint32_t v;
  std::memcpy(&v, p, 4);
  return v;
}
uint8_t u8(const std::byte* p) { return static_cast<uint8_t>(*p); }

std::string text(const Shape& shape) {
  std::string out;
  for (int64_t n : shape) out += (out.empty() ? "" : ", ") + std::to_string(n);
  return "[" + out + "]";
}

struct Tensor {
  const TensorInfo* info = nullptr;
  const std::byte* data = nullptr;
  explicit operator bool() const { return info != nullptr; }
  float number(int64_t i) const noexcept {
    float v;
    decode(info->dtype, data + i * tenon::info(info->dtype).bytes, &v, 1);
    return v;
  }
  uint16_t half(int64_t i) const noexcept {
    uint16_t v;
    std::memcpy(&v, data + 2 * i, 2);
    return v;
  }
};

// The tensors of one weight, each checked as it is taken.
class Parts {
 public:
  Parts(const Checkpoint& checkpoint, std::string base, PackedWeight& weight)
      : checkpoint_(checkpoint), base_(std::move(base)), weight_(weight) {}

  Tensor maybe(std::string_view suffix) {
    const TensorInfo* t = checkpoint_.find(base_ + std::string(suffix));
    if (!t) return {};
    if (!t->strides.empty()) refuse(*t, "is not stored row by row");
    weight_.parts.push_back(t);
    return {t, checkpoint_.bytes(*t).data()};
  }
  Tensor take(std::string_view suffix, std::initializer_list<DType> dtypes, const Shape& shape) {
    Tensor t = maybe(suffix);
    if (!t) checkpoint_.at(base_ + std::string(suffix));  // throws, naming what is near
    expect(t, dtypes, shape);
    return t;
  }
  void expect(const Tensor& t, std::initializer_list<DType> dtypes, const Shape& shape) const {
    if (std::find(dtypes.begin(), dtypes.end(), t.info->dtype) == dtypes.end())
      refuse(*t.info,
             "has type " + std::string(tenon::name(t.info->dtype)) + ", wanted " + tenon::name(*dtypes.begin()));
    if (t.info->shape != shape) refuse(*t.info, "has shape " + text(t.info->shape) + ", wanted " + text(shape));
  }
  [[noreturn]] void refuse(const TensorInfo& t, const std::string& why) const {
    fail(ErrorCode::invalid_file, "{}: tensor {} {}", checkpoint_.files()[t.file]->name(), printable(t.name), why);
  }
  // Rows and columns; neither is 0 nor beyond what a sum of bits can count.
  std::pair<int64_t, int64_t> matrix(const Tensor& t) const {
    constexpr int64_t kMost = int64_t{1} << 32;
    if (t.info->shape.size() != 2 ||
        std::any_of(t.info->shape.begin(), t.info->shape.end(), [](int64_t n) { return n < 1 || n > kMost; }))
      refuse(*t.info, "has shape " + text(t.info->shape) + ", wanted a matrix");
    return {t.info->shape[0], t.info->shape[1]};
  }

 private:
  const Checkpoint& checkpoint_;
  std::string base_;
  PackedWeight& weight_;
};

constexpr auto kHalves = {DType::f16, DType::bf16};
constexpr auto kScales = {DType::f16, DType::bf16, DType::f32};

// ---- integers -------------------------------------------------------------------------------------------------------

// Small unsigned numbers [rows, columns].
struct Codes {
  enum class Layout {
    along_rows,     // a row is a little-endian stream of bits
    along_columns,  // a column is one, in words that lie `columns` apart
    awq,            // eight columns share a word, interleaved
    signed_bytes,   // less 128
  } layout = Layout::along_rows;
  const std::byte* data = nullptr;
  int bits = 8;
  int64_t columns = 0;

  // f(layout as a constant).
  template <class F>
  auto with_layout(F&& f) const noexcept {
    switch (layout) {
      case Layout::along_rows:
        return f(std::integral_constant<Layout, Layout::along_rows>());
      case Layout::along_columns:
        return f(std::integral_constant<Layout, Layout::along_columns>());
      case Layout::awq:
        return f(std::integral_constant<Layout, Layout::awq>());
      default:
        return f(std::integral_constant<Layout, Layout::signed_bytes>());
    }
  }
  uint32_t at(int64_t row, int64_t column) const noexcept {
    return with_layout([&](auto l) { return at<l>(row, column); });
  }
  template <Layout l>
  uint32_t at(int64_t row, int64_t column) const noexcept {
    const uint32_t mask = (1u << bits) - 1;
    if constexpr (l == Layout::along_rows) {
      const int64_t bit = column * bits;
      const std::byte* p = data + row * (columns * bits / 8) + bit / 8;
      const auto shift = static_cast<int>(bit % 8);
      const uint32_t more = shift + bits > 8 ? uint32_t{u8(p + 1)} << 8 : 0;
      return (u8(p) | more) >> shift & mask;
    } else if constexpr (l == Layout::along_columns) {
      const int64_t bit = row * bits;
      const std::byte* p = data + (bit / 32 * columns + column) * 4;
      const auto shift = static_cast<int>(bit % 32);
      const uint32_t more = shift + bits > 32 ? u32(p + columns * 4) << (32 - shift) : 0;
      return (u32(p) >> shift | more) & mask;
    } else if constexpr (l == Layout::awq) {
      constexpr int kPlace[8] = {0, 4, 1, 5, 2, 6, 3, 7};
      return u32(data + (row * (columns / 8) + column / 8) * 4) >> (4 * kPlace[column % 8]) & 15;
    } else {
      return u8(data + row * columns + column) ^ 0x80u;
    }
  }
};

// scale * (code - zero), or with biases scale * code + bias; [out, in] or, `transposed`, [in, out].
class Grouped final : public PackedWeight {
 public:
  Codes codes;
  bool transposed = false;  // codes, scales and zeros
  int64_t group = 0;
  Tensor scales, biases;
  std::optional<Codes> zeros;
  uint32_t zero = 0;      // without those
  uint32_t zero_add = 0;  // to those
  Tensor order;           // the group of each element of a row, where they do not follow one another

  void read(int64_t row, int64_t first, int64_t n, float* to) const noexcept override {
    codes.with_layout([&](auto l) {
      int64_t g = -1;
      float scale = 0, bias = 0, z = 0;
      for (int64_t k = first; k < first + n; ++k) {
        if (const int64_t now = order ? u32(order.data + 4 * k) : k / group; now != g) {
          g = now;
          scale = scales.number(place(row, g));
          if (biases) bias = biases.number(place(row, g));
          z = static_cast<float>(zero_of(row, g));
        }
        const auto q = static_cast<float>(code<l>(row, k));
        to[k - first] = biases ? scale * q + bias : scale * (q - z);
      }
    });
  }

  void hold(int64_t row, int64_t rows, std::byte* to) const noexcept override {
    codes.with_layout([&](auto l) {
      const DTypeInfo& type = info(held);
      const int64_t row_bytes = in / type.block * type.bytes;
      uint8_t q[kRowsAtATime][128];
      std::byte* at = to;
      for (int64_t k = 0; k < in; k += type.block, at += type.bytes) {
        if (transposed)  // in the order of memory
          for (int64_t i = 0; i < type.block; ++i)
            for (int64_t r = 0; r < rows; ++r) q[r][i] = static_cast<uint8_t>(code<l>(row + r, k + i));
        else
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t i = 0; i < type.block; ++i) q[r][i] = static_cast<uint8_t>(code<l>(row + r, k + i));
        for (int64_t r = 0; r < rows; ++r) hold_block(row + r, k / group, q[r], at + r * row_bytes);
      }
    });
  }

  // Chooses `held`.
  void choose() {
    const bool even = !order && in % 32 == 0 && (group % 32 == 0 || group >= in);
    const bool halves = std::find(kHalves.begin(), kHalves.end(), scales.info->dtype) != kHalves.end();
    if (!even || (biases ? scales.info->dtype != DType::bf16 || biases.info->dtype != DType::bf16 : !halves)) return;
    if (codes.bits > 4)
      held = biases ? DType::affine8_32 : DType::int8_32;
    else if (biases)
      held = DType::affine4_32;
    else
      held = in % 128 == 0 && (group % 128 == 0 || group >= in) ? DType::int4_128 : DType::int4_32;
  }

 private:
  template <Codes::Layout l>
  uint32_t code(int64_t row, int64_t k) const noexcept {
    return transposed ? codes.at<l>(k, row) : codes.at<l>(row, k);
  }
  int64_t groups() const noexcept { return ceil_div(in, group); }
  int64_t place(int64_t row, int64_t g) const noexcept { return transposed ? g * out + row : row * groups() + g; }
  uint32_t zero_of(int64_t row, int64_t g) const noexcept {
    return !zeros ? zero : transposed ? zeros->at(g, row) + zero_add : zeros->at(row, g);
  }
  void hold_block(int64_t row, int64_t g, const uint8_t* q, std::byte* to) const noexcept {
    const int64_t at = place(row, g);
    const uint32_t head = biases ? quant::affine_head(scales.half(at), biases.half(at))
                                 : quant::int_head(scales.number(at), zero_of(row, g));
    std::memcpy(to, &head, 4);
    to += 4;
    if (codes.bits > 4) {
      for (int i = 0; i < 32; ++i) to[i] = static_cast<std::byte>(q[i] ^ 0x80);
      return;
    }
    for (int64_t i = 0; i < info(held).block; i += 32)
      for (int64_t j = 0; j < 16; ++j) *to++ = static_cast<std::byte>(q[i + j] | q[i + 16 + j] << 4);
  }
};

int bits_of(const Config& config, std::initializer_list<int> allowed) {
  const int64_t bits = config.integer("bits");
  if (std::find(allowed.begin(), allowed.end(), bits) == allowed.end())
    fail(ErrorCode::unsupported, "{}: quantization bits {} are not supported", config.source(), bits);
  return static_cast<int>(bits);
}

int64_t group_size(const Config& config, int64_t in) {
  const int64_t group = config.integer_or("group_size", 128);
  if (group != -1 && (group < 1 || group > in))
    fail(ErrorCode::invalid_file, "{}: group_size {} of rows of {}", config.source(), group, in);
  return group == -1 ? in : group;
}

// The group of each element of a row; nothing where they are what they would be without.
Tensor group_order(Parts& parts, const Grouped& w, std::string_view suffix) {
  const Tensor order = parts.maybe(suffix);
  if (!order) return {};
  parts.expect(order, {DType::i32}, {w.in});
  bool needed = false;
  for (int64_t k = 0; k < w.in; ++k) {
    const uint32_t g = u32(order.data + 4 * k);
    if (g >= ceil_div(w.in, w.group)) parts.refuse(*order.info, "names a group that there is not");
    needed |= g != k / w.group;
  }
  return needed ? order : Tensor();
}

std::unique_ptr<PackedWeight> gptq(Parts& parts, std::unique_ptr<Grouped> w, const Config& config) {
  const int bits = bits_of(config, {2, 3, 4, 8});
  const Tensor q = parts.maybe(".qweight");
  const auto [words, out] = parts.matrix(q);
  if (words * 32 % bits != 0) parts.refuse(*q.info, "holds no whole numbers");
  w->out = out;
  w->in = words * 32 / bits;
  if (out * bits % 32 != 0) parts.refuse(*q.info, "has a width whose zeros do not fill words");
  w->group = group_size(config, w->in);
  const int64_t groups = ceil_div(w->in, w->group);
  parts.expect(q, {DType::i32}, {words, out});
  w->transposed = true;
  w->codes = {Codes::Layout::along_columns, q.data, bits, out};
  w->scales = parts.take(".scales", kScales, {groups, out});
  w->zeros =
      Codes{Codes::Layout::along_rows, parts.take(".qzeros", {DType::i32}, {groups, out * bits / 32}).data, bits, out};
  w->zero_add = config.string_or("checkpoint_format", "gptq") == "gptq_v2" ? 0 : 1;
  w->order = group_order(parts, *w, ".g_idx");
  w->choose();
  return w;
}

std::unique_ptr<PackedWeight> awq(Parts& parts, std::unique_ptr<Grouped> w, const Config& config) {
  bits_of(config, {4});
  if (const std::string version = config.string_or("version", "gemm"); version != "gemm" && version != "GEMM")
    fail(ErrorCode::unsupported, "{}: AWQ's version '{}' is not supported, gemm is", config.source(),
         printable(version, 40));
  const Tensor q = parts.maybe(".qweight");
  const auto [in, words] = parts.matrix(q);
  parts.expect(q, {DType::i32}, {in, words});
  w->out = words * 8;
  w->in = in;
  w->group = group_size(config, in);
  const int64_t groups = ceil_div(in, w->group);
  w->transposed = true;
  w->codes = {Codes::Layout::awq, q.data, 4, w->out};
  w->scales = parts.take(".scales", kScales, {groups, w->out});
  w->zeros = Codes{Codes::Layout::awq, parts.take(".qzeros", {DType::i32}, {groups, words}).data, 4, w->out};
  w->choose();
  return w;
}

// Of compressed-tensors: weight_packed with weight_shape.
std::unique_ptr<PackedWeight> packed_integers(Parts& parts, std::unique_ptr<Grouped> w) {
  const Tensor q = parts.maybe(".weight_packed"), shape = parts.take(".weight_shape", {DType::i64, DType::i32}, {2});
  const auto [out, words] = parts.matrix(q);
  parts.expect(q, {DType::i32}, {out, words});
  const int64_t columns = u32(shape.data + (shape.info->dtype == DType::i64 ? 8 : 4));
  const int bits = columns > 0 && words * 32 % columns == 0 ? static_cast<int>(words * 32 / columns) : 0;
  if ((bits != 4 && bits != 8) || u32(shape.data) != out)
    parts.refuse(*q.info, "does not hold numbers of 4 or 8 bits for its weight_shape");
  w->out = out;
  w->in = columns;
  w->codes = {Codes::Layout::along_rows, q.data, bits, columns};
  w->scales = parts.maybe(".weight_scale");
  if (!w->scales) parts.take(".weight_scale", kScales, {out, 1});
  const auto [rows, groups] = parts.matrix(w->scales);
  parts.expect(w->scales, kScales, {out, groups});
  if (columns % groups != 0) parts.refuse(*w->scales.info, "does not divide rows into equal groups");
  w->group = columns / groups;
  w->zero = 1u << (bits - 1);
  if (const Tensor z = parts.maybe(".weight_zero_point")) {
    parts.expect(z, {DType::i32}, {ceil_div(out * bits, int64_t{32}), groups});
    w->zeros = Codes{Codes::Layout::along_columns, z.data, bits, groups};
  }
  w->order = group_order(parts, *w, ".weight_g_idx");
  w->choose();
  return w;
}

// Rows of int8 with a scale each.
std::unique_ptr<PackedWeight> scaled_bytes(Parts& parts, std::unique_ptr<Grouped> w) {
  const Tensor q = parts.maybe(".weight");
  std::tie(w->out, w->in) = parts.matrix(q);
  w->codes = {Codes::Layout::signed_bytes, q.data, 8, w->in};
  w->scales = parts.take(".weight_scale", kScales, {w->out, 1});
  w->group = w->in;
  w->zero = 128;
  w->choose();
  return w;
}

// bitsandbytes' LLM.int8(): code * SCB / 127.
class Int8Rows final : public PackedWeight {
 public:
  const std::byte* codes = nullptr;
  Tensor most;
  void read(int64_t row, int64_t first, int64_t n, float* to) const noexcept override {
    const float scale = most.number(row);
    for (int64_t k = 0; k < n; ++k)
      to[k] = static_cast<float>(static_cast<int8_t>(u8(codes + row * in + first + k))) * scale / 127.0f;
  }
};

std::unique_ptr<PackedWeight> llm_int8(Parts& parts, std::unique_ptr<Int8Rows> w) {
  const Tensor q = parts.maybe(".weight");
  std::tie(w->out, w->in) = parts.matrix(q);
  w->codes = q.data;
  w->most = parts.take(".SCB", {DType::f32}, {w->out});
  return w;
}

// ---- small floats ---------------------------------------------------------------------------------------------------

class ScaledFp8 final : public PackedWeight {
 public:
  Tensor codes, scales;
  int64_t block_rows = 0, block_columns = 0;  // that share a scale

  void read(int64_t row, int64_t first, int64_t n, float* to) const noexcept override {
    decode(codes.info->dtype, codes.data + row * in + first, to, n);
    const int64_t across = ceil_div(in, block_columns);
    for (int64_t k = 0; k < n;) {
      const int64_t column = (first + k) / block_columns;
      const float scale = scales.number(row / block_rows * across + column);
      for (const int64_t end = std::min(n, (column + 1) * block_columns - first); k < end; ++k) to[k] *= scale;
    }
  }
};

std::unique_ptr<PackedWeight> fp8(Parts& parts, std::unique_ptr<ScaledFp8> w, const Config* config) {
  w->codes = parts.maybe(".weight");
  std::tie(w->out, w->in) = parts.matrix(w->codes);
  w->scales = parts.maybe(".weight_scale_inv");
  if (!w->scales) w->scales = parts.maybe(".weight_scale");
  std::vector<double> size =
      config && config->has("weight_block_size") ? config->reals("weight_block_size") : std::vector<double>{128, 128};
  if (size.size() != 2 || size[0] < 1 || size[1] < 1 || size[0] > 65536 || size[1] > 65536)
    fail(ErrorCode::invalid_file, "{}: weight_block_size is no pair of sizes", config->source());
  const Shape& shape = w->scales.info->shape;
  if (w->scales.info->elements() == 1)
    w->block_rows = w->out, w->block_columns = w->in;
  else if (shape == Shape{w->out, 1} || shape == Shape{w->out})
    w->block_rows = 1, w->block_columns = w->in;
  else
    w->block_rows = static_cast<int64_t>(size[0]), w->block_columns = static_cast<int64_t>(size[1]);
  const int64_t rows = ceil_div(w->out, w->block_rows), columns = ceil_div(w->in, w->block_columns);
  if (w->scales.info->elements() != rows * columns)
    parts.refuse(*w->scales.info, "has shape " + text(shape) + ", wanted " + text({rows, columns}));
  parts.expect(w->scales, kScales, shape);
  return w;
}

// Pairs of E2M1, the low one first, with a scale for every `group` of a row.
class ScaledFp4 final : public PackedWeight {
 public:
  const std::byte* codes = nullptr;
  Tensor scales;
  DType scale_type = DType::f8_e4m3;
  int64_t group = 16;
  float divisor = 1;

  void read(int64_t row, int64_t first, int64_t n, float* to) const noexcept override {
    for (int64_t k = first; k < first + n; ++k)
      to[k - first] = small_to_f32(kF4E2M1, code(row, k)) * scale(row, k / group) / divisor;
  }
  void hold(int64_t row, int64_t rows, std::byte* to) const noexcept override {
    for (int64_t r = row; r < row + rows; ++r)
      for (int64_t k = 0; k < in; k += 32) {
        *to++ = scales.data[(r * in + k) / 32];
        for (int64_t j = k; j < k + 16; ++j) *to++ = static_cast<std::byte>(code(r, j) | code(r, j + 16) << 4);
      }
  }

 private:
  uint32_t code(int64_t row, int64_t k) const noexcept {
    return uint32_t{u8(codes + (row * in + k) / 2)} >> (4 * (k % 2)) & 15;
  }
  float scale(int64_t row, int64_t g) const noexcept {
    float v;
    decode(scale_type, scales.data + row * (in / group) + g, &v, 1);
    return v;
  }
};

std::unique_ptr<PackedWeight> fp4(Parts& parts, std::unique_ptr<ScaledFp4> w, const Tensor& q, std::string_view scales,
                                  bool micro_scaled) {
  const auto [out, words] = parts.matrix(q);
  w->out = out;
  w->in = words * info(q.info->dtype).bytes * 2;
  w->codes = q.data;
  w->group = micro_scaled ? 32 : 16;
  if (w->in % w->group != 0) parts.refuse(*q.info, "has rows that are no whole groups");
  w->scale_type = micro_scaled ? DType::f8_e8m0 : DType::f8_e4m3;
  w->scales = parts.take(scales, {DType::u8, w->scale_type}, {out, w->in / w->group});
  if (micro_scaled) w->held = DType::mxfp4;
  if (const Tensor global = parts.maybe(".weight_global_scale")) {
    parts.expect(global, {DType::f32}, {1});
    w->divisor = global.number(0);
  }
  return w;
}

// ---- bitsandbytes' 4 bits -------------------------------------------------------------------------------------------

// Sixteen values, the high code of a byte first, with a scale for every block of the matrix as one row.
class Codebook final : public PackedWeight {
 public:
  const std::byte* codes = nullptr;
  std::array<float, 16> values{};
  Tensor scales;               // f32, or bytes that stand for
  Tensor scale_values, outer;  // scale_values[byte] * outer[block / nested] + offset
  int64_t block = 64, nested = 256;
  float offset = 0;

  void read(int64_t row, int64_t first, int64_t n, float* to) const noexcept override {
    int64_t b = -1;
    float s = 0;
    for (int64_t k = 0; k < n; ++k) {
      const int64_t i = row * in + first + k;
      if (i / block != b) s = scale(b = i / block);
      to[k] = values[u8(codes + i / 2) >> (i % 2 ? 0 : 4) & 15] * s;
    }
  }

 private:
  float scale(int64_t b) const noexcept {
    if (!outer) return scales.number(b);
    return scale_values.number(u8(scales.data + b)) * outer.number(b / nested) + offset;
  }
};

std::unique_ptr<PackedWeight> four_bits(Parts& parts, std::unique_ptr<Codebook> w) {
  const Tensor q = parts.maybe(".weight"), map = parts.take(".weight.quant_map", {DType::f32}, {16});
  Tensor state = parts.maybe(".weight.quant_state.bitsandbytes__nf4");
  if (!state) state = parts.maybe(".weight.quant_state.bitsandbytes__fp4");
  if (!state) parts.refuse(*q.info, "has no quant_state");
  const std::string source = printable(state.info->name);
  const Config json(parse_json({reinterpret_cast<const char*>(state.data), state.info->bytes}, source, 16), source);
  const std::vector<double> shape = json.reals("shape");
  const auto count = static_cast<double>(q.info->elements()) * 2;
  if (shape.size() != 2 || shape[0] < 1 || shape[1] < 1 || shape[0] * shape[1] != count || q.info->dtype != DType::u8)
    parts.refuse(*q.info, "does not hold as many numbers as its quant_state says");
  w->out = static_cast<int64_t>(shape[0]);
  w->in = static_cast<int64_t>(shape[1]);
  w->codes = q.data;
  w->block = json.integer("blocksize");
  if (w->block < 1) parts.refuse(*state.info, "has blocks of nothing");
  for (int i = 0; i < 16; ++i) w->values[static_cast<size_t>(i)] = map.number(i);
  const int64_t blocks = ceil_div(w->out * w->in, w->block);
  w->scales = parts.take(".weight.absmax", {DType::f32, DType::u8}, {blocks});
  if (w->scales.info->dtype == DType::f32) return w;
  w->nested = json.integer("nested_blocksize");
  if (w->nested < 1) parts.refuse(*state.info, "has nested blocks of nothing");
  w->offset = static_cast<float>(json.real("nested_offset"));
  w->scale_values = parts.take(".weight.nested_quant_map", {DType::f32}, {256});
  w->outer = parts.take(".weight.nested_absmax", {DType::f32}, {ceil_div(blocks, w->nested)});
  return w;
}

// ---- MLX ------------------------------------------------------------------------------------------------------------

std::unique_ptr<PackedWeight> affine(Parts& parts, std::unique_ptr<Grouped> w, const Config& config) {
  const int bits = bits_of(config, {2, 3, 4, 5, 6, 8});
  const Tensor q = parts.maybe(".weight");
  const auto [out, words] = parts.matrix(q);
  if (words * 32 % bits != 0) parts.refuse(*q.info, "holds no whole numbers");
  w->out = out;
  w->in = words * 32 / bits;
  w->group = group_size(config, w->in);
  if (w->in % w->group != 0) parts.refuse(*q.info, "has rows that are no whole groups");
  w->codes = {Codes::Layout::along_rows, q.data, bits, w->in};
  w->scales = parts.take(".scales", kScales, {out, w->in / w->group});
  w->biases = parts.take(".biases", kScales, {out, w->in / w->group});
  w->choose();
  return w;
}

// The settings of one weight: those of all with its own over them.
Config mlx_settings(const Config& all, const std::string& base) {
  const auto own = all.object(base);
  return own ? *own : all;
}

}  // namespace

PackedWeights::PackedWeights(const Checkpoint& checkpoint, const Config& config) {
  if (checkpoint.gguf()) return;
  const std::optional<Config> mlx = config.object("quantization");
  const std::optional<Config> settings = mlx ? mlx : config.object("quantization_config");
  const std::string method = !settings ? "" : mlx ? "mlx" : settings->string_or("quant_method", "");
  constexpr std::array kMethods = {"", "mlx", "gptq", "awq", "compressed-tensors", "fp8", "bitsandbytes", "mxfp4"};
  if (std::find(kMethods.begin(), kMethods.end(), method) == kMethods.end())
    fail(ErrorCode::unsupported,
         "{}: quantization_config.quant_method '{}' is not supported; gptq, awq, compressed-tensors, fp8, bitsandbytes "
         "and MLX's are",
         config.source(), printable(method, 40));
  for (const TensorInfo& t : checkpoint.tensors()) {
    auto base_of = [&](std::string_view suffix) {
      return std::string_view(t.name).ends_with(suffix) ? t.name.substr(0, t.name.size() - suffix.size())
                                                        : std::string();
    };
    auto has = [&](const std::string& base, const char* suffix) { return checkpoint.find(base + suffix) != nullptr; };
    auto add = [&](const std::string& base, auto weight, auto&& make) {
      Parts parts(checkpoint, base, *weight);
      weights_[base + ".weight"] = make(parts, std::move(weight));
    };
    if (const std::string base = base_of(".qweight"); !base.empty() && (method == "gptq" || method == "awq")) {
      add(base, std::make_unique<Grouped>(), [&](Parts& p, auto w) {
        return method == "awq" ? awq(p, std::move(w), *settings) : gptq(p, std::move(w), *settings);
      });
    } else if (const std::string packed = base_of(".weight_packed"); !packed.empty()) {
      if (t.dtype == DType::u8)
        add(packed, std::make_unique<ScaledFp4>(), [&](Parts& p, auto w) {
          const Tensor q = p.maybe(".weight_packed");
          return fp4(p, std::move(w), q, ".weight_scale", !has(packed, ".weight_global_scale"));
        });
      else
        add(packed, std::make_unique<Grouped>(), [&](Parts& p, auto w) { return packed_integers(p, std::move(w)); });
    }
    const std::string base = base_of(".weight");
    if (base.empty()) continue;
    const bool is_fp8 = t.dtype >= DType::f8_e4m3 && t.dtype <= DType::f8_e5m2fnuz;
    if (t.dtype == DType::u32 && has(base, ".scales") && mlx) {
      const Config own = mlx_settings(*settings, base);
      const std::string mode = own.string_or("mode", "affine");
      if (mode == "affine") {
        add(base, std::make_unique<Grouped>(), [&](Parts& p, auto w) { return affine(p, std::move(w), own); });
      } else if (mode == "mxfp4" || mode == "nvfp4") {
        add(base, std::make_unique<ScaledFp4>(), [&](Parts& p, auto w) {
          const Tensor q = p.maybe(".weight");
          return fp4(p, std::move(w), q, ".scales", mode == "mxfp4");
        });
      } else {
        fail(ErrorCode::unsupported, "{}: quantization mode '{}' is not supported", config.source(),
             printable(mode, 40));
      }
    } else if (is_fp8 && (has(base, ".weight_scale") || has(base, ".weight_scale_inv"))) {
      add(base, std::make_unique<ScaledFp8>(),
          [&](Parts& p, auto w) { return fp8(p, std::move(w), settings ? &*settings : nullptr); });
    } else if (t.dtype == DType::i8 && has(base, ".weight_scale")) {
      add(base, std::make_unique<Grouped>(), [&](Parts& p, auto w) { return scaled_bytes(p, std::move(w)); });
    } else if (t.dtype == DType::i8 && has(base, ".SCB")) {
      add(base, std::make_unique<Int8Rows>(), [&](Parts& p, auto w) { return llm_int8(p, std::move(w)); });
    } else if (t.dtype == DType::u8 && has(base, ".weight.absmax")) {
      add(base, std::make_unique<Codebook>(), [&](Parts& p, auto w) { return four_bits(p, std::move(w)); });
    }
  }
}

const PackedWeight* PackedWeights::find(std::string_view name) const {
  auto found = weights_.find(std::string(name));
  return found == weights_.end() ? nullptr : found->second.get();
}

}  // namespace tenon::formats
