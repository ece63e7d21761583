// What a tokenizer's files say of its memory before they are read.
#include "formats/checkpoint.h"
#include "formats/gguf.h"
#include "pipelines/text.h"

namespace tenon::pipelines {

namespace fs = std::filesystem;

// A loaded tokenizer holds its strings once and tables of a few words an entry; loading holds the file beside it for a moment.
// GGUF keeps its strings in the map. Measured: at most 2.2 bytes of heap per byte of tokenizer.json, 24 + 12 bytes a token and merge.
uint64_t tokenizer_bytes(const fs::path& path) {
  auto size = [](const fs::path& p) -> uint64_t {
    std::error_code ec;
    auto n = fs::file_size(p, ec);
    return ec ? 0 : n;
  };
  if (fs::is_directory(path)) {
    for (const char* name : {"tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "vocab.txt"})
      if (uint64_t n = size(path / name)) return n * 5 / 2 + (256 << 10);
    for (const auto& entry : fs::directory_iterator(path))
      if (entry.path().extension() == ".gguf") return tokenizer_bytes(entry.path());
    return 0;
  }
  if (path.extension() != ".gguf") return path.has_parent_path() && fs::exists(path.parent_path() / "config.json") ? tokenizer_bytes(path.parent_path()) : 0;
  formats::Checkpoint checkpoint = formats::Checkpoint::open(path);
  const formats::Gguf* g = checkpoint.gguf();
  if (!g || !g->find("tokenizer.ggml.tokens")) return 0;
  auto count = [&](const char* key) -> uint64_t {
    const formats::GgufValue* v = g->find(key);
    return v ? v->count : 0;
  };
  return 24 * count("tokenizer.ggml.tokens") + 40 * count("tokenizer.ggml.merges") + (256 << 10);
}

}  // namespace tenon::pipelines
