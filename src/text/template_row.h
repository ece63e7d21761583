// One line of `tenon template --jsonl`.
#pragma once
#include <string>

#include "base/json.h"

namespace tenon::text {

// {"template"?, "messages" or "context", "tools"?, "documents"?, "add_generation_prompt"?, "continue_final_message"?,
// "kwargs"?, "now"?, "bos_token"?, "eos_token"?} -> {"text"} or {"error"}; never throws an Error. `default_template`:
// the source where the row brings none; may be null.
Json answer_template_row(const Json& row, const std::string* default_template);

}  // namespace tenon::text
