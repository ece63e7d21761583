// Filters on text.
#include <algorithm>
#include <cmath>

#include "text/jinja/chars.h"
#include "text/jinja/filter_call.h"
#include "text/jinja/numbers.h"
#include "text/jinja/percent_format.h"
#include "text/jinja/string_cases.h"
#include "text/jinja/text_format.h"

namespace tenon::text::jinja {
namespace {

// Most filters take any value as text; these do not.
void require_string(const FilterCall& c) {
  if (c.v.is(Kind::string)) return;
  refuse_undefined(c.v);
  raise("{} wants a string, not {}", c.name, type_name(c.v));
}

Value upper(const FilterCall& c) {
  c.bind({});
  return upper_case(c.meter, c.text());
}

Value lower(const FilterCall& c) {
  c.bind({});
  return lower_case(c.meter, c.text());
}

Value capitalize(const FilterCall& c) {
  c.bind({});
  return capitalized(c.meter, c.text());
}

// Jinja's title: a word starts after white space, "-", an opening bracket or "<"; the rest is lower case.
Value title(const FilterCall& c) {
  c.bind({});
  Value text = c.text();
  const Str& s = text.str();
  TextBuilder out(c.meter);
  out.set_markup(s.markup());
  size_t begin = 0;
  auto word = [&](size_t end) {
    if (begin == end) return;
    size_t first = begin + char_at(s.view(), begin).bytes;
    out.append(upper_case(c.meter, substring(c.meter, text, begin, first)).str());
    out.append(lower_case(c.meter, substring(c.meter, text, first, end)).str());
  };
  auto separates = [](char32_t ch) {
    return is_space(ch) || ch == '-' || ch == '(' || ch == '{' || ch == '[' || ch == '<';
  };
  for (size_t at = 0; at < s.size();) {
    Char ch = char_at(s.view(), at);
    if (separates(ch.code)) {
      word(at);
      out.append(s, at, at + ch.bytes);
      begin = at + ch.bytes;
    }
    at += ch.bytes;
  }
  word(s.size());
  return out.finish();
}

Value trim(const FilterCall& c) {
  Bound a = c.bind({"chars"});
  if (a.given(0)) return c.method("strip", {a[0]});
  return c.method("strip");
}

Value replace(const FilterCall& c) {
  Bound a = c.bind({"old", "new", "count"}, 2);
  Value from = to_text(c.meter, a[0]), to = to_text(c.meter, a[1]);
  Integer count = a.given(2) ? a.integer(2, -1) : Integer{-1};
  return replace_text(c.meter, c.text(), from.str(), to.str(), count);
}

Value center(const FilterCall& c) {
  Bound a = c.bind({"width"});
  Value text = c.text();
  TextBuilder out(c.meter);
  out.set_markup(text.str().markup());
  center_text(c.meter, out, text, a.integer(0, 80), " ", false);
  return out.finish();
}

Value format(const FilterCall& c) {
  Value text = c.text();
  if (!c.args.positional.empty() && !c.args.named.empty())
    raise("format takes positional or keyword arguments, not both");
  if (c.args.named.empty()) return percent_format(c.meter, text, make_tuple(c.meter, c.args.positional));
  Ref<Dict> values = make<Dict>(c.meter);
  for (const auto& [key, value] : c.args.named) values->set(key, value);
  return percent_format(c.meter, text, to_value(values));
}

std::vector<std::pair<size_t, size_t>> lines_of(std::string_view text) {
  std::vector<std::pair<size_t, size_t>> out;
  size_t begin = 0;
  while (begin <= text.size()) {
    size_t end = std::min(text.find('\n', begin), text.size());
    out.emplace_back(begin, end);
    begin = end + 1;
  }
  return out;
}

Value indent(const FilterCall& c) {
  Bound a = c.bind({"width", "first", "blank"});
  Value by;
  if (a.has(0) && a[0].is(Kind::string)) {
    by = a[0];
  } else {
    Integer width = a.integer(0, 4);
    if (width > kMaxWidth) raise("a width is beyond {}", static_cast<int64_t>(kMaxWidth));
    by = c.string(std::string(static_cast<size_t>(std::max<Integer>(width, 0)), ' '));
  }
  bool first = a.flag(1, false), blank = a.flag(2, false);
  require_string(c);
  Value text = c.text();
  const Str& s = text.str();
  TextBuilder out(c.meter);
  out.set_markup(s.markup());
  bool is_first = true;
  for (auto [begin, end] : lines_of(s.view())) {
    if (!is_first) out.append("\n", begin > 0 && s.content_at(begin - 1));
    bool indents = is_first ? first : (blank || begin != end);
    if (indents) out.append(by.str());
    out.append(s, begin, end);
    is_first = false;
  }
  return out.finish();
}

Value truncate(const FilterCall& c) {
  Bound a = c.bind({"length", "killwords", "end", "leeway"});
  Integer length = a.integer(0, 255), leeway = a.given(3) ? a.integer(3, 5) : Integer{5};
  Value end = a.has(2) ? to_text(c.meter, a[2]) : c.string("...");
  if (!c.v.is(Kind::string)) {
    if (jinja::length(c.v) <= length + leeway) return c.v;
    require_string(c);
  }
  Value text = c.text();
  Integer end_length = static_cast<Integer>(end.str().length());
  if (length < end_length) raise("truncate: expected length >= {}", static_cast<int64_t>(end_length));
  if (leeway < 0) raise("truncate: expected leeway >= 0");
  if (static_cast<Integer>(text.str().length()) <= length + leeway) return text;
  Value cut = slice(c.meter, text, Value::none(), Value::of(length - end_length), Value::none());
  if (!a.flag(1, false)) {
    size_t blank = cut.str().view().rfind(' ');
    if (blank != std::string_view::npos) cut = substring(c.meter, cut, 0, blank);
  }
  return add(c.meter, cut, end);
}

Value wordcount(const FilterCall& c) {
  c.bind({});
  Value text = c.text();
  size_t n = 0;
  bool in_word = false;
  std::string_view s = text.str().view();
  for (size_t at = 0; at < s.size();) {
    Char ch = char_at(s, at);
    bool word = ch.code == '_' || kAlpha.has(ch.code) || kNumeric.has(ch.code);
    n += word && !in_word;
    in_word = word;
    at += ch.bytes;
  }
  return Value::of(n);
}

// textwrap.wrap of one line, without expanding tabs or changing white space.
class Wrapper {
 public:
  Wrapper(Meter& meter, const Value& line, size_t width, bool break_long, bool break_hyphens)
      : meter_(meter), line_(line), width_(width), break_long_(break_long), break_hyphens_(break_hyphens) {
    chunks();
  }

