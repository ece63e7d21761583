// Well-formed and malformed files of every container: read exactly, or refused by name. Golden subset always, the kit
// where it is.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "formats/checkpoint.h"
#include "formats/gguf.h"
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

struct Wanted {
  DType dtype;
  std::vector<int64_t> shape;
  std::string sha256;  // of the contiguous bytes; empty: not given
};

// safetensors' names, torch's names, ggml's numbers.
DType dtype_of(const Json& spelled) {
  if (spelled.is_number()) return *dtype_of_ggml(spelled.get<uint32_t>());
  static const std::map<std::string, DType> torch = {
      {"float64", DType::f64},        {"float32", DType::f32},   {"float16", DType::f16},
      {"bfloat16", DType::bf16},      {"int64", DType::i64},     {"int32", DType::i32},
      {"int16", DType::i16},          {"int8", DType::i8},       {"uint8", DType::u8},
      {"uint16", DType::u16},         {"uint32", DType::u32},    {"uint64", DType::u64},
      {"bool", DType::boolean},       {"complex64", DType::c64}, {"float8_e4m3fn", DType::f8_e4m3},
      {"float8_e5m2", DType::f8_e5m2}};
  auto name = spelled.get<std::string>();
  auto it = torch.find(name);
  return it != torch.end() ? it->second : *dtype_named(name);
}

// GGUF's tensors are a list, with dims innermost first.
std::map<std::string, Wanted> wanted(const Json& c) {
  std::map<std::string, Wanted> out;
  if (!c.contains("tensors")) return out;
  for (const auto& [key, t] : c["tensors"].items()) {
    bool gguf = c["tensors"].is_array();
    auto shape = t[gguf ? "dims" : "shape"].get<std::vector<int64_t>>();
    if (gguf) std::reverse(shape.begin(), shape.end());
    out[gguf ? t["name"].get<std::string>() : key] = {dtype_of(t[gguf ? "type" : "dtype"]), shape,
                                                      t.value("sha256", "")};
  }
  return out;
}

void check_tensors(const Checkpoint& checkpoint, const Json& c) {
  auto want = wanted(c);
  EXPECT_EQ(checkpoint.tensors().size(), want.size());
  for (const TensorInfo& t : checkpoint.tensors()) {
    ASSERT_TRUE(want.count(t.name)) << t.name;
    const Wanted& w = want[t.name];
    EXPECT_EQ(name(t.dtype), std::string(name(w.dtype))) << t.name;
    EXPECT_EQ(t.shape, w.shape) << t.name;
    if (!w.sha256.empty()) {
      EXPECT_EQ(hash_of(checkpoint, t), w.sha256) << t.name;
    }
  }
}

void check_metadata(const Checkpoint& checkpoint, const Json& metadata) {
  std::map<std::string, std::string> got(checkpoint.metadata().begin(), checkpoint.metadata().end());
  EXPECT_EQ(got, metadata.is_null() ? decltype(got)() : metadata.get<decltype(got)>());
}

// Strings that are not UTF-8 are spelled "hex:...".
std::string text_of(const Json& value) {
  auto text = value.get<std::string>();
  if (!text.starts_with("hex:")) return text;
  std::string out;
  for (size_t i = 4; i + 1 < text.size(); i += 2) out += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  return out;
}

void check_array(const GgufValue& got, const Json& want) {
  EXPECT_EQ(got.count, want.size());
  if (got.item == GgufType::string) {
    auto strings = got.strings().value();
    for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(strings[i], text_of(want[i]));
  } else if (got.item == GgufType::f32 || got.item == GgufType::f64 || got.item == GgufType::u64) {
    if (want.empty()) return;
    auto reals = got.reals().value();
    for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(reals[i], want[i].get<double>());
  } else {
    auto integers = got.integers().value();
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_EQ(integers[i], want[i].is_boolean() ? want[i].get<bool>() : want[i].get<int64_t>());
  }
}

void check_keys(const Gguf& gguf, const Json& keys) {
  EXPECT_EQ(gguf.keys().size(), keys.size());
  for (const auto& [key, want] : keys.items()) {
    SCOPED_TRACE(key);
    const GgufValue* got = gguf.find(key);
    ASSERT_NE(got, nullptr);
    EXPECT_EQ(static_cast<int>(got->type), want["type"][0].get<int>());
    const Json& value = want["value"];
    if (value.is_array())
      check_array(*got, value);
    else if (got->type == GgufType::string)
      EXPECT_EQ(got->string().value(), text_of(value));
    else if (value.is_boolean())
      EXPECT_EQ(got->flag().value(), value.get<bool>());
    else if (value == "nan")
      EXPECT_TRUE(std::isnan(got->real().value()));
    else
      EXPECT_EQ(got->real().value(), value.get<double>());
    if (value.is_number_integer() && got->type != GgufType::u64) {
      EXPECT_EQ(got->integer().value(), value.get<int64_t>());
    }
  }
}

