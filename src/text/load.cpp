// Which reader a path goes to.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "text/spec.h"

namespace tenon::text {
namespace {

namespace fs = std::filesystem;

struct FileFormat {
  const char* name;    // of the file inside of a model's folder; nullptr: only by ending
  const char* ending;  // of a file given by itself; nullptr: only by name
  TokenizerSpec (*read)(const fs::path&);
};

// In order of preference.
// clang-format off
constexpr FileFormat kFormats[] = {
    {"tokenizer.json", ".json", read_tokenizer_json},
    {"tokenizer.model", ".model", read_tokenizer_sentencepiece},
    {"tekken.json", nullptr, read_tokenizer_tekken},
    {"vocab.json", nullptr, read_tokenizer_vocab_json},
    {"vocab.txt", nullptr, read_tokenizer_vocab_txt},
    {nullptr, ".tiktoken", read_tokenizer_tiktoken},
    {nullptr, ".gguf", read_tokenizer_gguf},
};
// clang-format on

const FileFormat* format_of(const fs::path& file) {
  std::string name = file.filename().string();
  for (const FileFormat& f : kFormats)
    if (f.name && name == f.name) return &f;
  for (const FileFormat& f : kFormats)
    if (f.ending && name.ends_with(f.ending)) return &f;
  return nullptr;
}

fs::path find_file(const fs::path& folder) {
  for (const FileFormat& f : kFormats)
    if (f.name && fs::exists(folder / f.name)) return folder / f.name;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const FileFormat& f : kFormats)
    for (const fs::path& p : files)
      if (f.ending && std::string_view(f.ending) != ".json" && p.filename().string().ends_with(f.ending)) return p;
  fail(ErrorCode::not_found, "{}: no tokenizer in this folder (looked for tokenizer.json and the other known files)",
       folder.string());
}

// Shows what is done to a text in which the pre-tokenizers of released models differ.
void warn_of(const std::string& doubt, const Tokenizer& t) {
  constexpr std::string_view kProbe = "It's 12345 m²,  HELLO\n\nworld!";
  std::string pieces;
  for (int32_t id : t.encode(kProbe).ids) {
    pieces += '|';
    for (char c : t.decode({&id, 1})) pieces += c == '\n' ? "\\n" : std::string(1, c);
  }
  log_warn(
      "{}; here {} becomes {}|. If the model's own tokenizer.json cuts it otherwise (tenon tokenize --compare), "
      "answers will be worse than they could be",
      doubt, Json(kProbe).dump(), pieces);
}

}  // namespace

std::shared_ptr<const Tokenizer> Tokenizer::load(const fs::path& path) {
  std::error_code ec;
  if (!fs::exists(path, ec)) fail(ErrorCode::not_found, "{}: no such file or folder", path.string());
  fs::path file = fs::is_directory(path, ec) ? find_file(path) : path;
  const FileFormat* format = format_of(file);
  if (!format) fail(ErrorCode::unsupported, "{}: not a tokenizer file by its name", file.string());
  TokenizerSpec spec = format->read(file);
  if (format->read != read_tokenizer_gguf) read_companions(file.parent_path(), spec);
  const std::string doubt = std::exchange(spec.doubt, {});
  auto tokenizer = make_tokenizer(std::move(spec));
  if (!doubt.empty()) warn_of(doubt, *tokenizer);
  return tokenizer;
}

}  // namespace tenon::text
