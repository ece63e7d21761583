// Python's format specifications: "{:>8.2f}".
#pragma once
#include <string_view>

#include "text/jinja/args.h"

namespace tenon::text::jinja {

// str.format; fields may use attributes and items.
Value format_text(Meter& meter, const Value& format, const Args& args);
// format(value, spec)
void format_value(Meter& meter, TextBuilder& out, const Value& value, std::string_view spec);
// Text padded to `width` characters; align is one of "<>^".
void pad(Meter& meter, TextBuilder& out, const Value& text, Integer width, std::string_view fill, char align,
         bool fill_content = false);

constexpr Integer kMaxWidth = 1'000'000;

}  // namespace tenon::text::jinja
