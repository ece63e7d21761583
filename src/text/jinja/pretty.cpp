// pprint: Python's pprint.pformat at its default width.
#include <algorithm>

#include "text/jinja/chars.h"
#include "text/jinja/filter_call.h"

namespace tenon::text::jinja {
namespace {

constexpr size_t kWidth = 80;

using Pairs = std::vector<std::pair<Value, Value>>;

Pairs sorted_pairs(Meter& meter, const Value& dict) {
  Pairs pairs = dict.dict().items;
  meter.step(pairs.size() * 8);
  std::stable_sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) {
    bool comparable =
        (a.first.is(Kind::string) && b.first.is(Kind::string)) || (a.first.is_number() && b.first.is_number());
    return comparable ? compare(a.first, b.first) == -1 : std::string_view(type_name(a.first)) < type_name(b.first);
  });
  return pairs;
}

// Dicts by their keys' order, all the way down.
Value with_sorted_keys(Meter& meter, const Value& v) {
  if (v.is_list_or_tuple()) {
    std::vector<Value> items;
    for (const Value& item : v.sequence().items) items.push_back(with_sorted_keys(meter, item));
    return v.is(Kind::list) ? make_list(meter, std::move(items), v.content())
                            : make_tuple(meter, std::move(items), v.content());
  }
  if (!v.is(Kind::dict)) return v;
  Ref<Dict> dict = make<Dict>(meter);
  for (const auto& [key, value] : sorted_pairs(meter, v)) dict->set(key, with_sorted_keys(meter, value));
  return to_value(dict, v.content());
}

class Pretty {
 public:
  Pretty(Meter& meter, TextBuilder& out) : meter_(meter), out_(out) {}

  // `allowance`: characters that follow on the last line.
  void print(const Value& v, size_t indent, size_t allowance, int level) {
    Value repr = repr_of(v);
    size_t room = indent + allowance < kWidth ? kWidth - indent - allowance : 0;
    bool fits = repr.str().length() <= room;
    if (!fits && v.is(Kind::dict) && !v.dict().items.empty()) return print_dict(v, indent, allowance, level);
    if (!fits && v.is_list_or_tuple() && !v.sequence().items.empty())
      return print_sequence(v, indent, allowance, level);
    if (!fits && v.is(Kind::string) && !v.str().markup()) return print_string(v, indent, allowance, level);
    out_.append(repr.str());
  }

 private:
  Value repr_of(const Value& v) {
    TextBuilder text(meter_);
    print_repr(meter_, text, v);
    return text.finish();
  }

  void new_line(size_t indent) {
    meter_.step(1 + indent / 16);
    out_.append("\n" + std::string(indent, ' '), false);
  }

  void print_dict(const Value& v, size_t indent, size_t allowance, int level) {
    out_.append("{", v.content());
    const auto& items = v.dict().items;
    for (size_t i = 0; i < items.size(); ++i) {
      bool last = i + 1 == items.size();
      Value key = repr_of(items[i].first);
      out_.append(key.str());
      out_.append(": ", v.content());
      print(items[i].second, indent + key.str().length() + 3, last ? allowance + 1 : 1, level + 1);
      if (last) break;
      out_.append(",", v.content());
      new_line(indent + 1);
    }
    out_.append("}", v.content());
  }

  void print_sequence(const Value& v, size_t indent, size_t allowance, int level) {
    bool list = v.is(Kind::list);
    const auto& items = v.sequence().items;
    std::string_view end = list ? "]" : items.size() == 1 ? ",)" : ")";
    out_.append(list ? "[" : "(", v.content());
    for (size_t i = 0; i < items.size(); ++i) {
      bool last = i + 1 == items.size();
      print(items[i], indent + 1, last ? allowance + end.size() : 1, level + 1);
      if (last) break;
      out_.append(",", v.content());
      new_line(indent + 1);
    }
    out_.append(end, v.content());
  }

  // Words with the white space behind them.
  std::vector<Value> words(const Value& line) {
    std::string_view text = line.str().view();
    std::vector<Value> out;
    for (size_t at = 0; at < text.size();) {
      size_t begin = at;
      while (at < text.size() && !is_space(char_at(text, at).code)) at += char_at(text, at).bytes;
      while (at < text.size() && is_space(char_at(text, at).code)) at += char_at(text, at).bytes;
      out.push_back(substring(meter_, line, begin, at));
    }
    return out;
  }

  void print_string(const Value& v, size_t indent, size_t allowance, int level) {
    if (level == 1) {
      ++indent;
      ++allowance;
    }
    size_t width = indent < kWidth ? kWidth - indent : 0, last_width = width > allowance ? width - allowance : 0;
    std::vector<Value> chunks;
    std::string_view text = v.str().view();
    for (size_t begin = 0; begin < text.size();) {
      size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
      bool last = end == text.size();
      Value line = substring(meter_, v, begin, end), repr = repr_of(line);
      if (repr.str().length() <= (last ? last_width : width))
        chunks.push_back(repr);
      else
        fold(words(line), width, last ? last_width : width, chunks);
      begin = end;
    }
    if (chunks.size() == 1) return out_.append(chunks[0].str());
    if (level == 1) out_.append("(", false);
    for (size_t i = 0; i < chunks.size(); ++i) {
      if (i > 0) new_line(indent);
      out_.append(chunks[i].str());
    }
    if (level == 1) out_.append(")", false);
  }

  void fold(const std::vector<Value>& parts, size_t width, size_t last_width, std::vector<Value>& chunks) {
    Value current = make_string(meter_, "", false);
    for (size_t i = 0; i < parts.size(); ++i) {
      Value candidate = add(meter_, current, parts[i]);
      bool fits = repr_of(candidate).str().length() <= (i + 1 == parts.size() ? last_width : width);
      if (!fits && current.str().size() > 0) chunks.push_back(repr_of(current));
      current = fits ? candidate : parts[i];
    }
    if (current.str().size() > 0) chunks.push_back(repr_of(current));
  }

  Meter& meter_;
  TextBuilder& out_;
};

Value pprint(const FilterCall& c) {
  c.bind({});
  TextBuilder out(c.meter);
  Pretty(c.meter, out).print(with_sorted_keys(c.meter, c.v), 0, 0, 1);
  return out.finish();
}

}  // namespace

const std::vector<FilterEntry>& pretty_filters() {
  static const std::vector<FilterEntry> filters = {{"pprint", pprint}};
  return filters;
}

}  // namespace tenon::text::jinja
