// What a tokenizer's files say of its memory before they are read.
#include <cstring>

#include "formats/checkpoint.h"
#include "formats/gguf.h"
#include "pipelines/text.h"

namespace tenon::pipelines {

namespace fs = std::filesystem;

namespace {

// Heap per byte of file, or per entry; measured over the vocabularies that the tests know, rounded up. A tokenizer
// holds its strings once, tables of a few words an entry, and, for byte-pair encoding, a cache of pieces; while a JSON
// file is read its document is held beside it. GGUF keeps strings in the map.
constexpr double kJsonHeld = 2.2, kJsonLoading = 3.8, kUnigramHeld = 2.7, kUnigramLoading = 12;
constexpr uint64_t kTokenHeld = 36, kTokenCached = 25, kTokenLoading = 64, kMergeHeld = 16, kMergeLoading = 40,
                   kFixed = 128 << 10;

void set(runtime::RunOptions& o, double held, double loading) {
  o.tokenizer_bytes = static_cast<uint64_t>(held) + kFixed;
  o.tokenizer_loading_bytes = static_cast<uint64_t>(loading) + kFixed;
}

bool is_unigram(const fs::path& json) {
  auto file = MappedFile::open(json);
  for (std::string_view text : {"\"type\": \"Unigram\"", "\"type\":\"Unigram\""})
    if (memmem(file->bytes().data(), file->bytes().size(), text.data(), text.size())) return true;
  return false;
}

bool plan_folder(const fs::path& folder, runtime::RunOptions& o) {
  for (const char* name : {"tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "vocab.txt"}) {
    if (!fs::exists(folder / name)) continue;
    auto size = static_cast<double>(fs::file_size(folder / name));
    bool unigram = std::strcmp(name, "tokenizer.model") == 0 ||
                   (std::strcmp(name, "tokenizer.json") == 0 && is_unigram(folder / name));
    unigram ? set(o, kUnigramHeld * size, kUnigramLoading * size) : set(o, kJsonHeld * size, kJsonLoading * size);
    return true;
  }
  return false;
}

bool plan_one(const fs::path& path, runtime::RunOptions& o) {
  if (fs::is_directory(path) && plan_folder(path, o)) return true;
  if (!fs::is_directory(path) && path.extension() != ".gguf") return plan_folder(path.parent_path(), o);
  formats::Checkpoint checkpoint = formats::Checkpoint::open(path);
  const formats::Gguf* g = checkpoint.gguf();
  if (!g || !g->find("tokenizer.ggml.tokens")) return false;
  auto count = [&](const char* key) -> uint64_t {
    const formats::GgufValue* v = g->find(key);
    return v ? v->count : 0;
  };
  uint64_t tokens = count("tokenizer.ggml.tokens"), merges = count("tokenizer.ggml.merges");
  set(o, static_cast<double>((kTokenHeld + (merges ? kTokenCached : 0)) * tokens + kMergeHeld * merges),
      static_cast<double>(kTokenLoading * tokens + kMergeLoading * merges));
  return true;
}

}  // namespace

bool plan_tokenizer(const fs::path& path, runtime::RunOptions& o) {
  if (!plan_one(path, o)) return false;
  // A draft's is read once, to compare the two.
  if (runtime::RunOptions draft; o.draft && plan_one(o.draft->path(), draft))
    o.tokenizer_loading_bytes = std::max(o.tokenizer_loading_bytes, o.tokenizer_bytes + draft.tokenizer_loading_bytes);
  return true;
}

}  // namespace tenon::pipelines
