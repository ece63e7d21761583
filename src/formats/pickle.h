// A reader of pickles that can only build tensors: numbers, strings, tuples, lists, dicts, references to storages, and tensors over
// them. Nothing is called and nothing imported: names are compared with a short list, every other one ends the reading.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "tensor/dtype.h"

namespace tenon::formats {

struct PickleObject {
  enum class Kind : uint8_t { none, boolean, integer, real, string, tuple, list, dict, global, storage, tensor, mark };
  Kind kind = Kind::none;
  int64_t integer = 0;      // boolean, integer; a storage's number of elements; a tensor's offset in elements
  double real = 0;
  std::string text;         // string; global ("module name"); a storage's key
  std::vector<int32_t> items;  // tuple, list; dict: key, value, key, value ...; tensor: its storage
  std::vector<int64_t> shape, strides;  // tensor
  std::optional<DType> dtype;  // storage, tensor; a storage without one is untyped bytes
  int depth = 0;
};

class Pickle {
 public:
  // Reads one pickle at the reader's position and leaves it behind its end. Throws Error{invalid_file} naming the offset:
  // forbidden global or opcode, truncated, nested too deep.
  static Pickle read(ByteReader& reader);

  const PickleObject& at(int32_t index) const { return objects_[static_cast<size_t>(index)]; }
  const PickleObject& top() const { return at(top_); }
  int32_t size() const { return static_cast<int32_t>(objects_.size()); }

 private:
  friend class PickleMachine;
  std::vector<PickleObject> objects_;
  int32_t top_ = 0;
};

}  // namespace tenon::formats
