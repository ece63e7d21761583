// Python values as templates see them. Strings know which of their bytes came from content (messages, tools, documents,
// kwargs) and which from the template; numbers and containers know whether they as a whole did. Values are immutable,
// apart from namespaces and iterators.
#pragma once
#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/jinja/meter.h"
#include "text/tokenizer.h"

namespace tenon::text::jinja {

__extension__ typedef __int128 Integer;
__extension__ typedef unsigned __int128 UnsignedInteger;

enum class Kind : uint8_t {
  // scalars
  undefined,
  none,
  boolean,
  integer,
  real,
  // counted objects; they hold no cycles
  string,
  list,
  tuple,
  dict,
  range,
  view,
  bound_method,
  // objects of the rendering's arena
  iterator,
  name_space,
  macro,
  loop,
  cycler,
  joiner,
  template_self,
  // a global function
  function,
};

// Which bytes of a string are content: all of them, or those in spans (in order, apart, not empty).
struct Marks {
  bool all = false;
  std::vector<ContentSpan> spans;
  bool none() const { return !all && spans.empty(); }
};

class Object {
 public:
  explicit Object(Meter* meter) : meter_(meter) {}
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() {
    if (meter_) meter_->release(held_);
  }
  // Objects without a meter are owned by a program or an arena, the others by the values that point to them.
  void retain() const {
    if (meter_) ++references_;
  }
  void release() const {
    if (meter_ && --references_ == 0) delete this;
  }
  void hold(size_t bytes) {
    if (!meter_) return;
    meter_->hold(bytes);
    held_ += bytes;
  }

 private:
  Meter* meter_;
  size_t held_ = 0;
  mutable uint32_t references_ = 0;
};

template <class T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* object) : object_(object) { object_->retain(); }
  Ref(const Ref& other) : object_(other.object_) {
    if (object_) object_->retain();
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_) object_->release();
  }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  T* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

class Str;
class Sequence;
class Dict;
class Range;
class View;
class BoundMethod;

class Value {
 public:
  Value() = default;  // undefined
  Value(const Value& other)
      : low_(other.low_), high_(other.high_), kind_(other.kind_), content_(other.content_), aux_(other.aux_) {
    retain();
  }
  Value(Value&& other) noexcept
      : low_(other.low_), high_(other.high_), kind_(other.kind_), content_(other.content_), aux_(other.aux_) {
    other.kind_ = Kind::none;
  }
  Value& operator=(const Value& other) {
    Value copy(other);
    swap(copy);
    return *this;
  }
  Value& operator=(Value&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Value() { release(); }

  static Value none() { return Value(Kind::none); }
  static Value of(bool b) { return Value(Kind::boolean, b); }
  static Value of(Integer i) {
    Value v(Kind::integer, static_cast<uint64_t>(i));
    v.high_ = static_cast<uint64_t>(i >> 64);
    return v;
  }
  static Value of(int i) { return of(static_cast<Integer>(i)); }
  static Value of(size_t i) { return of(static_cast<Integer>(i)); }
  static Value of(double d) { return Value(Kind::real, std::bit_cast<uint64_t>(d)); }
  // Also how objects of the arena become values.
  static Value object(Kind kind, const Object* object, uint8_t aux = 0) {
    Value v(kind, reinterpret_cast<uintptr_t>(object));
    v.aux_ = aux;
    v.retain();
    return v;
  }
  static Value function(uint8_t id) {
    Value v(Kind::function);
    v.aux_ = id;
    return v;
  }
  // `name` (a string or undefined) is what was looked for, `owner` where; for messages.
  static Value undefined(const Value& name, uint8_t owner = kVariable);
  static Value undefined() { return Value(); }
  static constexpr uint8_t kVariable = 255,
                           kUnsafe = 128;  // owner: a Kind, with kUnsafe for a method that the sandbox forbids

  bool unsafe() const { return kind_ == Kind::undefined && aux_ != kVariable && (aux_ & kUnsafe) != 0; }
  std::string_view undefined_name() const;  // "": unknown

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool boolean() const { return low_ != 0; }
  Integer integer() const {  // of booleans, too
    return static_cast<Integer>((static_cast<UnsignedInteger>(high_) << 64) | low_);
  }
  double real() const { return std::bit_cast<double>(low_); }
  uint8_t aux() const { return aux_; }
  bool content() const { return content_; }  // of scalars and containers; strings have marks
  Value& set_content(bool content) {
    content_ = content;
    return *this;
  }
  template <class T>
  T& as() const {
    return *static_cast<T*>(reinterpret_cast<Object*>(low_));
  }
  const Str& str() const;
  const Sequence& sequence() const;  // of lists and tuples
  const Dict& dict() const;
  bool is_number() const { return kind_ == Kind::integer || kind_ == Kind::real || kind_ == Kind::boolean; }
  bool is_integral() const { return kind_ == Kind::integer || kind_ == Kind::boolean; }
  bool is_list_or_tuple() const { return kind_ == Kind::list || kind_ == Kind::tuple; }
  bool holds_object() const { return kind_ > Kind::real && kind_ < Kind::function; }
  const Object* identity() const { return holds_object() ? reinterpret_cast<const Object*>(low_) : nullptr; }

 private:
  explicit Value(Kind kind, uint64_t low = 0) : low_(low), kind_(kind) {}
  bool counted() const {
    return low_ != 0 && ((kind_ >= Kind::string && kind_ <= Kind::bound_method) || kind_ == Kind::undefined);
  }
  void retain() const {
    if (counted()) reinterpret_cast<const Object*>(low_)->retain();
  }
  void release() {
    if (counted()) reinterpret_cast<const Object*>(low_)->release();
  }
  void swap(Value& other) noexcept {
    std::swap(low_, other.low_);
    std::swap(high_, other.high_);
    std::swap(kind_, other.kind_);
    std::swap(content_, other.content_);
    std::swap(aux_, other.aux_);
  }

  uint64_t low_ = 0, high_ = 0;  // a number's bits, or a pointer
  Kind kind_ = Kind::undefined;
  bool content_ = false;
  uint8_t aux_ = kVariable;
};

class Str : public Object {
 public:
  Str(Meter* meter, std::string bytes, Marks marks, bool markup)
      : Object(meter), bytes_(std::move(bytes)), marks_(std::move(marks)), markup_(markup), ascii_(-1) {
    hold(sizeof(Str) + bytes_.capacity() + marks_.spans.capacity() * sizeof(ContentSpan));
  }
  std::string_view view() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  const Marks& marks() const { return marks_; }
  bool markup() const { return markup_; }  // markupsafe.Markup
  bool ascii() const;
  size_t length() const;  // in characters
  bool content_at(size_t byte) const;

