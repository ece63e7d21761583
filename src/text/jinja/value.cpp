#include "text/jinja/value.h"

#include <algorithm>
#include <functional>

#include "text/jinja/chars.h"
#include "text/jinja/operators.h"

namespace tenon::text::jinja {
namespace {

constexpr size_t kSmallDict = 12;

int depth_of(const Value& v) {
  switch (v.kind()) {
    case Kind::list:
    case Kind::tuple:
      return v.sequence().depth;
    case Kind::dict:
      return v.dict().depth;
    case Kind::view:
      return depth_of(v.as<View>().of) + 1;
    case Kind::bound_method:
      return depth_of(v.as<BoundMethod>().self) + 1;
    default:
      return 0;
  }
}

int checked_depth(int depth) {
  if (depth > kMaxNesting) raise("values are nested more than {} deep", kMaxNesting);
  return depth;
}

size_t mix(size_t a, size_t b) { return (a ^ (b + 0x9E3779B97F4A7C15u + (a << 6) + (a >> 2))); }

}  // namespace

Value Value::undefined(const Value& name, uint8_t owner) {
  Value v(Kind::undefined, name.is(Kind::string) ? reinterpret_cast<uintptr_t>(name.identity()) : 0);
  v.aux_ = owner;
  v.retain();
  return v;
}

std::string_view Value::undefined_name() const {
  return kind_ == Kind::undefined && low_ != 0 ? as<const Str>().view() : std::string_view();
}

bool Str::ascii() const {
  if (ascii_ < 0) {
    ascii_ = is_ascii(bytes_);
    length_ = ascii_ ? bytes_.size() : count_chars(bytes_);
  }
  return ascii_ != 0;
}

size_t Str::length() const { return ascii() ? bytes_.size() : length_; }

bool Str::content_at(size_t byte) const {
  if (marks_.all) return true;
  auto after = std::upper_bound(marks_.spans.begin(), marks_.spans.end(), byte,
                                [](size_t at, const ContentSpan& s) { return at < s.end; });
  return after != marks_.spans.end() && after->begin <= byte;
}

void TextBuilder::mark(size_t begin, size_t end) {
  if (begin == end) return;
  if (!spans_.empty() && spans_.back().end == begin)
    spans_.back().end = end;
  else
    spans_.push_back({begin, end});
}

void TextBuilder::append(std::string_view text, bool content) {
  if (text.size() > kMaxText - bytes_.size()) raise("the text grows beyond {} bytes", kMaxText);
  meter_->step(text.size() / 16);
  if (content) mark(bytes_.size(), bytes_.size() + text.size());
  bytes_.append(text);
}

void TextBuilder::append(const Str& text, size_t begin, size_t end) { append(text.view(), text.marks(), begin, end); }

void TextBuilder::append(std::string_view text, const Marks& marks, size_t begin, size_t end) {
  size_t base = bytes_.size();
  append(text.substr(begin, end - begin), marks.all);
  if (marks.all || marks.spans.empty()) return;
  auto span = std::upper_bound(marks.spans.begin(), marks.spans.end(), begin,
                               [](size_t at, const ContentSpan& s) { return at < s.end; });
  for (; span != marks.spans.end() && span->begin < end; ++span) {
    meter_->step();
    mark(base + std::max(span->begin, begin) - begin, base + std::min(span->end, end) - begin);
  }
}

Value TextBuilder::finish() {
  Marks marks;
  marks.all = spans_.size() == 1 && spans_[0].begin == 0 && spans_[0].end == bytes_.size();
  if (!marks.all) marks.spans = std::move(spans_);
  Value v = make_string(*meter_, std::move(bytes_), std::move(marks), markup_);
  bytes_.clear();
  spans_.clear();
  return v;
}

std::string TextBuilder::take_text(std::vector<ContentSpan>& content) {
  content = std::move(spans_);
  return std::move(bytes_);
}

Value make_string(Meter& meter, std::string bytes, bool content) {
  return make_string(meter, std::move(bytes), Marks{content, {}});
}

Value make_string(Meter& meter, std::string bytes, Marks marks, bool markup) {
  return Value::object(Kind::string, make<Str>(meter, std::move(bytes), std::move(marks), markup).get());
}

Value substring(Meter& meter, const Value& string, size_t begin, size_t end) {
  const Str& s = string.str();
  if (begin == 0 && end == s.size()) return string;
  TextBuilder out(meter);
  out.set_markup(s.markup());
  out.append(s, begin, end);
  return out.finish();
}

std::vector<Value> characters(Meter& meter, const Value& string) {
  const Str& s = string.str();
  std::vector<Value> out;
  out.reserve(s.length());
  for (size_t at = 0; at < s.size();) {
    size_t n = char_at(s.view(), at).bytes;
    out.push_back(make_string(meter, std::string(s.view().substr(at, n)), s.content_at(at)));
    at += n;
  }
  return out;
}

Sequence::Sequence(Meter* meter, std::vector<Value> values) : Object(meter), items(std::move(values)) {
  hold(sizeof(Sequence) + items.capacity() * sizeof(Value));
  for (const Value& v : items) depth = std::max(depth, checked_depth(depth_of(v) + 1));
}

size_t Dict::position(const Value& key, size_t hash) const {
  if (index_.empty()) {
    for (size_t i = 0; i < items.size(); ++i)
      if (equal(items[i].first, key)) return i;
    return items.size();
  }
  auto [begin, end] = index_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (equal(items[it->second].first, key)) return it->second;
  return items.size();
}

void Dict::set(const Value& key, Value value) {
  size_t hash = hash_value(key);
  depth = std::max({depth, checked_depth(depth_of(value) + 1), depth_of(key) + 1});
  size_t at = position(key, hash);
  if (at < items.size()) {
    items[at].second = std::move(value);
    return;
  }
  hold(2 * sizeof(Value) + 48);
  items.emplace_back(key, std::move(value));
  if (!index_.empty()) {
    index_.emplace(hash, static_cast<uint32_t>(at));
  } else if (items.size() > kSmallDict) {
    for (size_t i = 0; i < items.size(); ++i) index_.emplace(hash_value(items[i].first), static_cast<uint32_t>(i));
  }
}

const Value* Dict::find(const Value& key) const {
  size_t hash = hash_value(key);
  size_t at = position(key, hash);
  return at < items.size() ? &items[at].second : nullptr;
}

const Value* Dict::find(std::string_view key) const {
  auto matches = [&](size_t i) { return items[i].first.is(Kind::string) && items[i].first.str().view() == key; };
  if (index_.empty()) {
    for (size_t i = 0; i < items.size(); ++i)
      if (matches(i)) return &items[i].second;
    return nullptr;
  }
  auto [begin, end] = index_.equal_range(std::hash<std::string_view>()(key));
  for (auto it = begin; it != end; ++it)
    if (matches(it->second)) return &items[it->second].second;
  return nullptr;
}

Range::Range(Meter* meter, Integer start_, Integer stop_, Integer step_)
    : Object(meter), start(start_), stop(stop_), step(step_), size(0) {
  hold(sizeof(Range));
  if (step > 0 && start < stop) size = (stop - start - 1) / step + 1;
  if (step < 0 && start > stop) size = (start - stop - 1) / -step + 1;
}

Value* Namespace::find(std::string_view name) {
  for (auto& [key, value] : items)
    if (key.str().view() == name) return &value;
  return nullptr;
}

Value make_list(Meter& meter, std::vector<Value> items, bool content) {
  return Value::object(Kind::list, make<Sequence>(meter, std::move(items)).get()).set_content(content);
}

Value make_tuple(Meter& meter, std::vector<Value> items, bool content) {
  return Value::object(Kind::tuple, make<Sequence>(meter, std::move(items)).get()).set_content(content);
}

Value to_value(const Ref<Dict>& dict, bool content) {
  return Value::object(Kind::dict, dict.get()).set_content(content);
}

size_t hash_value(const Value& v) {
  switch (v.kind()) {
    case Kind::string:
      return std::hash<std::string_view>()(v.str().view());
    case Kind::boolean:
    case Kind::integer:
      return std::hash<double>()(static_cast<double>(v.integer()));
    case Kind::real:
      return std::hash<double>()(v.real());
    case Kind::tuple: {
      size_t h = 7;
      for (const Value& item : v.sequence().items) h = mix(h, hash_value(item));
      return h;
    }
    case Kind::list:
    case Kind::dict:
    case Kind::view:
      raise("unhashable type: '{}'", type_name(v));
    case Kind::none:
      return 3;
    case Kind::undefined:
      return 5;
    case Kind::range:
      return static_cast<size_t>(v.as<Range>().size);
    case Kind::bound_method:
      return hash_value(v.as<BoundMethod>().name);
    default:
      return reinterpret_cast<uintptr_t>(v.identity()) ^ v.aux();
  }
}

const char* type_name(const Value& v) {
  switch (v.kind()) {
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::string:
      return v.str().markup() ? "Markup" : "str";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return "tuple";
    case Kind::dict:
      return "dict";
    case Kind::range:
      return "range";
    case Kind::view: {
      constexpr const char* kNames[] = {"dict_keys", "dict_values", "dict_items"};
      return kNames[static_cast<int>(v.as<View>().kind)];
    }
    case Kind::bound_method:
      return "builtin_function_or_method";
    case Kind::iterator:
      return v.as<Iterator>().name;
    case Kind::name_space:
      return "Namespace";
    case Kind::macro:
      return "Macro";
    case Kind::loop:
      return "LoopContext";
    case Kind::cycler:
      return "Cycler";
    case Kind::joiner:
      return "Joiner";
    case Kind::template_self:
      return "TemplateReference";
    case Kind::function:
      return "function";
  }
  return "object";
}

}  // namespace tenon::text::jinja
