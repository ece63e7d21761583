// A reader of pickles that can only build tensors: numbers, strings, tuples, lists, dicts, references to storages, and
// tensors over them. Nothing is called and nothing imported: names are compared with a short list, every other one ends
// the reading. Time and memory are linear in the pickle's length: objects refer to each other and to the file's text,
// nothing is copied.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "tensor/dtype.h"

namespace tenon::formats {

struct PickleObject {
  enum class Kind : uint8_t { none, boolean, integer, real, string, tuple, list, dict, global, storage, tensor, mark };
  Kind kind = Kind::none;
  std::optional<DType> dtype;  // storage, tensor; a storage without one is untyped bytes
  int32_t list = -1;           // of Pickle::items(); -1: none
  int64_t integer = 0;         // boolean, integer; a storage's number of elements; a tensor's offset in elements
  std::string_view text;       // string; global ("module name"); a storage's key. Views into the pickle's bytes
};

class Pickle {
 public:
  // Reads one pickle at the reader's position and leaves it behind its end. Throws Error{invalid_file} naming the
  // offset: forbidden global or opcode, truncated, too large.
  static Pickle read(ByteReader& reader);

  const PickleObject& at(int32_t index) const { return objects_[static_cast<size_t>(index)]; }
  const PickleObject& top() const { return at(top_); }
  std::span<const PickleObject> objects() const { return objects_; }

  // tuple, list: the items; dict: key, value, key, value ...; tensor: storage, shape, strides.
  std::span<const int32_t> items(const PickleObject& object) const {
    if (object.list < 0) return {};
    return lists_[static_cast<size_t>(object.list)];
  }
  size_t item_count() const { return item_count_; }  // of all objects

 private:
  friend class PickleMachine;
  std::vector<PickleObject> objects_;
  std::vector<std::vector<int32_t>> lists_;
  size_t item_count_ = 0;
  int32_t top_ = 0;
};

}  // namespace tenon::formats
