// The values of JSON Schema's `format` that can be enforced, as regular expressions of the whole string.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace tenon::text::grammar {

std::optional<std::string> format_pattern(std::string_view format);

}  // namespace tenon::text::grammar
