// PyTorch files made to cost far more than their size, and views at the edge of their storage.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "formats/checkpoint.h"
#include "formats/zip_directory.h"

namespace tenon::formats {
namespace {

namespace fs = std::filesystem;

template <class T>
std::string le(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// Pieces of a pickle, protocol 2.
std::string text(std::string_view s) { return "X" + le(static_cast<uint32_t>(s.size())) + std::string(s); }
std::string integer(int64_t v) { return std::string("\x8a\x08") + le(v); }
std::string integers(const std::vector<int64_t>& values) {
  std::string out = "(";
  for (int64_t v : values) out += integer(v);
  return out + "t";
}
std::string store(uint8_t memo) { return std::string("q") + static_cast<char>(memo); }
std::string fetch(uint8_t memo) { return std::string("h") + static_cast<char>(memo); }
std::string dict(const std::string& entries) { return "}(" + entries + "u"; }

// A tensor over the file's one storage of 16 floats.
std::string tensor(int64_t offset, const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  std::string storage =
      "(" + text("storage") + "ctorch\nFloatStorage\n" + text("0") + text("cpu") + integer(16) + "Ntq\x10Q";
  return "ctorch._utils\n_rebuild_tensor_v2\n(" + storage + integer(offset) + integers(shape) + integers(strides) +
         "\x89NtR";
}

// The container before zip: magic, protocol, system, object, keys; then the storages.
std::string legacy(const std::string& object, bool with_storage = true) {
  auto pickle = [](const std::string& body) { return "\x80\x02" + body + "."; };
  std::string out =
      pickle(std::string("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 12)) + pickle(integer(1001)) + pickle("}");
  if (!with_storage) return out + pickle(object) + pickle("]");
  out += pickle(object) + pickle("](" + text("0") + "e") + le(uint64_t{16});
  for (int i = 0; i < 16; ++i) out += le(static_cast<float>(i));
  return out;
}

class Torch : public testing::Test {
 protected:
  ~Torch() override { fs::remove(file_); }

  Checkpoint open(const std::string& content) {
    write_file(file_, content);
    return Checkpoint::open(file_);
  }
  // Refused with `words` in the message, within a second.
  void expect_refused(const std::string& content, const std::string& words) {
    auto begin = std::chrono::steady_clock::now();
    try {
      open(content);
      ADD_FAILURE() << "was accepted";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
  }
  std::vector<float> values(const std::string& view) {
    Checkpoint c = open(legacy(dict(text("a") + view)));
    const TensorInfo& t = c.at("a");
    std::vector<float> out(t.bytes / 4);
    c.contiguous(t, std::as_writable_bytes(std::span(out)));
    return out;
  }

  fs::path file_ = fs::temp_directory_path() / ("tenon_torch_" + std::to_string(getpid()) + ".bin");
};

TEST_F(Torch, ViewsReadTheirElementsInOrder) {
  EXPECT_EQ(values(tensor(1, {2, 2}, {4, 1})), (std::vector<float>{1, 2, 5, 6}));
  EXPECT_EQ(values(tensor(0, {2, 3}, {1, 2})), (std::vector<float>{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(values(tensor(15, {}, {})), (std::vector<float>{15}));
  EXPECT_EQ(values(tensor(3, {3}, {0})), (std::vector<float>{3, 3, 3}));
  EXPECT_EQ(values(tensor(0, {4, 16}, {0, 1})).size(), 64u);  // larger than its storage, as expand() saves it
}

TEST_F(Torch, ViewsPastTheStorageAreRefused) {
  const std::string words = "storage range";
  EXPECT_EQ(values(tensor(12, {4}, {1})).back(), 15);
  expect_refused(legacy(dict(text("a") + tensor(13, {4}, {1}))), words);
  expect_refused(legacy(dict(text("a") + tensor(0, {2, 2}, {15, 1}))), words);
  expect_refused(legacy(dict(text("a") + tensor(0, {2}, {-1}))), words);
  expect_refused(legacy(dict(text("a") + tensor(0, {3, 3}, {INT64_MAX, INT64_MAX}))), words);
  expect_refused(legacy(dict(text("a") + tensor(INT64_MAX, {2}, {1}))), words);
}

TEST_F(Torch, AnExpandedViewOfMoreThanTheLimitIsRefused) {
  expect_refused(legacy(dict(text("a") + tensor(0, {int64_t{1} << 40}, {0}))), "storage range");
}

TEST_F(Torch, EmptyTensorsOfHugeOtherDimensionsAreRead) {
  int64_t huge = int64_t{1} << 62;
  EXPECT_EQ(values(tensor(0, {0, huge, huge}, {1, huge, 1})).size(), 0u);
}

TEST_F(Torch, NestedDictsGetDottedNamesAndWrappersDoNot) {
  std::string inner = dict(text("w") + tensor(0, {1}, {1}));
  Checkpoint c = open(legacy(dict(text("epoch") + integer(3) + text("state_dict") + dict(text("layer") + inner))));
  EXPECT_NE(c.find("layer.w"), nullptr);
}

TEST_F(Torch, ADictInsideItselfIsRefused) {
  std::string entries;
  for (char name = 'a'; name <= 'z'; ++name) entries += text(std::string(1, name)) + fetch(1);
  expect_refused(legacy("}" + store(1) + "(" + entries + "u", false), "nested too deep");
}

TEST_F(Torch, SharedDictsAreNotVisitedExponentiallyOften) {
  std::string object = dict("") + store(0);
  for (uint8_t level = 1; level < 14; ++level) {
    std::string entries;
    for (char name = 'a'; name <= 'j'; ++name)
      entries += text(std::string(1, name)) + fetch(static_cast<uint8_t>(level - 1));
    object += "0" + dict(entries) + store(level);
  }
  expect_refused(legacy(object, false), "nested too deep");
}

// Every call names the same large tuple or text again; nothing may be copied.
TEST_F(Torch, RepeatedLargeArgumentsTakeLinearTime) {
  std::string large = "(", calls;
  for (int i = 0; i < 200'000; ++i) large += "N";
  for (int i = 0; i < 200'000; ++i) calls += "ctorch\nSize\n" + fetch(1) + "\x85R0";
  expect_refused(legacy(large + "t" + store(1) + "0" + calls + "]", false), "not a state dict");
  std::string storages = "(" + text("storage") + "ctorch\nFloatStorage\n" + text(std::string(1 << 20, 'k')) +
                         text("cpu") + integer(1) + "t" + store(1) + "0";
  for (int i = 0; i < 200'000; ++i) storages += fetch(1) + "Q0";
  expect_refused(legacy(storages + "]", false), "key is too long");
}

struct ZipPart {
  std::string name, data;
  uint32_t crc = crc32_of(std::as_bytes(std::span(data)));

  std::string sizes() const {
    auto size = static_cast<uint32_t>(data.size());
    return le(crc) + le(size) + le(size) + le(static_cast<uint16_t>(name.size()));
  }
  std::string local() const {
    return "PK\x03\x04" + le(uint16_t{20}) + le(uint64_t{0}) + sizes() + le(uint16_t{0}) + name + data;
  }
  std::string central(size_t at) const {
    return "PK\x01\x02" + le(uint32_t{20}) + le(uint64_t{0}) + sizes() + le(uint64_t{0}) + le(uint32_t{0}) +
           le(static_cast<uint32_t>(at)) + name;
  }
};

std::string zip(const std::string& locals, const std::string& central, uint16_t count) {
  return locals + central + "PK\x05\x06" + le(uint32_t{0}) + le(count) + le(count) +
         le(static_cast<uint32_t>(central.size())) + le(static_cast<uint32_t>(locals.size())) + le(uint16_t{0});
}

TEST_F(Torch, ZipEntriesThatShareBytesAreRefused) {
  ZipPart part{"a/data/0", std::string(1 << 19, 'x')};
  std::string central;
  for (int i = 0; i < 5000; ++i) central += part.central(0);
  expect_refused(zip(part.local(), central, 5000), "overlap");
}

TEST_F(Torch, ZipReadsStoredEntriesInPlace) {
  std::string pickle = "\x80\x02" + dict(text("a") + tensor(2, {2}, {1})) + ".", data(64, '\0');
  for (int i = 0; i < 16; ++i) data.replace(4 * static_cast<size_t>(i), 4, le(static_cast<float>(i)));
  ZipPart first{"a/data.pkl", pickle}, second{"a/data/0", data};
  Checkpoint c = open(zip(first.local() + second.local(), first.central(0) + second.central(first.local().size()), 2));
  const TensorInfo& t = c.at("a");
  float got[2];
  std::memcpy(got, c.bytes(t).data(), sizeof got);
  EXPECT_EQ(got[0], 2);
  EXPECT_EQ(got[1], 3);
}

}  // namespace
}  // namespace tenon::formats
