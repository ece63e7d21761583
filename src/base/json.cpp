#include "base/json.h"

#include "base/error.h"
#include "base/file.h"

namespace tenon {
namespace {

// Depth of nesting, found without recursion so that the parser is never entered on a hostile document.
void check_depth(std::string_view text, std::string_view source, int max_depth) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > max_depth)
        fail(ErrorCode::invalid_file, "{}: JSON is nested more than {} deep at offset {}", source, max_depth, i);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

}  // namespace

Json parse_json(std::string_view text, std::string_view source, int max_depth) {
  // To the parser a zero byte is the end: what stands behind it would be passed over.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos)
    fail(ErrorCode::invalid_file, "{}: not valid JSON: a zero byte at offset {}", source, zero);
  check_depth(text, source, max_depth);
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::parse_error& e) {
    fail(ErrorCode::invalid_file, "{}: not valid JSON at offset {}: {}", source, e.byte, printable(e.what(), 160));
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorCode::invalid_file, "{}: JSON: {}", source, printable(e.what(), 160));
  }
}

Json read_json(const std::filesystem::path& path, uint64_t limit) {
  return parse_json(read_file(path, limit), path.string());
}

}  // namespace tenon
