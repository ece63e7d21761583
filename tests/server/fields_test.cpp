#include "server/fields.h"

#include <gtest/gtest.h>

namespace tenon::server {
namespace {

// The field an action is refused for; "" if it is not.
template <class F>
std::string refused(F&& f) {
  try {
    f();
  } catch (const ApiError& e) {
    EXPECT_EQ(e.status, 400);
    EXPECT_NE(e.message.find(e.param), std::string::npos);
    return e.param;
  }
  return "";
}

TEST(Fields, EveryFieldIsTakenOrRefusedByName) {
  Json body = {{"a", 1}, {"b", nullptr}, {"c", {{"d", 2}}}};
  EXPECT_EQ(refused([&] {
              Fields f(body);
              f.integer("a", 0, 10);
              f.ignore("c");
              f.finish();
            }),
            "")
      << "null asks for nothing";
  body["b"] = false;
  EXPECT_EQ(refused([&] {
              Fields f(body);
              f.integer("a", 0, 10);
              f.ignore("c");
              f.finish();
            }),
            "b");
  EXPECT_EQ(refused([&] { Fields(body["c"], "c").finish(); }), "c.d");
  EXPECT_EQ(refused([&] { Fields f(Json::array(), "x"); }), "x");
}

TEST(Fields, TypesAndRanges) {
  Json body = {{"i", 5},        {"f", 0.5},        {"s", "x"}, {"b", true},        {"list", {"a", "b"}},
               {"ids", {1, 2}}, {"bad", {1, "x"}}, {"n", -1},  {"big", UINT64_MAX}};
  Fields f(body);
  EXPECT_EQ(f.integer("i", 0, 5), 5);
  EXPECT_EQ(f.integer("absent", 0, 5), std::nullopt);
  EXPECT_EQ(f.number("f", 0, 1), 0.5);
  EXPECT_EQ(f.number("i", 0, 9), 5.0);
  EXPECT_EQ(f.text("s"), "x");
  EXPECT_EQ(f.flag("b"), true);
  EXPECT_EQ(f.texts("s", 1).size(), 1u);
  EXPECT_EQ(f.texts("list", 2).size(), 2u);
  EXPECT_EQ(f.ids("ids"), (std::vector<int32_t>{1, 2}));
  for (const char* name : {"f", "s", "n", "big"}) EXPECT_EQ(refused([&] { f.integer(name, 0, 5); }), name);
  for (const char* name : {"s", "i"}) EXPECT_EQ(refused([&] { f.number(name, 0, 1); }), name);
  EXPECT_EQ(refused([&] { f.texts("list", 1); }), "list");
  EXPECT_EQ(refused([&] { f.texts("bad", 9); }), "bad");
  EXPECT_EQ(refused([&] { f.ids("bad"); }), "bad");
  EXPECT_EQ(refused([&] { f.ids("s"); }), "s");
  EXPECT_EQ(refused([&] { f.flag("i"); }), "i");
  EXPECT_EQ(refused([&] { f.text("i"); }), "i");
  EXPECT_EQ(refused([&] { f.require("absent"); }), "absent");
}

TEST(Fields, WhatIsNotDoneMayBeAskedForWhereItMeansNothing) {
  Json body = {{"x", false}, {"y", true}, {"z", nullptr}};
  Fields f(body);
  f.unsupported("x", {false});
  f.unsupported("z");
  f.unsupported("absent");
  EXPECT_EQ(refused([&] { f.unsupported("y", {false}); }), "y");
}

}  // namespace
}  // namespace tenon::server
