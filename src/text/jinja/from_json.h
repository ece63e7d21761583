// JSON -> values; everything in it is content.
#pragma once
#include "base/json.h"
#include "text/jinja/value.h"

namespace tenon::text::jinja {

Value from_json(Meter& meter, const Json& json, int depth = 0);

}  // namespace tenon::text::jinja
