// SHA-256 of bytes, in hex.
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace tenon::formats {
std::string sha256_hex(std::span<const std::byte> bytes);
}
