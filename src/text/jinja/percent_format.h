// Python's `text % values`.
#pragma once
#include "text/jinja/value.h"

namespace tenon::text::jinja {

Value percent_format(Meter& meter, const Value& format, const Value& values);

}  // namespace tenon::text::jinja
