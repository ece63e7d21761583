// The web page's files, embedded in the program.
#pragma once
#include <string_view>

namespace tenon::server {

struct UiFile {
  const char* path;
  const char* type;
  std::string_view content;
};

const UiFile* find_ui_file(std::string_view path);  // nullptr: none

}  // namespace tenon::server
