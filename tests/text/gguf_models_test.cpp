// The vocabularies inside of small model files: ids with the file's own BOS rule.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "support/kit.h"
#include "text/tokenizer.h"

namespace tenon::text {
namespace {

namespace fs = std::filesystem;

void check_model(const fs::path& folder) {
  Json c = read_json(folder / "case.json");
  fs::path file = folder / c["files"][0].get<std::string>();
  if (c.value("name", "") == "big-endian") return;
  auto t = Tokenizer::load(file);
  auto check = [&](const std::string& text, const Json& ids) {
    EXPECT_EQ(Json(t->encode(text, {.add_special_tokens = true, .parse_special = true}).ids), ids)
        << folder << ": " << text;
  };
  if (c.contains("tokenize"))
    for (const Json& row : c["tokenize"]) check(row["text"], row["ids"]);
  if (c.contains("prompt_texts"))
    for (size_t i = 0; i < c["prompt_texts"].size(); ++i) check(c["prompt_texts"][i], c["prompts"][i]);
}

TEST(GgufModels, Kit) {
  auto root = test::kit("formats/gguf_models");
  if (!root) GTEST_SKIP() << "the kit is not here";
  int models = 0;
  for (const auto& entry : fs::directory_iterator(*root)) {
    if (!fs::exists(entry.path() / "case.json")) continue;
    SCOPED_TRACE(entry.path().string());
    EXPECT_NO_THROW(check_model(entry.path()));
    ++models;
  }
  EXPECT_GT(models, 0);
}

}  // namespace
}  // namespace tenon::text