  std::vector<Value> run() {
    size_t next = 0;
    while (next < chunks_.size()) {
      if (!out_.empty() && blank(chunks_[next])) ++next;
      size_t first = next, used = 0;
      while (next < chunks_.size() && used + width_of(chunks_[next]) <= width_) used += width_of(chunks_[next++]);
      size_t begin = first < chunks_.size() ? chunks_[first].first : 0,
             end = next > first ? chunks_[next - 1].second : begin;
      if (next < chunks_.size() && width_of(chunks_[next]) > width_) end = long_word(next, used, begin, end);
      size_t last = next;
      while (last > first && end == chunks_[last - 1].second && blank(chunks_[last - 1])) end = chunks_[--last].first;
      if (end > begin) out_.push_back(substring(meter_, line_, begin, end));
      meter_.step();
    }
    return std::move(out_);
  }

 private:
  using Chunk = std::pair<size_t, size_t>;
  std::string_view view(Chunk c) const { return line_.str().view().substr(c.first, c.second - c.first); }
  bool blank(Chunk c) const { return strip_left(view(c)).empty(); }
  size_t width_of(Chunk c) const { return count_chars(view(c)); }

  void chunks() {
    std::string_view s = line_.str().view();
    for (size_t at = 0; at < s.size();) {
      size_t begin = at;
      bool space = is_space(char_at(s, at).code);
      while (at < s.size() && is_space(char_at(s, at).code) == space) {
        size_t n = char_at(s, at).bytes;
        bool hyphen = s[at] == '-' && break_hyphens_ && at > begin && at + 1 < s.size() &&
                      kAlpha.has(char_at(s, char_start_before(s, at)).code) && kAlpha.has(char_at(s, at + 1).code);
        at += n;
        if (hyphen) break;
      }
      chunks_.emplace_back(begin, at);
    }
  }

