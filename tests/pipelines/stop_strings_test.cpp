#include "pipelines/stop_strings.h"

#include <gtest/gtest.h>

namespace tenon::pipelines {
namespace {

// Every way to cut a text into pieces shows the same, and never a beginning of what then becomes a stop string.
TEST(StopStrings, AnySplitShowsTheSame) {
  const std::string text = "abcab<|en<|end|>rest";
  const std::vector<std::string> stops = {"<|end|>", "ca<"};
  for (unsigned cuts = 0; cuts < 1u << (text.size() - 1); cuts += 37) {
    StopStrings s(stops);
    std::string shown, piece;
    for (size_t i = 0; i < text.size(); ++i) {
      piece += text[i];
      if ((cuts >> i & 1) || i + 1 == text.size()) {
        shown += s.push(piece);
        piece.clear();
        EXPECT_TRUE(std::string_view("abcab<|en").starts_with(shown)) << shown;
      }
    }
    shown += s.finish();
    EXPECT_EQ(shown, "abcab<|en");
    EXPECT_TRUE(s.found());
  }
}

TEST(StopStrings, WhatNeverBecomesAStopIsShownAtTheEnd) {
  StopStrings s({"END"});
  EXPECT_EQ(s.push("the EN"), "the ");
  EXPECT_EQ(s.finish(), "EN");
  EXPECT_FALSE(s.found());
}

}  // namespace
}  // namespace tenon::pipelines
