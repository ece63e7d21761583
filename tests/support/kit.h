// Golden data: tests/golden is committed; the full kit is used where it lies beside the checkout (or at $TENON_KIT).
#pragma once
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace tenon::test {

inline std::filesystem::path source_dir() { return TENON_SOURCE_DIR; }
inline std::filesystem::path golden(const std::string& relative) { return source_dir() / "tests/golden" / relative; }

// A model of tests/golden/models: its folder, or the file of a GGUF, of several the first.
inline std::filesystem::path golden_model(const std::string& name) {
  const std::filesystem::path folder = golden("models/" + name);
  for (const char* file : {"model.gguf", "model-00001-of-00003.gguf"})
    if (std::filesystem::exists(folder / file)) return folder / file;
  return folder;
}

inline std::optional<std::filesystem::path> kit(const std::string& relative) {
  const char* env = std::getenv("TENON_KIT");
  std::filesystem::path root = env ? std::filesystem::path(env) : source_dir() / "../shared/kit";
  std::filesystem::path p = root / relative;
  if (!std::filesystem::exists(p)) return std::nullopt;
  return p;
}

}  // namespace tenon::test
