#include "text/encode_batch.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/thread_pool.h"
#include "text/spec.h"

namespace tenon::text {
namespace {

std::shared_ptr<const Tokenizer> words(const char* unk) {
  std::string json = R"({"model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "?": 2}, "unk_token": ")";
  return make_tokenizer(
      parse_tokenizer_json(json + unk + R"("}, "pre_tokenizer": {"type": "WhitespaceSplit"}})", "test"));
}

TEST(EncodeBatch, EqualsOneByOne) {
  auto t = words("?");
  ThreadPool pool(3);
  std::vector<std::string> texts;
  for (int i = 0; i < 100; ++i) texts.push_back(std::string(static_cast<size_t>(i), 'a') + " b a");
  std::vector<std::string_view> views(texts.begin(), texts.end());
  std::vector<Encoding> got = encode_batch(*t, views, {}, pool);
  ASSERT_EQ(got.size(), views.size());
  for (size_t i = 0; i < views.size(); ++i) EXPECT_EQ(got[i].ids, t->encode(views[i]).ids) << i;
}

TEST(EncodeBatch, TellsTheFirstError) {
  auto t = words("missing");
  ThreadPool pool(2);
  std::vector<std::string_view> views = {"a b", "a c", "b"};
  EXPECT_THROW(encode_batch(*t, views, {}, pool), Error);
}

}  // namespace
}  // namespace tenon::text
