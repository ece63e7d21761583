// Case changes, properties and replacement of text, as Python's str has them.
#pragma once
#include <string_view>

#include "text/jinja/value.h"

namespace tenon::text::jinja {

Value upper_case(Meter& meter, const Value& text);
Value lower_case(Meter& meter, const Value& text);
Value fold_case(Meter& meter, const Value& text);
Value title_case(Meter& meter, const Value& text);  // str.title: words are runs of cased characters
Value capitalized(Meter& meter, const Value& text);
Value swapped_case(Meter& meter, const Value& text);

bool has_property(std::string_view text, std::string_view method);  // "isalpha" ...

// `count` < 0: all.
Value replace_text(Meter& meter, const Value& text, const Str& from, const Str& to, Integer count);

// str.center: the odd blank goes where Python puts it.
void center_text(Meter& meter, TextBuilder& out, const Value& text, Integer width, std::string_view fill,
                 bool fill_content);

}  // namespace tenon::text::jinja
