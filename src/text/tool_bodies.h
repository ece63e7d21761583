// The text of one call, between its marks -> name and arguments.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "text/tool_calls.h"

namespace tenon::text {

// The name of the call whose arguments stand behind `header`; "": it names none.
std::string_view call_name_in(const ToolFormat& format, std::string_view header);

// One JSON value: an object of a call, a list of such, or, behind a header that names it, the arguments themselves.
// False: it is no call.
bool read_json_calls(const ToolFormat& format, std::string_view header, std::string_view json,
                     std::vector<ToolCall>& calls);

// Bodies whose arguments are no JSON; their values become what the tool's schema says, else what they look like.
bool read_tagged_calls(const ToolFormat& format, std::string_view text, const Json& tools,
                       std::vector<ToolCall>& calls);

// Whether a parameter's values are written as bare text: where its schema takes strings alone, or strings and null,
// which is then the word "null".
struct BareText {
  bool text = false, null = false;
};
BareText bare_text(const Json& parameters, std::string_view parameter);

}  // namespace tenon::text