// Words of which a message must hold one, so that it names the class of the fault.
const std::map<std::string, std::vector<std::string>> kClassWords = {
    {"truncated_header", {"truncated"}},
    {"bad_header", {"header"}},
    {"header_length", {"header length", "declared length"}},
    {"invalid_utf8", {"UTF-8"}},
    {"invalid_json", {"not valid JSON"}},
    {"offsets_overlap", {"overlap"}},
    {"offsets_hole", {"hole"}},
    {"data_size_mismatch", {"bytes after the last tensor", "outside the"}},
    {"offsets_out_of_range", {"data_offsets"}},
    {"offsets_invalid", {"data_offsets"}},
    {"shape_mismatch", {"shape"}},
    {"shape_overflow", {"shape"}},
    {"shape_invalid", {"shape"}},
    {"unknown_dtype", {"unknown dtype"}},
    {"missing_field", {"lacks"}},
    {"metadata_invalid", {"__metadata__"}},
    {"duplicate_name", {"duplicate"}},
    {"missing_shard", {"missing"}},
    {"missing_tensor", {"missing"}},
    {"path_escape", {"outside the model's folder"}},
    {"truncated", {"truncated"}},
    {"truncated_data", {"truncated"}},
    {"bad_magic", {"magic"}},
    {"bad_version", {"version"}},
    {"big_endian", {"byte order"}},
    {"bad_count", {"count"}},
    {"tensor_info_invalid", {"dimensions", "overlap"}},
    {"string_length", {"string"}},
    {"array_length", {"array"}},
    {"nested_array", {"array of arrays"}},
    {"unknown_value_type", {"unknown value type"}},
    {"duplicate_key", {"duplicate key"}},
    {"kv_invalid", {"key"}},
    {"bad_alignment", {"alignment"}},
    {"bad_dims", {"dimension", "shape"}},
    {"unknown_ggml_type", {"unknown ggml type"}},
    {"bad_block", {"block"}},
    {"bad_offset", {"offset"}},
    {"wrong_shard", {"wrong order"}},
    {"forbidden_global", {"forbidden global"}},
    {"forbidden_opcode", {"forbidden opcode"}},
    {"storage_range", {"storage range"}},
    {"storage_missing", {"storage missing"}},
    {"bad_pickle", {"bad pickle"}},
    {"not_a_state_dict", {"not a state dict"}},
    {"missing_entry", {"missing entry"}},
    {"bad_zip", {"zip"}},
};

void check_refusal(const std::string& message, const fs::path& file, const std::string& reason) {
  bool named = message.find(file.filename().string()) != std::string::npos ||
               message.find(file.parent_path().filename().string()) != std::string::npos;
  EXPECT_TRUE(named) << message;
  EXPECT_LT(message.size(), 400u);
  EXPECT_EQ(message.find('\n'), std::string::npos);
  auto words = kClassWords.find(reason);
  ASSERT_NE(words, kClassWords.end()) << reason;
  bool classed = std::any_of(words->second.begin(), words->second.end(),
                             [&](auto& w) { return message.find(w) != std::string::npos; });
  EXPECT_TRUE(classed) << reason << ": " << message;
}

void check_folder(const fs::path& folder, int& accepted, int& refused) {
  Json expected = read_json(folder / "expected.json");
  for (const Json& c : expected["accept"]) {
    if (c.value("may_reject", Json()) != Json()) continue;
    fs::path file = folder / c["file"].get<std::string>();
    SCOPED_TRACE(file.string());
    try {
      Checkpoint checkpoint = Checkpoint::open(file);
      check_tensors(checkpoint, c);
      if (c.contains("metadata")) check_metadata(checkpoint, c["metadata"]);
      if (c.contains("kv")) check_keys(*checkpoint.gguf(), c["kv"]);
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
      check_refusal(e.what(), file, c["reason"].get<std::string>());
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
  truncate_everywhere(test::golden("formats/gguf_edge/ok/ranks_and_ints.gguf"), ".gguf");
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
