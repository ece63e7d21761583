#include "text/jinja/percent_format.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/chars.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_format.h"

namespace tenon::text::jinja {
namespace {

struct Conversion {
  bool left = false, zero = false, plus = false, blank = false, alternate = false;
  Integer width = 0;
  int precision = -1;
  char type = 0;
};

class PercentFormatter {
 public:
  PercentFormatter(Meter& meter, const Value& format, const Value& values)
      : meter_(meter), format_(format.str()), text_(format_.view()), values_(values) {}

  Value run() {
    TextBuilder out(meter_);
    out.set_markup(format_.markup());
    while (at_ < text_.size()) {
      size_t percent = std::min(text_.find('%', at_), text_.size());
      out.append(format_, at_, percent);
      at_ = percent;
      if (at_ < text_.size()) conversion(out);
    }
    if (!by_name_ && next_ < count()) raise("not all arguments converted during string formatting");
    return out.finish();
  }

 private:
  char take() {
    if (++at_ >= text_.size()) raise("incomplete format");
    return text_[at_];
  }

  // How many must be used: a list alone may stay unused, as whatever has items.
  size_t count() const {
    if (values_.is(Kind::tuple)) return values_.sequence().items.size();
    return values_.is(Kind::list) || values_.is(Kind::undefined) || values_.is(Kind::dict) || values_.is(Kind::range)
               ? 0
               : 1;
  }

  Value next() {
    if (values_.is(Kind::tuple)) {
      const auto& items = values_.sequence().items;
      if (next_ >= items.size()) raise("not enough arguments for format string");
      return items[next_++];
    }
    if (next_++ > 0) raise("not enough arguments for format string");
    return values_;
  }

  Integer number(char& c) {
    if (c == '*') {
      Value v = next();
      if (!v.is_integral()) raise("* wants int");
      c = take();
      return v.integer();
    }
    Integer n = 0;
    for (; c >= '0' && c <= '9'; c = take()) {
      n = n * 10 + (c - '0');
      if (n > kMaxWidth) raise("a width is beyond {}", static_cast<int64_t>(kMaxWidth));
    }
    return n;
  }

  void conversion(TextBuilder& out) {
    char c = take();
    Conversion k;
    Value value;
    bool named = c == '(';
    if (named) {
      value = named_value();
      c = take();
    }
    for (; std::string_view("-0+ #").find(c) != std::string_view::npos; c = take()) {
      k.left |= c == '-';
      k.zero |= c == '0';
      k.plus |= c == '+';
      k.blank |= c == ' ';
      k.alternate |= c == '#';
    }
    k.width = number(c);
    if (k.width < 0) {
      k.left = true;
      k.width = -k.width;
    }
    if (c == '.') {
      c = take();
      k.precision = static_cast<int>(std::min<Integer>(std::max<Integer>(number(c), 0), kMaxWidth));
    }
    while (c == 'l' || c == 'h' || c == 'L') c = take();
    k.type = c;
    ++at_;
    if (c == '%') return out.append("%", false);
    if (!named) value = next();
    put(out, k, value);
  }

  Value named_value() {
    if (!values_.is(Kind::dict)) raise("format requires a mapping");
    by_name_ = true;
    size_t begin = at_ + 1, end = begin;
    for (int depth = 1; end < text_.size(); ++end) {
      if (text_[end] == '(') ++depth;
      if (text_[end] == ')' && --depth == 0) break;
    }
    if (end >= text_.size()) raise("incomplete format key");
    at_ = end;
    const Value* v = values_.dict().find(text_.substr(begin, end - begin));
    if (!v) raise("the format's key '{}' is missing", text_.substr(begin, end - begin));
    return *v;
  }

  void put(TextBuilder& out, const Conversion& k, const Value& v) {
    switch (k.type) {
      case 's':
      case 'r':
      case 'a':
        return put_text(out, k, v);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return put_integer(out, k, v);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return put_real(out, k, v);
      case 'c':
        return put_char(out, k, v);
      default:
        raise("unsupported format character '{}'", k.type >= 0x20 && k.type < 0x7F ? k.type : '?');
    }
  }

