// Methods of Python's str. Text keeps its marks: what is cut from content stays content, what a template inserts is the
// template's.
#include <algorithm>

#include "text/jinja/chars.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/string_cases.h"
#include "text/jinja/text_format.h"

namespace tenon::text::jinja {
namespace {

struct Call {
  Meter& meter;
  const Value& self;
  const Args& args;
  std::string_view name;

  const Str& str() const { return self.str(); }
  std::string_view text() const { return self.str().view(); }
  Value cut(size_t begin, size_t end) const { return substring(meter, self, begin, end); }
  Bound bind(std::initializer_list<const char*> names, size_t required = 0) const {
    return Bound(args, name, names, required);
  }
};

// ---- searching

// The bytes that str methods' `start` and `end` arguments (characters, may be negative) leave; nullopt: start is beyond
// the end.
std::optional<std::pair<size_t, size_t>> window(const Call& c, const Bound& a) {
  Integer size = static_cast<Integer>(c.str().length());
  auto place = [&](size_t i, Integer otherwise) {
    if (!a.given(i)) return otherwise;
    Integer v = a.integer(i, 0);
    if (v < 0) v = std::max<Integer>(v + size, 0);
    return v;
  };
  Integer start = place(1, 0), stop = std::min(place(2, size), size);
  if (start > size || start > stop) return std::nullopt;
  auto byte = [&](Integer chars) {
    if (c.str().ascii()) return static_cast<size_t>(chars);
    size_t at = 0;
    for (Integer i = 0; i < chars; ++i) at += char_at(c.text(), at).bytes;
    return at;
  };
  return std::pair(byte(start), byte(stop));
}

Integer find_char(const Call& c, bool last) {
  Bound a = c.bind({"sub", "start", "end"}, 1);
  const Str& wanted = a.string(0);
  auto range = window(c, a);
  c.meter.step(c.text().size() / 16);
  if (!range) return -1;
  std::string_view part = c.text().substr(range->first, range->second - range->first);
  size_t at = last ? part.rfind(wanted.view()) : part.find(wanted.view());
  return at == std::string_view::npos ? Integer{-1}
                                      : static_cast<Integer>(count_chars(c.text().substr(0, range->first + at)));
}

Value find(const Call& c) { return Value::of(find_char(c, c.name == "rfind")); }

Value index(const Call& c) {
  Integer at = find_char(c, c.name == "rindex");
  if (at < 0) raise("substring not found");
  return Value::of(at);
}

Value count(const Call& c) {
  Bound a = c.bind({"sub", "start", "end"}, 1);
  const Str& wanted = a.string(0);
  auto range = window(c, a);
  if (!range) return Value::of(0);
  std::string_view part = c.text().substr(range->first, range->second - range->first);
  c.meter.step(part.size() / 16);
  if (wanted.size() == 0) return Value::of(count_chars(part) + 1);
  size_t n = 0;
  for (size_t at = part.find(wanted.view()); at != std::string_view::npos;
       at = part.find(wanted.view(), at + wanted.size()))
    ++n;
  return Value::of(n);
}

Value starts_or_ends(const Call& c) {
  Bound a = c.bind({"prefix", "start", "end"}, 1);
  auto range = window(c, a);
  bool ends = c.name == "endswith";
  auto matches = [&](const Value& v) {
    if (!v.is(Kind::string)) {
      refuse_undefined(v);
      raise("{} first arg must be str or a tuple of str, not {}", c.name, type_name(v));
    }
    if (!range) return false;
    std::string_view part = c.text().substr(range->first, range->second - range->first);
    return ends ? part.ends_with(v.str().view()) : part.starts_with(v.str().view());
  };
  if (!a[0].is(Kind::tuple)) return Value::of(matches(a[0]));
  const auto& options = a[0].sequence().items;
  return Value::of(std::any_of(options.begin(), options.end(), matches));
}

// ---- cutting

Value strip(const Call& c) {
  Bound a = c.bind({"chars"});
  std::string_view text = c.text();
  bool left = c.name != "rstrip", right = c.name != "lstrip";
  const Str* chars = a.given(0) ? &a.string(0) : nullptr;
  auto drops = [&](size_t at, size_t bytes) {
    if (!chars) return is_space(char_at(text, at).code);
    for (size_t i = 0; i < chars->size(); i += char_at(chars->view(), i).bytes)
      if (chars->view().substr(i, char_at(chars->view(), i).bytes) == text.substr(at, bytes)) return true;
    return false;
  };
  size_t begin = 0, end = text.size();
  while (left && begin < end) {
    size_t bytes = char_at(text, begin).bytes;
    if (!drops(begin, bytes)) break;
    begin += bytes;
    c.meter.step();
  }
  while (right && end > begin) {
    size_t start = char_start_before(text, end);
    if (!drops(start, end - start)) break;
    end = start;
    c.meter.step();
  }
  return c.cut(begin, end);
}

Value remove_affix(const Call& c) {
  bool prefix = c.name == "removeprefix";
  Bound a = c.bind({"affix"}, 1);
  const Str& affix = a.string(0);
  size_t n = affix.size(), size = c.text().size();
  if (n == 0) return c.self;
  if (prefix) return c.text().starts_with(affix.view()) ? c.cut(n, size) : c.self;
  return c.text().ends_with(affix.view()) ? c.cut(0, size - n) : c.self;
}

void split_on_space(const Call& c, Integer most, bool from_right, std::vector<Value>& out) {
  std::string_view text = c.text();
  size_t begin = 0, end = text.size();
  auto space = [&](size_t at) { return is_space(char_at(text, at).code); };
  auto skip_left = [&] {
    while (begin < end && space(begin)) begin += char_at(text, begin).bytes;
  };
  auto skip_right = [&] {
    while (end > begin && space(char_start_before(text, end))) end = char_start_before(text, end);
  };
  from_right ? skip_right() : skip_left();
  for (; begin < end; --most) {
    c.meter.step();
    if (most == 0) {
      out.push_back(c.cut(begin, end));
      break;
    }
    if (from_right) {
      size_t word_end = end;
      while (end > begin && !space(char_start_before(text, end))) end = char_start_before(text, end);
      out.push_back(c.cut(end, word_end));
      skip_right();
    } else {
      size_t word = begin;
      while (begin < end && !space(begin)) begin += char_at(text, begin).bytes;
      out.push_back(c.cut(word, begin));
      skip_left();
    }
  }
}

void split_on(const Call& c, std::string_view separator, Integer most, bool from_right, std::vector<Value>& out) {
  if (separator.empty()) raise("empty separator");
  std::string_view text = c.text();
  size_t begin = 0, end = text.size();
  for (; most != 0; --most) {
    std::string_view rest = text.substr(begin, end - begin);
    size_t at = from_right ? rest.rfind(separator) : rest.find(separator);
    c.meter.step();
    if (at == std::string_view::npos) break;
    at += begin;
    if (from_right) {
      out.push_back(c.cut(at + separator.size(), end));
      end = at;
    } else {
      out.push_back(c.cut(begin, at));
      begin = at + separator.size();
    }
  }
  out.push_back(c.cut(begin, end));
}

Value split(const Call& c) {
  Bound a = c.bind({"sep", "maxsplit"});
  bool from_right = c.name == "rsplit";
  Integer most = a.integer(1, -1);
  c.meter.step(c.text().size() / 16);
  std::vector<Value> out;
  if (const Value* separator = a.given(0)) {
    refuse_undefined(*separator);
    split_on(c, a.string(0).view(), most, from_right, out);
  } else {
    split_on_space(c, most, from_right, out);
  }
  if (from_right) std::reverse(out.begin(), out.end());
  return make_list(c.meter, std::move(out), c.str().marks().all);
}

size_t line_end_bytes(std::string_view text, size_t at) {
  Char ch = char_at(text, at);
  switch (ch.code) {
    case '\r':
      return at + 1 < text.size() && text[at + 1] == '\n' ? 2 : 1;
    case '\n':
    case 0x0B:
    case 0x0C:
    case 0x1C:
    case 0x1D:
    case 0x1E:
    case 0x85:
    case 0x2028:
    case 0x2029:
      return ch.bytes;
    default:
      return 0;
  }
}

Value split_lines(const Call& c) {
  Bound a = c.bind({"keepends"});
  bool keep = a.flag(0, false);
  std::string_view text = c.text();
  std::vector<Value> out;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    size_t n = line_end_bytes(text, at);
    if (n > 0) {
      out.push_back(c.cut(begin, keep ? at + n : at));
      begin = at + n;
    }
    at += n > 0 ? n : char_at(text, at).bytes;
  }
  if (begin < text.size()) out.push_back(c.cut(begin, text.size()));
  return make_list(c.meter, std::move(out), c.str().marks().all);
}

Value partition(const Call& c) {
  Bound a = c.bind({"sep"}, 1);
  const Str& separator = a.string(0);
  if (separator.size() == 0) raise("empty separator");
  bool right = c.name == "rpartition";
  size_t at = right ? c.text().rfind(separator.view()) : c.text().find(separator.view());
  Value nothing = c.cut(0, 0);
  if (at == std::string_view::npos)
    return right ? make_tuple(c.meter, {nothing, nothing, c.self}) : make_tuple(c.meter, {c.self, nothing, nothing});
  size_t after = at + separator.size();
  return make_tuple(c.meter, {c.cut(0, at), c.cut(at, after), c.cut(after, c.text().size())});
}

// ---- building

Value join(const Call& c) {
  Bound a = c.bind({"iterable"}, 1);
  TextBuilder out(c.meter);
  bool markup = c.str().markup();
  out.set_markup(markup);
  size_t i = 0;
  for (const Value& v : elements(c.meter, a[0])) {
    if (i > 0) out.append(c.str());
    if (!v.is(Kind::string) && !markup) raise("sequence item {}: expected str instance, {} found", i, type_name(v));
    if (markup)
      print_escaped(c.meter, out, v);
    else
      out.append(v.str());
    ++i;
  }
  return out.finish();
}

Value replace(const Call& c) {
  Bound a = c.bind({"old", "new", "count"}, 2);
  refuse_undefined(a[0]);
  return replace_text(c.meter, c.self, a.string(0), a.string(1), a.integer(2, -1));
}

Value justify(const Call& c) {
  Bound a = c.bind({"width", "fillchar"}, 1);
  std::string_view fill = a.has(1) ? a.string(1).view() : " ";
  if (count_chars(fill) != 1) raise("The fill character must be exactly one character long");
  TextBuilder out(c.meter);
  out.set_markup(c.str().markup());
  bool fill_content = a.has(1) && !a.string(1).marks().none();
  if (c.name != "center") {
    pad(c.meter, out, c.self, a.integer(0, 0), fill, c.name == "ljust" ? '<' : '>', fill_content);
    return out.finish();
  }
  center_text(c.meter, out, c.self, a.integer(0, 0), fill, fill_content);
  return out.finish();
}

Value zfill(const Call& c) {
  Bound a = c.bind({"width"}, 1);
  TextBuilder out(c.meter);
  bool sign = c.text().starts_with('-') || c.text().starts_with('+');
  if (sign) out.append(c.str(), 0, 1);
  pad(c.meter, out, c.cut(sign ? 1 : 0, c.text().size()), a.integer(0, 0) - (sign ? 1 : 0), "0", '>');
  return out.finish();
}

Value expand_tabs(const Call& c) {
  Bound a = c.bind({"tabsize"});
  Integer size = a.integer(0, 8);
  if (size > kMaxWidth) raise("a width is beyond {}", static_cast<int64_t>(kMaxWidth));
  TextBuilder out(c.meter);
  Integer column = 0;
  for (size_t at = 0; at < c.text().size();) {
    size_t n = char_at(c.text(), at).bytes;
    char ch = c.text()[at];
    if (ch == '\t') {
      Integer blanks = size > 0 ? size - column % size : 0;
      for (Integer i = 0; i < blanks; ++i) out.append(" ", c.str().content_at(at));
      column += blanks;
    } else {
      out.append(c.str(), at, at + n);
      column = ch == '\n' || ch == '\r' ? 0 : column + 1;
    }
    at += n;
  }
  return out.finish();
}

Value format(const Call& c) { return format_text(c.meter, c.self, c.args); }

Value format_map(const Call& c) {
  Bound a = c.bind({"mapping"}, 1);
  if (!a[0].is(Kind::dict)) raise("format_map() takes a mapping");
  Args fields;
  for (const auto& [key, value] : a[0].dict().items)
    if (key.is(Kind::string)) fields.named.emplace_back(key, value);
  return format_text(c.meter, c.self, fields);
}

// ---- cases and properties

Value change_case(const Call& c) {
  c.bind({});
  if (c.name == "upper") return upper_case(c.meter, c.self);
  if (c.name == "lower") return lower_case(c.meter, c.self);
  if (c.name == "casefold") return fold_case(c.meter, c.self);
  if (c.name == "title") return title_case(c.meter, c.self);
  if (c.name == "capitalize") return capitalized(c.meter, c.self);
  return swapped_case(c.meter, c.self);
}

Value is_all(const Call& c) {
  c.bind({});
  return Value::of(has_property(c.text(), c.name));
}

struct Entry {
  std::string_view name;
  Value (*run)(const Call&);
};

// Sorted.
constexpr Entry kStringMethods[] = {
    {"capitalize", change_case},
    {"casefold", change_case},
    {"center", justify},
    {"count", count},
    {"endswith", starts_or_ends},
    {"expandtabs", expand_tabs},
    {"find", find},
    {"format", format},
    {"format_map", format_map},
    {"index", index},
    {"isalnum", is_all},
    {"isalpha", is_all},
    {"isascii", is_all},
    {"isdecimal", is_all},
    {"isdigit", is_all},
    {"isidentifier", is_all},
    {"islower", is_all},
    {"isnumeric", is_all},
    {"isprintable", is_all},
    {"isspace", is_all},
    {"istitle", is_all},
    {"isupper", is_all},
    {"join", join},
    {"ljust", justify},
    {"lower", change_case},
    {"lstrip", strip},
    {"partition", partition},
    {"removeprefix", remove_affix},
    {"removesuffix", remove_affix},
    {"replace", replace},
    {"rfind", find},
    {"rindex", index},
    {"rjust", justify},
    {"rpartition", partition},
    {"rsplit", split},
    {"rstrip", strip},
    {"split", split},
    {"splitlines", split_lines},
    {"startswith", starts_or_ends},
    {"strip", strip},
    {"swapcase", change_case},
    {"title", change_case},
    {"upper", change_case},
    {"zfill", zfill},
};

const Entry* look_up(std::string_view name) {
  const Entry* e = std::lower_bound(std::begin(kStringMethods), std::end(kStringMethods), name,
                                    [](const Entry& a, std::string_view b) { return a.name < b; });
  return e != std::end(kStringMethods) && e->name == name ? e : nullptr;
}

}  // namespace

bool is_string_method(std::string_view name) { return look_up(name) != nullptr; }

Value call_string_method(Meter& meter, const Value& self, std::string_view name, const Args& args) {
  meter.step(1 + self.str().size() / 64);
  return look_up(name)->run({meter, self, args, name});
}

}  // namespace tenon::text::jinja
