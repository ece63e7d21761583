// Any bytes as what a model says, in any form: the same whole and in pieces, nothing worse.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "text/tool_calls.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tenon::text;
  if (size < 2) return 0;
  const auto& all = tool_formats();
  const ToolFormat& format = all[data[0] % all.size()];
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  auto read = [&](size_t piece) {
    ToolCallParser parser(
        format, {.tools = tenon::Json::array(), .reasoning_open = (data[1] & 1) != 0, .sure = (data[1] & 16) != 0});
    OutputDelta out;
    for (size_t at = 0; at < text.size(); at += piece) out += parser.push(text.substr(at, piece));
    out += parser.finish();
    return out;
  };
  const OutputDelta whole = read(size), parts = read(1 + data[1] / 2 % 7);
  bool same =
      whole.content == parts.content && whole.reasoning == parts.reasoning && whole.calls.size() == parts.calls.size();
  for (size_t i = 0; same && i < whole.calls.size(); ++i)
    same = whole.calls[i].name == parts.calls[i].name && whole.calls[i].arguments == parts.calls[i].arguments;
  if (!same) std::abort();
  return 0;
}