  void put_text(TextBuilder& out, const Conversion& k, const Value& v) {
    TextBuilder text(meter_);
    if (k.type == 's' && format_.markup())
      print_escaped(meter_, text, v);
    else if (k.type == 's')
      print(meter_, text, v);
    else
      print_repr(meter_, text, v);
    Value whole = text.finish();
    if (k.precision >= 0) whole = slice(meter_, whole, Value::of(0), Value::of(k.precision), Value::none());
    pad(meter_, out, whole, k.width, " ", k.left ? '<' : '>');
  }

  void put_char(TextBuilder& out, const Conversion& k, const Value& v) {
    Value text = v;
    if (v.is_integral()) {
      if (v.integer() < 0 || v.integer() > 0x10FFFF) raise("%c arg not in range(0x110000)");
      std::string c;
      append_char(c, static_cast<char32_t>(v.integer()));
      text = make_string(meter_, c, v.content());
    } else if (!v.is(Kind::string) || v.str().length() != 1) {
      raise("%c requires int or char");
    }
    pad(meter_, out, text, k.width, " ", k.left ? '<' : '>');
  }

  void put_number(TextBuilder& out, const Conversion& k, bool negative, std::string prefix, const std::string& digits,
                  bool content) {
    std::string sign = negative ? "-" : k.plus ? "+" : k.blank ? " " : "";
    std::string head = sign + std::move(prefix);
    Integer pads = k.width - static_cast<Integer>(head.size() + digits.size());
    if (k.zero && !k.left && pads > 0) head += std::string(static_cast<size_t>(pads), '0');
    pad(meter_, out, make_string(meter_, head + digits, content), k.width, " ", k.left ? '<' : '>');
  }

  void put_integer(TextBuilder& out, const Conversion& k, const Value& v) {
    bool decimal = k.type == 'd' || k.type == 'i' || k.type == 'u';
    refuse_undefined(v);
    if (!v.is_integral() && !(decimal && v.is(Kind::real)))
      raise("%{} format: {} is required, not {}", k.type, decimal ? "a real number" : "an integer", type_name(v));
    Integer i = v.is(Kind::real) ? truncated(v.real()) : v.integer();
    std::string digits = integer_text(i, decimal ? 10 : k.type == 'o' ? 8 : 16);
    if (i < 0) digits.erase(0, 1);
    if (k.precision > kMaxPrecision) raise("precision is beyond {}", kMaxPrecision);
    if (k.precision > static_cast<int>(digits.size()))
      digits.insert(0, static_cast<size_t>(k.precision) - digits.size(), '0');
    if (k.type == 'X')
      for (char& c : digits) c = c >= 'a' ? static_cast<char>(c - 32) : c;
    std::string prefix = k.alternate && !decimal ? std::string("0") + k.type : "";
    put_number(out, k, i < 0, prefix, digits, v.content());
  }

  void put_real(TextBuilder& out, const Conversion& k, const Value& v) {
    refuse_undefined(v);
    if (!v.is_number()) raise("must be real number, not {}", type_name(v));
    double d = to_double(v);
    int precision = k.precision < 0 ? 6 : k.precision;
    if ((k.type == 'g' || k.type == 'G') && precision == 0) precision = 1;
    put_number(out, k, std::signbit(d) && !std::isnan(d), "", fixed_text(std::abs(d), precision, k.type), v.content());
  }

  Meter& meter_;
  const Str& format_;
  std::string_view text_;
  const Value& values_;
  size_t at_ = 0, next_ = 0;
  bool by_name_ = false;
};

}  // namespace

Value percent_format(Meter& meter, const Value& format, const Value& values) {
  return PercentFormatter(meter, format, values).run();
}

}  // namespace tenon::text::jinja
