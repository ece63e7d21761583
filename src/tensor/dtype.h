// Element types and block encodings: one enum, one table. Sub-byte and block types pack `block` elements into `bytes`
// bytes.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tenon {

enum class DType : uint8_t {
  // plain (names as safetensors spells them)
  boolean,
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  u64,
  i64,
  f16,
  bf16,
  f32,
  f64,
  c64,
  f8_e4m3,
  f8_e5m2,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  f8_e8m0,
  f6_e2m3,
  f6_e3m2,
  f4_e2m1,
  // ggml blocks
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q8_1,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  q8_k,
  iq1_s,
  iq1_m,
  iq2_xxs,
  iq2_xs,
  iq2_s,
  iq3_xxs,
  iq3_s,
  iq4_nl,
  iq4_xs,
  tq1_0,
  tq2_0,
  mxfp4,
  nvfp4,
  q1_0,
  q2_0,
  // groups of integers as safetensors checkpoints have them (tensor/quant/groups.h), interleaved
  int4_32,
  int4_128,
  int8_32,
  affine4_32,
  affine8_32,
};

struct DTypeInfo {
  DType dtype;
  const char* name;  // "F32", "BF16", "F8_E4M3", "Q4_K", "IQ2_XXS" ...
  int block;         // elements per block
  int bytes;         // bytes per block
};

std::span<const DTypeInfo> all_dtypes();
const DTypeInfo& info(DType dtype);
inline const char* name(DType dtype) { return info(dtype).name; }
std::optional<DType> dtype_named(std::string_view name);

// Bytes of `elements` consecutive elements; throws Error{invalid_file} (naming `what`) when they do not fill whole
// blocks or overflow.
uint64_t bytes_for(DType dtype, int64_t elements, std::string_view what);

// Can be decoded to float32: every type but boolean, c64 and the integers (which are not weights).
bool is_float(DType dtype);
bool is_block_quantised(DType dtype);

}  // namespace tenon
