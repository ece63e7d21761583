// The vocabularies inside of small model files: ids with the file's own BOS rule.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
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

// A name nobody knows: the default rule, and a line that shows what it does.
TEST(GgufModels, AnUnknownPreTokenizerWarnsWithAProbe) {
  std::string bytes = read_file(test::golden("models/llama-s-q4_0/model.gguf"), 64 << 20);
  const std::string key = "tokenizer.ggml.pre";
  const size_t at = bytes.find(key);
  ASSERT_NE(at, std::string::npos);
  const size_t value = at + key.size() + 4 + 8;  // type, length
  uint64_t length = 0;
  std::memcpy(&length, bytes.data() + value - 8, 8);
  ASSERT_LT(length, 32u);
  const fs::path file = fs::path(testing::TempDir()) / "unknown-pre.gguf";
  auto load = [&](std::string name) {
    name.resize(length, 'x');
    std::copy(name.begin(), name.end(), bytes.begin() + static_cast<ptrdiff_t>(value));
    std::ofstream(file, std::ios::binary) << bytes;
    testing::internal::CaptureStderr();
    Tokenizer::load(file);
    return testing::internal::GetCapturedStderr();
  };
  const std::string warning = load("nobody");
  EXPECT_NE(warning.find("tokenizer.ggml.pre \"nobody"), std::string::npos) << warning;
  EXPECT_NE(warning.find("12345"), std::string::npos) << warning;
  fs::remove(file);
}

}  // namespace
}  // namespace tenon::text
