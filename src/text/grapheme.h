// Extended grapheme clusters (UAX #29, without rule GB9c, whose clusters are too long to matter here).
#pragma once
#include <cstddef>
#include <string_view>

namespace tenon::text {

// Where the cluster that begins at `at` of valid UTF-8 ends.
size_t grapheme_end(std::string_view text, size_t at);

}  // namespace tenon::text
