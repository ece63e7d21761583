#include "server/ui.h"

// The assembler copies the files of src/server/ui; CMake names their folder.
#define TENON_EMBED(name, file)                                                                       \
  __asm__(".section .rodata\n.balign 16\nui_" #name ":\n.incbin \"" TENON_UI_DIR file "\"\nui_" #name \
          "_end:\n.byte 0\n.previous\n");                                                             \
  extern "C" const char ui_##name[], ui_##name##_end[]

TENON_EMBED(index, "/index.html");
TENON_EMBED(script, "/app.js");
TENON_EMBED(style, "/style.css");

namespace tenon::server {

const UiFile* find_ui_file(std::string_view path) {
  static const UiFile kFiles[] = {
      {"/", "text/html; charset=utf-8", {ui_index, ui_index_end}},
      {"/app.js", "text/javascript; charset=utf-8", {ui_script, ui_script_end}},
      {"/style.css", "text/css; charset=utf-8", {ui_style, ui_style_end}},
  };
  for (const UiFile& f : kFiles)
    if (path == f.path) return &f;
  return nullptr;
}

}  // namespace tenon::server