  // A word longer than a line: what is left of the line is filled with it, or it stands alone.
  size_t long_word(size_t& next, size_t used, size_t& begin, size_t end) {
    Chunk& chunk = chunks_[next];
    if (used == 0) begin = chunk.first;
    if (!break_long_) {
      if (used > 0) return end;
      ++next;
      return chunk.second;
    }
    size_t room = width_ - used, at = chunk.first;
    for (size_t i = 0; i < std::max<size_t>(room, 1) && at < chunk.second; ++i)
      at += char_at(line_.str().view(), at).bytes;
    if (room == 0 && used > 0) return end;
    chunk.first = at;
    if (chunk.first == chunk.second) ++next;
    return at;
  }

  Meter& meter_;
  const Value& line_;
  size_t width_;
  bool break_long_, break_hyphens_;
  std::vector<Chunk> chunks_;
  std::vector<Value> out_;
};

Value wordwrap(const FilterCall& c) {
  require_string(c);
  Bound a = c.bind({"width", "break_long_words", "wrapstring", "break_on_hyphens"});
  Integer width = a.integer(0, 79);
  if (width <= 0 || width > kMaxWidth) raise("wordwrap: invalid width");
  Value text = c.text(), wrap = a.given(2) ? to_text(c.meter, a[2]) : c.string("\n");
  TextBuilder out(c.meter);
  bool first_line = true;
  Value lines = c.method("splitlines");
  for (const Value& line : lines.sequence().items) {
    if (!first_line) out.append(wrap.str());
    first_line = false;
    bool first = true;
    for (const Value& part :
         Wrapper(c.meter, line, static_cast<size_t>(width), a.flag(1, true), a.flag(3, true)).run()) {
      if (!first) out.append(wrap.str());
      first = false;
      out.append(part.str());
    }
  }
  return out.finish();
}

Value escape(const FilterCall& c) {
  c.bind({});
  return escaped(c.meter, c.v);
}

Value force_escape(const FilterCall& c) {
  c.bind({});
  TextBuilder plain(c.meter);
  print(c.meter, plain, c.v);
  return escaped(c.meter, plain.finish());
}

Value safe(const FilterCall& c) {
  c.bind({});
  TextBuilder out(c.meter);
  out.set_markup(true);
  print(c.meter, out, c.v);
  return out.finish();
}

Value string(const FilterCall& c) {
  c.bind({});
  return c.text();
}

// Comments and tags dropped, white space made single blanks, the common entities read.
Value striptags(const FilterCall& c) {
  c.bind({});
  Value text = c.text();
  const Str& s = text.str();
  TextBuilder kept(c.meter);
  for (size_t at = 0; at < s.size();) {
    std::string_view rest = s.view().substr(at);
    size_t end = rest.starts_with("<!--") ? rest.find("-->") : rest[0] == '<' ? rest.find('>') : 0;
    if (rest[0] == '<' && end != std::string_view::npos) {
      at += end + (rest.starts_with("<!--") ? 3 : 1);
      continue;
    }
    size_t next = std::min(s.view().find('<', at + 1), s.size());
    kept.append(s, at, next);
    at = next;
    c.meter.step();
  }
  Value words = FilterCall{c.evaluator, c.meter, c.name, kept.finish(), c.args}.method("split");
  TextBuilder out(c.meter);
  for (size_t i = 0; i < words.sequence().items.size(); ++i) {
    if (i > 0) out.append(" ", false);
    out.append(words.sequence().items[i].str());
  }
  Value plain = out.finish();
  static constexpr std::pair<const char*, const char*> kEntities[] = {{"&lt;", "<"},   {"&gt;", ">"},  {"&quot;", "\""},
                                                                      {"&#34;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}};
  for (const auto& [entity, character] : kEntities)
    plain = replace_text(c.meter, plain, c.string(entity).str(),
                         make_string(c.meter, character, plain.str().marks().all).str(), -1);
  return plain;
}

void quote_url(const FilterCall& c, TextBuilder& out, const Value& v, bool query) {
  Value text = to_text(c.meter, v);
  const Str& s = text.str();
  for (size_t at = 0; at < s.size(); ++at) {
    char ch = s.view()[at];
    bool plain = (ch >= '0' && ch <= '9') || (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
                 std::string_view("_.-~").find(ch) != std::string_view::npos || (ch == '/' && !query);
    if (plain)
      out.append(s, at, at + 1);
    else if (ch == ' ' && query)
      out.append("+", s.content_at(at));
    else
      out.append(fmt::format("%{:02X}", static_cast<uint8_t>(ch)), s.content_at(at));
  }
}

Value urlencode(const FilterCall& c) {
  c.bind({});
  TextBuilder out(c.meter);
  if (c.v.is(Kind::string) || !is_iterable(c.v)) {
    quote_url(c, out, c.v, false);
    return out.finish();
  }
  std::vector<std::pair<Value, Value>> pairs;
  if (c.v.is(Kind::dict)) {
    pairs = c.v.dict().items;
  } else {
    for (const Value& pair : elements(c.meter, c.v)) {
      std::vector<Value> parts = elements(c.meter, pair);
      if (parts.size() != 2) raise("urlencode wants pairs");
      pairs.emplace_back(parts[0], parts[1]);
    }
  }
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (i > 0) out.append("&", false);
    quote_url(c, out, pairs[i].first, true);
    out.append("=", false);
    quote_url(c, out, pairs[i].second, true);
  }
  return out.finish();
}

Value filesizeformat(const FilterCall& c) {
  Bound a = c.bind({"binary"});
  bool binary = a.flag(0, false);
  auto number = c.v.is_number() ? std::optional<double>(to_double(c.v)) : parse_float(c.text().str().view());
  if (!number) raise("filesizeformat wants a number");
  double base = binary ? 1024 : 1000, size = *number;
  if (size == 1) return c.string("1 Byte");
  if (size < base) return c.string(fixed_text(size, 0, 'f') + " Bytes");
  double unit = base;
  static constexpr const char* kDecimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
  static constexpr const char* kBinary[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
  size_t i = 0;
  while (i < 7 && size >= unit * base) {
    unit *= base;
    ++i;
  }
  return make_string(c.meter, fixed_text(size / unit, 1, 'f') + " " + (binary ? kBinary : kDecimal)[i], c.v.content());
}

Value xmlattr(const FilterCall& c) {
  Bound a = c.bind({"autospace"});
  if (!c.v.is(Kind::dict)) raise("xmlattr wants a mapping");
  TextBuilder out(c.meter);
  out.set_markup(c.evaluator.autoescape());
  bool first = true;
  for (const auto& [key, value] : c.v.dict().items) {
    if (value.is(Kind::none) || value.is(Kind::undefined)) continue;
    Value name = to_text(c.meter, key);
    if (name.str().view().find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos)
      raise("invalid character in an attribute's name");
    if (!first || a.flag(0, true)) out.append(" ", false);
    first = false;
    print_escaped(c.meter, out, name);
    out.append("=\"", false);
    print_escaped(c.meter, out, value);
    out.append("\"", false);
  }
  return out.finish();
}

}  // namespace

const std::vector<FilterEntry>& text_filters() {
  static const std::vector<FilterEntry> filters = {
      {"capitalize", capitalize},
      {"center", center},
      {"e", escape},
      {"escape", escape},
      {"filesizeformat", filesizeformat},
      {"forceescape", force_escape},
      {"format", format},
      {"indent", indent},
      {"lower", lower},
      {"replace", replace},
      {"safe", safe},
      {"string", string},
      {"striptags", striptags},
      {"title", title},
      {"trim", trim},
      {"truncate", truncate},
      {"upper", upper},
      {"urlencode", urlencode},
      {"wordcount", wordcount},
      {"wordwrap", wordwrap},
      {"xmlattr", xmlattr},
  };
  return filters;
}

}  // namespace tenon::text::jinja
