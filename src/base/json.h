// The door to JSON: nlohmann values for configs and requests, with bounds on size and depth.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

namespace tenon {

using Json = nlohmann::ordered_json;  // keeps the order of keys: templates and reports depend on it

// Throws Error{invalid_file} naming `source`, the byte offset and the reason. Nesting deeper than `max_depth` is
// refused. Invalid UTF-8 is refused. Of duplicate keys the last wins, as in Python.
Json parse_json(std::string_view text, std::string_view source, int max_depth = 200);

Json read_json(const std::filesystem::path& path, uint64_t limit = 64 << 20);

}  // namespace tenon
