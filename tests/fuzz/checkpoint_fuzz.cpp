// Any bytes as a weights file: read or refused, never a crash. The first byte picks the container's name.
#include <unistd.h>

#include <cstdint>
#include <fstream>

#include "base/error.h"
#include "formats/checkpoint.h"
#include "formats/gguf.h"

namespace {

const std::filesystem::path& scratch(int kind) {
  static const std::filesystem::path folder = [] {
    auto p = std::filesystem::temp_directory_path() / ("tenon_fuzz_" + std::to_string(getpid()));
    std::filesystem::create_directories(p);
    return p;
  }();
  static const std::filesystem::path files[] = {folder / "x.safetensors", folder / "x.gguf", folder / "x.bin"};
  return files[kind % 3];
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto& file = scratch(data[0]);
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(data + 1), static_cast<std::streamsize>(size - 1));
  try {
    auto c = tenon::formats::Checkpoint::open(file);
    for (const auto& t : c.tensors()) {
      if (t.bytes > 1 << 20) continue;
      std::vector<std::byte> raw(t.bytes);
      c.contiguous(t, raw);
    }
    if (const tenon::formats::Gguf* g = c.gguf())
      for (const auto& k : g->keys()) {
        (void)k.value.integer();
        (void)k.value.integers();
        (void)k.value.reals();
        (void)k.value.strings();
      }
  } catch (const tenon::Error&) {
  }
  return 0;
}
