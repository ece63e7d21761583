// A room includes only rooms of strictly lower rank, or itself.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>

#include "support/kit.h"

namespace tenon {
namespace {

const std::map<std::string, int> kRank = {{"base", 0},      {"tensor", 1},  {"formats", 2}, {"graph", 2},
                                          {"models", 3},    {"backend", 3}, {"text", 3},    {"runtime", 4},
                                          {"pipelines", 5}, {"server", 6},  {"cli", 7}};

TEST(Layering, RoomsIncludeOnlyLowerRooms) {
  const std::regex include(R"re(^\s*#include\s+"([a-z_]+)/[^"]+")re");
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(test::source_dir() / "src")) {
    if (entry.path().extension() != ".h" && entry.path().extension() != ".cpp") continue;
    std::string room = std::filesystem::relative(entry.path(), test::source_dir() / "src").begin()->string();
    ASSERT_TRUE(kRank.count(room)) << room << " has no rank";
    ++files;
    std::ifstream in(entry.path());
    std::smatch m;
    for (std::string line; std::getline(in, line);) {
      if (!std::regex_search(line, m, include)) continue;
      std::string other = m[1];
      if (other == "tenon" || other == room) continue;  // public headers; the room itself
      if (!std::filesystem::is_directory(test::source_dir() / "src" / other)) continue;  // a library's header
      auto rank = kRank.find(other);
      ASSERT_NE(rank, kRank.end()) << entry.path() << " includes the unknown room " << other;
      EXPECT_LT(rank->second, kRank.at(room)) << entry.path() << ": " << line;
    }
  }
  EXPECT_GT(files, 50);
}

TEST(Layering, PublicHeadersIncludeOnlyStandardAndPublicHeaders) {
  const std::regex include(R"re(^\s*#include\s+"([^"]+)")re");
  for (const auto& entry : std::filesystem::directory_iterator(test::source_dir() / "include/tenon")) {
    std::ifstream in(entry.path());
    std::smatch m;
    for (std::string line; std::getline(in, line);)
      if (std::regex_search(line, m, include)) {
        EXPECT_TRUE(m[1].str().starts_with("tenon/")) << entry.path() << ": " << line;
      }
  }
}

}  // namespace
}  // namespace tenon
