// Base64 (RFC 4648, standard alphabet), as vocabulary files use it.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace tenon::text {

// nullopt for characters outside the alphabet or a wrong length; padding at the end is optional.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace tenon::text
