#include "base/bytes.h"

#include <gtest/gtest.h>

#include <array>

namespace tenon {
namespace {

TEST(ByteReader, ReadsBothByteOrders) {
  std::array<std::byte, 4> b{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  ByteReader r(b, "f");
  EXPECT_EQ(r.read<uint16_t>("a"), 0x0201);
  EXPECT_EQ(r.read<uint16_t>("b", true), 0x0304);
  EXPECT_EQ(r.remaining(), 0u);
}

TEST(ByteReader, RefusesToReadPastTheEndAndSaysWhere) {
  std::array<std::byte, 3> b{};
  ByteReader r(b, "file.bin");
  r.take(1, "x");
  try {
    r.read<uint32_t>("count");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_file);
    EXPECT_NE(std::string(e.what()).find("file.bin: count needs 4 bytes at offset 1"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace tenon
