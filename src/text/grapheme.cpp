#include "text/grapheme.h"

#include "text/unicode.h"

namespace tenon::text {
namespace {

// In the order of tools/unicode_tables.py.
enum Break : uint8_t { other, cr, lf, control, extend, zwj, regional, prepend, spacing_mark, l, v, t, lv, lvt };

bool hangul_joins(Break a, Break b) {
  switch (a) {
    case l:
      return b == l || b == v || b == lv || b == lvt;
    case lv:
    case v:
      return b == v || b == t;
    case lvt:
    case t:
      return b == t;
    default:
      return false;
  }
}

}  // namespace

size_t grapheme_end(std::string_view text, size_t at) {
  CodePoint c = decode_utf8(text.data() + at);
  const auto* record = &char_record(c.value);
  at += c.bytes;
  // Emoji sequences: a pictograph, marks, a joiner, a pictograph.
  bool pictograph = record->flags & kPictographic, joined = false;
  bool odd_regional = record->grapheme_break == regional;
  while (at < text.size()) {
    auto a = static_cast<Break>(record->grapheme_break);
    CodePoint d = decode_utf8(text.data() + at);
    record = &char_record(d.value);
    auto b = static_cast<Break>(record->grapheme_break);
    if (a == cr && b == lf) return at + d.bytes;
    if (a == cr || a == lf || a == control || b == cr || b == lf || b == control) return at;
    bool joins = hangul_joins(a, b) || b == extend || b == zwj || b == spacing_mark || a == prepend ||
                 (joined && (record->flags & kPictographic)) || (odd_regional && b == regional);
    if (!joins) return at;
    joined = pictograph && b == zwj;
    if (b != extend && b != zwj) pictograph = record->flags & kPictographic;
    odd_regional = b == regional && !odd_regional;
    at += d.bytes;
  }
  return at;
}

}  // namespace tenon::text
