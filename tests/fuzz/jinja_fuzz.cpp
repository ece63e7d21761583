// Any template, over messages that the input brings along: it may be refused, but not crash, hang or grow.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "text/chat_template.h"

namespace {

using tenon::Json;

// The input is the template, or the template, a zero byte and the last message's content.
tenon::text::ChatInput chat_input(std::string_view content) {
  tenon::text::ChatInput in;
  in.messages = Json::array(
      {{{"role", "system"}, {"content", "S <|x|>"}},
       {{"role", "user"}, {"content", Json::array({{{"type", "text"}, {"text", "part"}}})}},
       {{"role", "assistant"},
        {"content", ""},
        {"tool_calls", Json::array({{{"type", "function"},
                                     {"function", {{"name", "f"}, {"arguments", {{"a", 1}, {"b", 2.5}}}}}}})}}});
  std::string text;
  for (char c : content) text.push_back(static_cast<unsigned char>(c) < 0x80 ? c : '?');
  in.messages.push_back({{"role", "user"}, {"content", text}});
  in.tools = Json::array({{{"name", "f"}, {"parameters", {{"type", "object"}, {"required", Json::array({"a"})}}}}});
  in.kwargs = {{"n", 3}, {"d", {{"b", 2}, {"a", nullptr}}}, {"l", {1, 2.5, "x", true}}, {"s", "a b\tc"}};
  in.bos_token = "<s>";
  in.now = "2026-10-27 12:00:00";
  in.add_generation_prompt = true;
  return in;
}

void check_spans(const tenon::text::Rendered& r) {
  size_t at = 0;
  for (const tenon::text::ContentSpan& s : r.content) {
    if (s.begin < at || s.begin >= s.end || s.end > r.text.size()) std::abort();
    at = s.end;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  size_t zero = input.find('\0');
  std::string_view content = zero == std::string_view::npos ? "hello" : input.substr(zero + 1);
  try {
    check_spans(tenon::text::ChatTemplate(input.substr(0, zero)).render(chat_input(content)));
  } catch (const tenon::Error&) {
    // refused, as most inputs are
  }
  return 0;
}
