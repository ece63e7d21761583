// GPT-2's alphabet: every byte as a printable character, so that byte-level vocabularies are text.
// Reference: openai/gpt-2 encoder.py, bytes_to_unicode.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tenon::text {

struct ByteAlphabet {
  std::array<uint16_t, 256> character;  // of each byte
  std::array<int16_t, 0x144> byte;      // of each character; -1: none

  static const ByteAlphabet& get();
};

// The bytes a token spells, or nullopt when it has characters outside the alphabet.
std::optional<std::string> bytes_of_spelling(std::string_view spelled);
// Appends to `out` and returns true, or leaves `out` as it was.
bool append_bytes_of_spelling(std::string& out, std::string_view spelled);
void append_spelling(std::string& out, std::string_view bytes);

}  // namespace tenon::text
