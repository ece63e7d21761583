// Well-formed and malformed files of every container: read exactly, or refused by name. Golden subset always, the kit where it is.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "formats/checkpoint.h"
#include "formats/sha256.h"
#include "support/kit.h"

namespace tenon::formats {
namespace {

namespace fs = std::filesystem;

std::string hash_of(const Checkpoint& c, const TensorInfo& t) {
  std::vector<std::byte> raw(t.bytes);
  c.contiguous(t, raw);
  return sha256_hex(raw);
}

// {name: (shape, sha256)}; GGUF lists dims innermost first.
std::map<std::string, std::pair<std::vector<int64_t>, std::string>> wanted(const Json& c) {
  std::map<std::string, std::pair<std::vector<int64_t>, std::string>> out;
  if (!c.contains("tensors")) return out;
  for (const auto& [key, t] : c["tensors"].items()) {
    bool gguf = c["tensors"].is_array();
    auto shape = t[gguf ? "dims" : "shape"].get<std::vector<int64_t>>();
    if (gguf) std::reverse(shape.begin(), shape.end());
    out[gguf ? t["name"].get<std::string>() : key] = {shape, t.value("sha256", "")};
  }
  return out;
}

void check_folder(const fs::path& folder, int& accepted, int& refused) {
  Json expected = read_json(folder / "expected.json");
  for (const Json& c : expected["accept"]) {
    if (c.value("may_reject", Json()) != Json()) continue;
    fs::path file = folder / c["file"].get<std::string>();
    SCOPED_TRACE(file.string());
    try {
      Checkpoint checkpoint = Checkpoint::open(file);
      auto want = wanted(c);
      EXPECT_EQ(checkpoint.tensors().size(), want.size());
      for (const TensorInfo& t : checkpoint.tensors()) {
        ASSERT_TRUE(want.count(t.name)) << t.name;
        EXPECT_EQ(t.shape, want[t.name].first) << t.name;
        if (!want[t.name].second.empty()) {
          EXPECT_EQ(hash_of(checkpoint, t), want[t.name].second) << t.name;
        }
      }
      ++accepted;
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
  for (const Json& c : expected["reject"]) {
    fs::path file = folder / c["file"].get<std::string>();
    // Well-formed containers that are no loadable model are the model reader's to refuse.
    if (c.value("may_accept", Json()) != Json() || file.parent_path().filename() == "bad_model") continue;
    SCOPED_TRACE(file.string());
    try {
      Checkpoint::open(file);
      ADD_FAILURE() << "was accepted";
    } catch (const Error& e) {
      std::string message = e.what();
      bool named = message.find(file.filename().string()) != std::string::npos || message.find(file.parent_path().filename().string()) != std::string::npos;
      EXPECT_TRUE(named) << message;
      EXPECT_LT(message.size(), 400u);
      EXPECT_EQ(message.find('\n'), std::string::npos);
      ++refused;
    }
  }
}

void check_all(const fs::path& root) {
  int accepted = 0, refused = 0;
  for (const char* name : {"safetensors", "gguf_edge", "pickle"}) check_folder(root / name, accepted, refused);
  EXPECT_GT(accepted, 20);
  EXPECT_GT(refused, 60);
}

TEST(Corpus, Golden) { check_all(test::golden("formats")); }

TEST(Corpus, Kit) {
  auto root = test::kit("formats");
  if (!root) GTEST_SKIP() << "no kit here";
  check_all(*root);
}

TEST(Corpus, NothingInAPickleRuns) {
  for (const auto& entry : fs::directory_iterator(test::golden("formats/pickle/bad"))) {
    try {
      Checkpoint::open(entry.path());
    } catch (const Error&) {
    }
  }
  EXPECT_FALSE(fs::exists("TENON_PICKLE_WAS_EXECUTED"));
}

// A file cut at any byte is refused or, where only padding is lost, read; it never crashes.
void truncate_everywhere(const fs::path& source, const std::string& ending) {
  fs::path cut = fs::temp_directory_path() / ("tenon_cut_" + std::to_string(getpid()) + ending);
  fs::copy_file(source, cut, fs::copy_options::overwrite_existing);
  fs::permissions(cut, fs::perms::owner_read | fs::perms::owner_write);
  const size_t size = fs::file_size(cut);
  size_t refused = 0;
  for (size_t n = size; n-- > 0;) {
    fs::resize_file(cut, n);
    try {
      Checkpoint c = Checkpoint::open(cut);
      for (const TensorInfo& t : c.tensors()) hash_of(c, t);
    } catch (const Error&) {
      ++refused;
    }
  }
  fs::remove(cut);
  EXPECT_GT(refused, size * 9 / 10);
}

TEST(Corpus, TruncationAtEveryByte) {
  truncate_everywhere(test::golden("formats/safetensors/ok/all_dtypes.safetensors"), ".safetensors");
  truncate_everywhere(test::golden("formats/gguf_edge/ok/all_value_types.gguf"), ".gguf");
  truncate_everywhere(test::golden("formats/pickle/ok/pytorch_model.bin"), ".bin");
  truncate_everywhere(test::golden("formats/pickle/ok/legacy.bin"), ".bin");
}

TEST(MappedFile, TruncationUnderTheMapEndsWithALineThatNamesTheFile) {
  fs::path file = fs::temp_directory_path() / ("tenon_shrink_" + std::to_string(getpid()));
  EXPECT_EXIT(
      {
        std::ofstream(file, std::ios::binary) << std::string(1 << 16, 'x');
        auto map = MappedFile::open(file);
        fs::resize_file(file, 0);
        volatile std::byte b = map->bytes()[40000];
        (void)b;
      },
      testing::ExitedWithCode(1), "tenon_shrink_.*truncated");
  fs::remove(file);
}

}  // namespace
}  // namespace tenon::formats
