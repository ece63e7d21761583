// Protocol-buffer wire format, bounds-checked: fields one by one, nested messages as views.
#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/error.h"

namespace tenon::text {

class WireReader {
 public:
  // `source` names the file in messages; both views must outlive the reader.
  WireReader(std::string_view message, std::string_view source) : data_(message), source_(source) {}

  // The next field; false at the end of the message. Throws Error{invalid_file}.
  bool next() {
    if (at_ == data_.size()) return false;
    uint64_t tag = varint();
    field_ = static_cast<uint32_t>(tag >> 3);
    if (tag >> 3 == 0 || tag >> 3 > 0x1FFFFFFF) bad("a field number out of range");
    switch (tag & 7) {
      case 0:
        value_ = varint();
        break;
      case 1:
        fixed(8);
        break;
      case 2: {
        uint64_t n = varint();
        if (n > data_.size() - at_) bad("a length that reaches past the end");
        bytes_ = data_.substr(at_, n);
        at_ += n;
        break;
      }
      case 5:
        fixed(4);
        break;
      default:
        bad("an unknown wire type");
    }
    return true;
  }

  uint32_t field() const { return field_; }
  uint64_t number() const { return value_; }
  bool flag() const { return value_ != 0; }
  int32_t integer() const { return static_cast<int32_t>(value_); }
  std::string_view bytes() const { return bytes_; }
  float real() const {
    auto bits = static_cast<uint32_t>(value_);
    float f;
    std::memcpy(&f, &bits, 4);
    return f;
  }

 private:
  uint64_t varint() {
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == data_.size()) bad("a number that is cut off");
      auto b = static_cast<uint8_t>(data_[at_++]);
      v |= static_cast<uint64_t>(b & 0x7F) << shift;
      if (!(b & 0x80)) return v;
    }
    bad("a number that is too long");
  }
  void fixed(size_t n) {
    if (n > data_.size() - at_) bad("a number that is cut off");
    value_ = 0;
    std::memcpy(&value_, data_.data() + at_, n);
    at_ += n;
  }
  [[noreturn]] void bad(std::string_view what) const {
    fail(ErrorCode::invalid_file, "{}: {} at offset {} of a message (corrupt, or not this kind of file)", source_, what,
         at_);
  }

  std::string_view data_, source_, bytes_;
  size_t at_ = 0;
  uint32_t field_ = 0;
  uint64_t value_ = 0;
};

}  // namespace tenon::text
