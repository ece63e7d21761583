#include "formats/sha256.h"

#include <openssl/evp.h>

#include "base/error.h"

namespace tenon::formats {

std::string sha256_hex(std::span<const std::byte> bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int n = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest, &n, EVP_sha256(), nullptr) != 1)
    fail(ErrorCode::internal, "SHA-256 failed");
  std::string out;
  for (unsigned int i = 0; i < n; ++i) out += fmt::format("{:02x}", digest[i]);
  return out;
}

}  // namespace tenon::formats
