#include "tensor/dtype.h"

#include "base/checked.h"

namespace tenon {
namespace {

constexpr DTypeInfo kDTypes[] = {
    {DType::boolean, "BOOL", 1, 1},
    {DType::u8, "U8", 1, 1},
    {DType::i8, "I8", 1, 1},
    {DType::u16, "U16", 1, 2},
    {DType::i16, "I16", 1, 2},
    {DType::u32, "U32", 1, 4},
    {DType::i32, "I32", 1, 4},
    {DType::u64, "U64", 1, 8},
    {DType::i64, "I64", 1, 8},
    {DType::f16, "F16", 1, 2},
    {DType::bf16, "BF16", 1, 2},
    {DType::f32, "F32", 1, 4},
    {DType::f64, "F64", 1, 8},
    {DType::c64, "C64", 1, 8},
    {DType::f8_e4m3, "F8_E4M3", 1, 1},
    {DType::f8_e5m2, "F8_E5M2", 1, 1},
    {DType::f8_e4m3fnuz, "F8_E4M3FNUZ", 1, 1},
    {DType::f8_e5m2fnuz, "F8_E5M2FNUZ", 1, 1},
    {DType::f8_e8m0, "F8_E8M0", 1, 1},
    {DType::f6_e2m3, "F6_E2M3", 4, 3},
    {DType::f6_e3m2, "F6_E3M2", 4, 3},
    {DType::f4_e2m1, "F4", 2, 1},
    {DType::q4_0, "Q4_0", 32, 18},
    {DType::q4_1, "Q4_1", 32, 20},
    {DType::q5_0, "Q5_0", 32, 22},
    {DType::q5_1, "Q5_1", 32, 24},
    {DType::q8_0, "Q8_0", 32, 34},
    {DType::q8_1, "Q8_1", 32, 36},
    {DType::q2_k, "Q2_K", 256, 84},
    {DType::q3_k, "Q3_K", 256, 110},
    {DType::q4_k, "Q4_K", 256, 144},
    {DType::q5_k, "Q5_K", 256, 176},
    {DType::q6_k, "Q6_K", 256, 210},
    {DType::q8_k, "Q8_K", 256, 292},
    {DType::iq1_s, "IQ1_S", 256, 50},
    {DType::iq1_m, "IQ1_M", 256, 56},
    {DType::iq2_xxs, "IQ2_XXS", 256, 66},
    {DType::iq2_xs, "IQ2_XS", 256, 74},
    {DType::iq2_s, "IQ2_S", 256, 82},
    {DType::iq3_xxs, "IQ3_XXS", 256, 98},
    {DType::iq3_s, "IQ3_S", 256, 110},
    {DType::iq4_nl, "IQ4_NL", 32, 18},
    {DType::iq4_xs, "IQ4_XS", 256, 136},
    {DType::tq1_0, "TQ1_0", 256, 54},
    {DType::tq2_0, "TQ2_0", 256, 66},
    {DType::mxfp4, "MXFP4", 32, 17},
    {DType::nvfp4, "NVFP4", 64, 36},
    {DType::q1_0, "Q1_0", 128, 18},
    {DType::q2_0, "Q2_0", 64, 18},
    {DType::int4_32, "INT4_32", 32, 20},
    {DType::int4_128, "INT4_128", 128, 68},
    {DType::int8_32, "INT8_32", 32, 36},
    {DType::affine4_32, "AFFINE4_32", 32, 20},
    {DType::affine8_32, "AFFINE8_32", 32, 36},
};

constexpr bool table_is_in_enum_order() {
  for (size_t i = 0; i < std::size(kDTypes); ++i)
    if (static_cast<size_t>(kDTypes[i].dtype) != i) return false;
  return true;
}
static_assert(table_is_in_enum_order());

}  // namespace

std::span<const DTypeInfo> all_dtypes() { return kDTypes; }

const DTypeInfo& info(DType dtype) { return kDTypes[static_cast<size_t>(dtype)]; }

std::optional<DType> dtype_named(std::string_view name) {
  for (const DTypeInfo& d : kDTypes)
    if (name == d.name) return d.dtype;
  return std::nullopt;
}

uint64_t bytes_for(DType dtype, int64_t elements, std::string_view what) {
  const DTypeInfo& d = info(dtype);
  if (elements < 0 || elements % d.block != 0)
    fail(ErrorCode::invalid_file, "{}: {} elements do not fill whole {} blocks of {}", what, elements, d.name, d.block);
  return checked_mul(static_cast<uint64_t>(elements / d.block), static_cast<uint64_t>(d.bytes), what);
}

bool is_float(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f32 || dtype == DType::f64 ||
         static_cast<int>(dtype) >= static_cast<int>(DType::f8_e4m3);
}

bool is_block_quantised(DType dtype) { return static_cast<int>(dtype) >= static_cast<int>(DType::q4_0); }

}  // namespace tenon
