#include "base/json.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tenon {
namespace {

TEST(Json, NothingIsPassedOver) {
  EXPECT_EQ(parse_json("{\"a\": 1}", "t")["a"], 1);
  for (std::string text : {std::string("{}\0", 3), std::string("{}\0x", 4), std::string("{\"a\0b\": 1}", 9),
                           std::string("{} x"), std::string("")})
    EXPECT_THROW(parse_json(text, "t"), Error) << text;
  EXPECT_THROW(parse_json(std::string(300, '['), "t"), Error);
}

}  // namespace
}  // namespace tenon
