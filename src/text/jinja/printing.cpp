// str() and repr() of values.
#include "text/jinja/chars.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/jinja/special.h"

namespace tenon::text::jinja {
namespace {

void append_escape(std::string& out, char32_t c) {
  if (c == '\n')
    out += "\\n";
  else if (c == '\r')
    out += "\\r";
  else if (c == '\t')
    out += "\\t";
  else if (c < 0x100)
    out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
  else if (c < 0x10000)
    out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
  else
    out += fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
}

bool printable_char(char32_t c) { return c < 0x7F ? c >= 0x20 : !kUnprintable.has(c); }

void print_string_repr(TextBuilder& out, const Str& s) {
  std::string_view text = s.view();
  bool apostrophe = text.find('\'') != std::string_view::npos, quote = text.find('"') != std::string_view::npos;
  char q = apostrophe && !quote ? '"' : '\'';
  bool content = !s.marks().none();
  std::string_view mark(&q, 1);
  out.append(mark, content && s.content_at(0));
  size_t plain = 0;
  for (size_t at = 0; at < text.size();) {
    Char c = char_at(text, at);
    bool special = c.code == static_cast<char32_t>(q) || c.code == '\\';
    if (special || !printable_char(c.code)) {
      out.append(s, plain, at);
      std::string escape;
      if (special)
        escape = {'\\', static_cast<char>(c.code)};
      else
        append_escape(escape, c.code);
      out.append(escape, s.content_at(at));
      plain = at + c.bytes;
    }
    at += c.bytes;
  }
  out.append(s, plain, text.size());
  out.append(mark, content && !text.empty() && s.content_at(text.size() - 1));
}

void print_items(Meter& meter, TextBuilder& out, const std::vector<Value>& items, bool content, int depth) {
  bool first = true;
  for (const Value& v : items) {
    if (!first) out.append(", ", content);
    first = false;
    print_repr(meter, out, v, depth + 1);
  }
}

void print_pairs(Meter& meter, TextBuilder& out, const std::vector<std::pair<Value, Value>>& items, bool content,
                 int depth) {
  out.append("{", content);
  bool first = true;
  for (const auto& [key, value] : items) {
    if (!first) out.append(", ", content);
    first = false;
    print_repr(meter, out, key, depth + 1);
    out.append(": ", content);
    print_repr(meter, out, value, depth + 1);
  }
  out.append("}", content);
}

void print_container(Meter& meter, TextBuilder& out, const Value& v, int depth) {
  bool content = v.content();
  if (v.is(Kind::dict)) return print_pairs(meter, out, v.dict().items, content, depth);
  const auto& items = v.sequence().items;
  bool list = v.is(Kind::list);
  out.append(list ? "[" : "(", content);
  print_items(meter, out, items, content, depth);
  out.append(list ? "]" : items.size() == 1 ? ",)" : ")", content);
}

void print_view(Meter& meter, TextBuilder& out, const Value& v, int depth) {
  const View& view = v.as<View>();
  bool content = view.of.content();
  out.append(fmt::format("{}([", type_name(v)), false);
  print_items(meter, out, elements(meter, v), content, depth);
  out.append("])", false);
}

// What Python prints with an address has none here that means anything.
std::string object_text(const Value& v) {
  switch (v.kind()) {
    case Kind::bound_method: {
      const BoundMethod& m = v.as<BoundMethod>();
      return fmt::format("<built-in method {} of {} object at 0x0>", m.name.str().view(), type_name(m.self));
    }
    case Kind::iterator:
      return fmt::format("<{} object at 0x0>", type_name(v));
    case Kind::range: {
      const Range& r = v.as<Range>();
      std::string step = r.step == 1 ? "" : ", " + integer_text(r.step);
      return fmt::format("range({}, {}{})", integer_text(r.start), integer_text(r.stop), step);
    }
    case Kind::macro:
    case Kind::loop:
      return v.as<Special>().text();
    default:
      return fmt::format("<{} object at 0x0>", type_name(v));
  }
}

}  // namespace

void print_repr(Meter& meter, TextBuilder& out, const Value& v, int depth) {
  meter.step();
  if (depth > kMaxNesting) raise("values are nested more than {} deep", kMaxNesting);
  switch (v.kind()) {
    case Kind::undefined:
      out.append("Undefined", false);
      return;
    case Kind::none:
      out.append("None", v.content());
      return;
    case Kind::boolean:
      out.append(v.boolean() ? "True" : "False", v.content());
      return;
    case Kind::integer:
      out.append(integer_text(v.integer()), v.content());
      return;
    case Kind::real:
      out.append(float_text(v.real()), v.content());
      return;
    case Kind::string:
      if (!v.str().markup()) return print_string_repr(out, v.str());
      out.append("Markup(", false);
      print_string_repr(out, v.str());
      out.append(")", false);
      return;
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
      return print_container(meter, out, v, depth);
    case Kind::view:
      return print_view(meter, out, v, depth);
    case Kind::name_space:
      out.append("<Namespace ", false);
      print_pairs(meter, out, v.as<Namespace>().items, false, depth);
      out.append(">", false);
      return;
    default:
      out.append(object_text(v), false);
      return;
  }
}

void print(Meter& meter, TextBuilder& out, const Value& v) {
  if (v.is(Kind::string))
    out.append(v.str());
  else if (!v.is(Kind::undefined))
    print_repr(meter, out, v);
}

Value to_text(Meter& meter, const Value& v) {
  if (v.is(Kind::string)) return v;
  TextBuilder out(meter);
  print(meter, out, v);
  return out.finish();
}

void print_escaped(Meter& meter, TextBuilder& out, const Value& v) {
  Value text = to_text(meter, v);
  const Str& s = text.str();
  if (s.markup()) return out.append(s);
  size_t plain = 0;
  for (size_t at = 0; at < s.size(); ++at) {
    const char* entity = nullptr;
    switch (s.view()[at]) {
      case '&':
        entity = "&amp;";
        break;
      case '<':
        entity = "&lt;";
        break;
      case '>':
        entity = "&gt;";
        break;
      case '\'':
        entity = "&#39;";
        break;
      case '"':
        entity = "&#34;";
        break;
      default:
        continue;
    }
    out.append(s, plain, at);
    out.append(entity, s.content_at(at));
    plain = at + 1;
  }
  out.append(s, plain, s.size());
}

Value escaped(Meter& meter, const Value& v) {
  TextBuilder out(meter);
  out.set_markup(true);
  print_escaped(meter, out, v);
  return out.finish();
}

}  // namespace tenon::text::jinja
