#include "text/byte_alphabet.h"

#include "text/unicode.h"

namespace tenon::text {
namespace {

bool printable_byte(int b) { return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF); }

ByteAlphabet make() {
  ByteAlphabet a;
  a.byte.fill(-1);
  uint16_t next = 256;
  for (int b = 0; b < 256; ++b) {
    auto c = printable_byte(b) ? static_cast<uint16_t>(b) : next++;
    a.character[static_cast<size_t>(b)] = c;
    a.byte[c] = static_cast<int16_t>(b);
  }
  return a;
}

}  // namespace

const ByteAlphabet& ByteAlphabet::get() {
  static const ByteAlphabet alphabet = make();
  return alphabet;
}

bool append_bytes_of_spelling(std::string& out, std::string_view spelled) {
  const ByteAlphabet& a = ByteAlphabet::get();
  size_t before = out.size();
  for (size_t at = 0; at < spelled.size();) {
    if (spelled[at] >= 0x21 && spelled[at] <= 0x7E) {  // most of them spell themselves
      out.push_back(spelled[at++]);
      continue;
    }
    CodePoint c = decode_utf8(spelled.data() + at);
    int16_t byte = c.value < a.byte.size() ? a.byte[c.value] : int16_t{-1};
    if (byte < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(static_cast<char>(byte));
    at += c.bytes;
  }
  return true;
}

std::optional<std::string> bytes_of_spelling(std::string_view spelled) {
  std::string out;
  if (!append_bytes_of_spelling(out, spelled)) return std::nullopt;
  return out;
}

void append_spelling(std::string& out, std::string_view bytes) {
  const ByteAlphabet& a = ByteAlphabet::get();
  for (char b : bytes) append_utf8(out, a.character[static_cast<uint8_t>(b)]);
}

}  // namespace tenon::text
