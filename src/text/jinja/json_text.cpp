#include "text/jinja/json_text.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/chars.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"

namespace tenon::text::jinja {
namespace {

std::string json_escape(char32_t c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\f':
      return "\\f";
    case '\b':
      return "\\b";
    default:
      break;
  }
  if (c < 0x10000) return fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
  uint32_t v = static_cast<uint32_t>(c) - 0x10000;
  return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (v >> 10), 0xDC00 + (v & 0x3FF));
}

void print_json_string(TextBuilder& out, const Str& s, bool ensure_ascii) {
  std::string_view text = s.view();
  bool whole = s.marks().all;
  out.append("\"", whole);
  size_t plain = 0;
  for (size_t at = 0; at < text.size();) {
    uint8_t byte = static_cast<uint8_t>(text[at]);
    bool wide = byte >= 0x80;
    Char c = wide ? char_at(text, at) : Char{byte, 1};
    bool escape = c.code < 0x20 || c.code == '"' || c.code == '\\' || (ensure_ascii && c.code >= 0x7F && wide);
    if (escape) {
      out.append(s, plain, at);
      out.append(json_escape(c.code), s.content_at(at));
      plain = at + c.bytes;
    }
    at += c.bytes;
  }
  out.append(s, plain, text.size());
  out.append("\"", whole);
}

std::string json_number(const Value& v) {
  if (v.is(Kind::integer)) return integer_text(v.integer());
  if (v.is(Kind::boolean)) return v.boolean() ? "true" : "false";
  double d = v.real();
  if (std::isnan(d)) return "NaN";
  if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
  return float_text(d);
}

void print_key(Meter& meter, TextBuilder& out, const Value& key, const JsonStyle& style) {
  if (key.is(Kind::string)) return print_json_string(out, key.str(), style.ensure_ascii);
  if (!key.is_number() && !key.is(Kind::none))
    raise("keys must be str, int, float, bool or None, not {}", type_name(key));
  std::string text = key.is(Kind::none) ? "null" : json_number(key);
  print_json_string(out, make_string(meter, std::move(text), key.content()).str(), style.ensure_ascii);
}

class Layout {
 public:
  Layout(Meter& meter, TextBuilder& out, const JsonStyle& style, bool content, int depth)
      : meter_(meter), out_(out), style_(style), content_(content), depth_(depth) {}
  void before_item() {
    if (!first_) out_.append(style_.item_separator.str().view(), content_);
    first_ = false;
    new_line(depth_ + 1);
  }
  void end() {
    if (!first_) new_line(depth_);
  }

 private:
  void new_line(int depth) {
    if (!style_.indent) return;
    meter_.step(static_cast<uint64_t>(depth));
    out_.append("\n", content_);
    for (int i = 0; i < depth; ++i) out_.append(style_.indent->str().view(), content_);
  }
  Meter& meter_;
  TextBuilder& out_;
  const JsonStyle& style_;
  bool content_, first_ = true;
  int depth_;
};

void print_array(Meter& meter, TextBuilder& out, const Value& v, const JsonStyle& style, int depth) {
  out.append("[", v.content());
  Layout layout(meter, out, style, v.content(), depth);
  for (const Value& item : v.sequence().items) {
    layout.before_item();
    print_json(meter, out, item, style, depth + 1);
  }
  layout.end();
  out.append("]", v.content());
}

void print_object(Meter& meter, TextBuilder& out, const Value& v, const JsonStyle& style, int depth) {
  using Pair = std::pair<Value, Value>;
  std::vector<const Pair*> items;
  for (const Pair& p : v.dict().items) items.push_back(&p);
  if (style.sort_keys) {
    meter.step(items.size() * 8);
    std::stable_sort(items.begin(), items.end(),
                     [](const Pair* a, const Pair* b) { return compare(a->first, b->first) == -1; });
  }
  out.append("{", v.content());
  Layout layout(meter, out, style, v.content(), depth);
  for (const Pair* p : items) {
    layout.before_item();
    print_key(meter, out, p->first, style);
    out.append(style.key_separator.str().view(), v.content());
    print_json(meter, out, p->second, style, depth + 1);
  }
  layout.end();
  out.append("}", v.content());
}

}  // namespace

void print_json(Meter& meter, TextBuilder& out, const Value& v, const JsonStyle& style, int depth) {
  meter.step();
  switch (v.kind()) {
    case Kind::none:
      out.append("null", v.content());
      return;
    case Kind::boolean:
    case Kind::integer:
    case Kind::real:
      out.append(json_number(v), v.content());
      return;
    case Kind::string:
      return print_json_string(out, v.str(), style.ensure_ascii);
    case Kind::list:
    case Kind::tuple:
      return print_array(meter, out, v, style, depth);
    case Kind::dict:
      return print_object(meter, out, v, style, depth);
    default:
      raise("Object of type {} is not JSON serializable", type_name(v));
  }
}

}  // namespace tenon::text::jinja