 private:
  std::string bytes_;
  Marks marks_;
  bool markup_;
  mutable int8_t ascii_;
  mutable size_t length_ = 0;
};

// Strings are made here: text is appended with its marks.
class TextBuilder {
 public:
  explicit TextBuilder(Meter& meter) : meter_(&meter) {}
  void append(std::string_view text, bool content);
  void append(const Str& text) { append(text, 0, text.size()); }
  void append(const Str& text, size_t begin, size_t end);
  void append(std::string_view text, const Marks& marks, size_t begin, size_t end);
  size_t size() const { return bytes_.size(); }
  std::string_view view() const { return bytes_; }
  void set_markup(bool markup) { markup_ = markup; }
  Value finish();
  std::string take_text(std::vector<ContentSpan>& content);  // ends the builder's use

 private:
  void mark(size_t begin, size_t end);
  Meter* meter_;
  std::string bytes_;
  std::vector<ContentSpan> spans_;
  bool markup_ = false;
};

Value make_string(Meter& meter, std::string bytes, bool content);
Value make_string(Meter& meter, std::string bytes, Marks marks, bool markup = false);
Value substring(Meter& meter, const Value& string, size_t begin, size_t end);  // bytes
std::vector<Value> characters(Meter& meter, const Value& string);

class Sequence : public Object {
 public:
  Sequence(Meter* meter, std::vector<Value> items);
  std::vector<Value> items;
  int depth = 1;
  bool group = false;  // groupby's tuple, with `grouper` and `list`
};

class Dict : public Object {
 public:
  explicit Dict(Meter* meter) : Object(meter) {}
  std::vector<std::pair<Value, Value>> items;
  int depth = 1;
  void set(const Value& key, Value value);  // key must be hashable
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;

 private:
  size_t position(const Value& key, size_t hash) const;
  std::unordered_multimap<size_t, uint32_t> index_;  // of dicts with more than a few keys
};

class Range : public Object {
 public:
  Range(Meter* meter, Integer start_, Integer stop_, Integer step_);
  Integer start, stop, step, size;
  Integer at(Integer i) const { return start + i * step; }
};

enum class ViewKind : uint8_t { keys, values, items };
class View : public Object {
 public:
  View(Meter* meter, ViewKind view_kind, Value dict) : Object(meter), kind(view_kind), of(std::move(dict)) {}
  ViewKind kind;
  Value of;
};

class BoundMethod : public Object {
 public:
  BoundMethod(Meter* meter, Value receiver, Value method_name)
      : Object(meter), self(std::move(receiver)), name(std::move(method_name)) {
    hold(sizeof(BoundMethod));
  }
  Value self, name;
};

// A generator: what it has produced, and the failure that comes after.
class Iterator : public Object {
 public:
  explicit Iterator(const char* python_name) : Object(nullptr), name(python_name) {}
  const char* name;
  std::vector<Value> items;
  size_t next = 0;
  std::optional<Failure> then;
};

class Namespace : public Object {
 public:
  Namespace() : Object(nullptr) {}
  std::vector<std::pair<Value, Value>> items;  // string keys
  Value* find(std::string_view name);
};

Value make_list(Meter& meter, std::vector<Value> items, bool content = false);
Value make_tuple(Meter& meter, std::vector<Value> items, bool content = false);
template <class T, class... Args>
Ref<T> make(Meter& meter, Args&&... args) {
  return Ref<T>(new T(&meter, std::forward<Args>(args)...));
}
Value to_value(const Ref<Dict>& dict, bool content = false);

inline const Str& Value::str() const { return as<const Str>(); }
inline const Sequence& Value::sequence() const { return as<const Sequence>(); }
inline const Dict& Value::dict() const { return as<const Dict>(); }

// A key's hash; equal values have equal hashes. Raises for lists and dicts.
size_t hash_value(const Value& value);

const char* type_name(const Value& value);  // "str", "NoneType" ...

}  // namespace tenon::text::jinja
