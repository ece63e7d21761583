#include "formats/pickle.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"

namespace tenon::formats {

using Kind = PickleObject::Kind;

namespace {

struct StorageClass {
  const char* name;
  DType dtype;
};
constexpr StorageClass kStorages[] = {
    {"torch FloatStorage", DType::f32},        {"torch DoubleStorage", DType::f64},
    {"torch HalfStorage", DType::f16},         {"torch BFloat16Storage", DType::bf16},
    {"torch LongStorage", DType::i64},         {"torch IntStorage", DType::i32},
    {"torch ShortStorage", DType::i16},        {"torch CharStorage", DType::i8},
    {"torch ByteStorage", DType::u8},          {"torch BoolStorage", DType::boolean},
    {"torch ComplexFloatStorage", DType::c64},
};

// Element types as torch names them.
constexpr StorageClass kDtypes[] = {
    {"torch float32", DType::f32},
    {"torch float64", DType::f64},
    {"torch float16", DType::f16},
    {"torch bfloat16", DType::bf16},
    {"torch int64", DType::i64},
    {"torch int32", DType::i32},
    {"torch int16", DType::i16},
    {"torch int8", DType::i8},
    {"torch uint8", DType::u8},
    {"torch uint16", DType::u16},
    {"torch uint32", DType::u32},
    {"torch uint64", DType::u64},
    {"torch bool", DType::boolean},
    {"torch complex64", DType::c64},
    {"torch float8_e4m3fn", DType::f8_e4m3},
    {"torch float8_e5m2", DType::f8_e5m2},
    {"torch float8_e4m3fnuz", DType::f8_e4m3fnuz},
    {"torch float8_e5m2fnuz", DType::f8_e5m2fnuz},
    {"torch float8_e8m0fnu", DType::f8_e8m0},
};

constexpr const char* kOrderedDict = "collections OrderedDict";
constexpr const char* kTensorV2 = "torch._utils _rebuild_tensor_v2";
constexpr const char* kTensorV3 = "torch._utils _rebuild_tensor_v3";
constexpr const char* kTensorV1 = "torch._utils _rebuild_tensor";
constexpr const char* kParameter = "torch._utils _rebuild_parameter";
constexpr const char* kParameterWithState = "torch._utils _rebuild_parameter_with_state";
constexpr const char* kSize = "torch Size";
constexpr const char* kOtherGlobals[] = {kOrderedDict,
                                         kTensorV2,
                                         kTensorV3,
                                         kTensorV1,
                                         kParameter,
                                         kParameterWithState,
                                         kSize,
                                         "torch.storage UntypedStorage",
                                         "torch UntypedStorage"};

template <size_t N>
std::optional<DType> dtype_in(const StorageClass (&table)[N], std::string_view name) {
  for (const StorageClass& s : table)
    if (name == s.name) return s.dtype;
  return std::nullopt;
}

// The table's own spelling of an allowed name; null for every other.
const char* allowed(std::string_view name) {
  for (const StorageClass& s : kStorages)
    if (name == s.name) return s.name;
  for (const StorageClass& s : kDtypes)
    if (name == s.name) return s.name;
  for (const char* other : kOtherGlobals)
    if (name == other) return other;
  return nullptr;
}

constexpr size_t kMaxObjects = 4'000'000;  // 100,000 tensors take about 2,000,000
constexpr size_t kMaxItems = 16'000'000;
constexpr size_t kMaxRank = 64;
constexpr size_t kMaxKey = 256;  // of a storage; torch writes numbers

}  // namespace

class PickleMachine {
 public:
  explicit PickleMachine(ByteReader& r) : r_(r) {}

  Pickle run() {
    while (step()) {
    }
    pickle_.top_ = pop();
    return std::move(pickle_);
  }

 private:
  [[noreturn]] void bad(std::string_view why) {
    fail(ErrorCode::invalid_file, "{}: bad pickle: {} before offset {}", r_.source(), why, r_.offset());
  }

  const PickleObject& object(int32_t i) const { return pickle_.at(i); }
  std::span<const int32_t> items(int32_t i) const { return pickle_.items(object(i)); }

  void push(const PickleObject& o) {
    if (pickle_.objects_.size() >= kMaxObjects) bad("too many objects");
    pickle_.objects_.push_back(o);
    stack_.push_back(static_cast<int32_t>(pickle_.objects_.size()) - 1);
  }
  void push_with(PickleObject o, std::span<const int32_t> items) {
    push(o);
    append(stack_.back(), items);
  }
  void push_integer(int64_t v, Kind kind = Kind::integer) { push({.kind = kind, .integer = v}); }
  void push_text(std::string_view s) { push({.kind = Kind::string, .text = s}); }
  std::string_view chars(uint64_t n) { return r_.chars(n, "bad pickle: a string"); }

  void append(int32_t to, std::span<const int32_t> more) {
    if (more.empty()) return;
    if (pickle_.item_count_ + more.size() > kMaxItems) bad("too many items");
    pickle_.item_count_ += more.size();
    PickleObject& o = pickle_.objects_[static_cast<size_t>(to)];
    if (o.list < 0) {
      o.list = static_cast<int32_t>(pickle_.lists_.size());
      pickle_.lists_.emplace_back();
    }
    std::vector<int32_t>& list = pickle_.lists_[static_cast<size_t>(o.list)];
    list.insert(list.end(), more.begin(), more.end());
  }

  int32_t peek() {
    if (stack_.empty()) bad("the stack is empty");
    return stack_.back();
  }
  int32_t pop() {
    int32_t i = peek();
    stack_.pop_back();
    return i;
  }
  std::vector<int32_t> pop_to_mark() {
    size_t at = stack_.size();
    while (at > 0 && object(stack_[at - 1]).kind != Kind::mark) --at;
    if (at == 0) bad("no mark on the stack");
    std::vector<int32_t> popped(stack_.begin() + static_cast<std::ptrdiff_t>(at), stack_.end());
    stack_.resize(at - 1);
    return popped;
  }

  std::string_view line() {
    std::string_view rest = r_.chars(std::min<uint64_t>(r_.remaining(), 1000), "line");
    size_t end = rest.find('\n');
    if (end == std::string_view::npos) bad("a line does not end");
    r_.seek(r_.offset() - rest.size() + end + 1, "line");
    return rest.substr(0, end);
  }

  void global(std::string_view module, std::string_view name) {
    const char* known = nullptr;
    if (module.size() + name.size() < 200) known = allowed(fmt::format("{} {}", module, name));
    if (!known)
      fail(ErrorCode::invalid_file,
           "{}: forbidden global {}.{} at offset {}: the file wants to run code; it is not loaded", r_.source(),
           printable(module), printable(name), r_.offset());
    push({.kind = Kind::global, .text = known});
  }

  void memoize(uint64_t slot) {
    if (memo_.size() >= kMaxObjects) bad("too many memos");
    memo_[slot] = peek();
  }
  void recall(uint64_t slot) {
    auto it = memo_.find(slot);
    if (it == memo_.end()) bad("an unknown memo is read");
    stack_.push_back(it->second);
  }

  void append_checked(int32_t to, std::span<const int32_t> more, Kind kind) {
    if (object(to).kind != kind || (kind == Kind::dict && more.size() % 2)) bad("items for something that takes none");
    append(to, more);
  }

  // ("storage", class, key, location, elements)
  void persistent() {
    int32_t id = pop();
    auto fields = items(id);
    if (object(id).kind != Kind::tuple || fields.size() < 5 || object(fields[0]).text != "storage")
      bad("an unknown persistent id");
    const PickleObject &type = object(fields[1]), &key = object(fields[2]), &count = object(fields[4]);
    if (type.kind != Kind::global || key.kind != Kind::string || count.kind != Kind::integer)
      bad("a storage reference of the wrong form");
    if (key.text.size() > kMaxKey) bad("a storage's key is too long");
    auto dtype = dtype_in(kStorages, type.text);
    if (!dtype && !type.text.ends_with("UntypedStorage")) bad("a storage of class " + printable(type.text));
    push({.kind = Kind::storage, .dtype = dtype, .integer = count.integer, .text = key.text});
  }

  void check_integers(int32_t index) {
    if (object(index).kind != Kind::tuple && object(index).kind != Kind::list) bad("a shape is no tuple");
    if (items(index).size() > kMaxRank) bad("a shape has more than 64 dimensions");
    for (int32_t i : items(index))
      if (object(i).kind != Kind::integer) bad("a shape holds something else than integers");
  }

  // (storage, offset, shape, strides, ...); version 3 has the element type at place 6.
  void rebuild_tensor(std::span<const int32_t> args, bool v3) {
    if (args.size() < (v3 ? 7u : 4u)) bad("a tensor has too few arguments");
    const PickleObject &storage = object(args[0]), &offset = object(args[1]);
    if (storage.kind != Kind::storage || offset.kind != Kind::integer) bad("a tensor without storage or offset");
    check_integers(args[2]);
    check_integers(args[3]);
    if (items(args[2]).size() != items(args[3]).size()) bad("a tensor's shape and strides differ in length");
    auto dtype = v3 ? dtype_in(kDtypes, object(args[6]).text) : storage.dtype;
    if (!dtype) bad("a tensor without element type");
    int32_t parts[] = {args[0], args[2], args[3]};
    push_with({.kind = Kind::tensor, .dtype = dtype, .integer = offset.integer}, parts);
  }

  void ordered_dict(std::span<const int32_t> args) {
    // Python 2 wrote a list of pairs; otherwise the entries follow.
    std::vector<int32_t> entries;
    if (!args.empty() && object(args[0]).kind == Kind::list)
      for (int32_t pair : items(args[0])) {
        if (items(pair).size() != 2) bad("an OrderedDict of something else than pairs");
        entries.insert(entries.end(), items(pair).begin(), items(pair).end());
      }
    push_with({.kind = Kind::dict}, entries);
  }

  void reduce() {
    int32_t args_index = pop(), callee = pop();
    if (object(callee).kind != Kind::global) bad("a call of something that is no name");
    if (object(args_index).kind != Kind::tuple) bad("a call without arguments");
    std::string_view name = object(callee).text;
    std::span<const int32_t> args = items(args_index);
    if (name == kOrderedDict) {
      ordered_dict(args);
    } else if (name == kTensorV2 || name == kTensorV1 || name == kTensorV3) {
      rebuild_tensor(args, name == kTensorV3);
    } else if (name == kParameter || name == kParameterWithState) {
      if (args.empty() || object(args[0]).kind != Kind::tensor) bad("a parameter without tensor");
      stack_.push_back(args[0]);
    } else if (name == kSize) {
      if (args.size() != 1) bad("a Size of the wrong form");
      stack_.push_back(args[0]);
    } else {
      bad("a call of " + printable(name));
    }
  }

  // A dict's attributes (OrderedDict's _metadata) are dropped; anything else has no state to set.
  void build() {
    pop();
    if (Kind k = object(peek()).kind; k != Kind::dict && k != Kind::tensor)
      fail(ErrorCode::invalid_file, "{}: forbidden state at offset {}: an object sets its own state; it is not loaded",
           r_.source(), r_.offset());
  }

  void tuple(size_t n) {
    if (stack_.size() < n) bad("the stack is empty");
    std::vector<int32_t> parts(stack_.end() - static_cast<std::ptrdiff_t>(n), stack_.end());
    stack_.resize(stack_.size() - n);
    push_with({.kind = Kind::tuple}, parts);
  }

  void long1() {
    auto n = r_.read<uint8_t>("LONG1 length");
    auto raw = r_.take(n, "LONG1");
    if (n > 16) bad("an integer of more than 16 bytes");
    // Sign-extended little endian; the magic number of old files has 10 bytes, of which the low 8 are kept.
    uint64_t v = 0;
    for (size_t i = 0; i < std::min<size_t>(8, raw.size()); ++i)
      v |= static_cast<uint64_t>(static_cast<uint8_t>(raw[i])) << (8 * i);
    if (n > 0 && n < 8 && static_cast<uint8_t>(raw[n - 1]) & 0x80) v |= ~uint64_t{0} << (8 * n);
    push_integer(static_cast<int64_t>(v));
  }

  bool step() {
    auto op = r_.read<uint8_t>("opcode");
    switch (op) {
      case 0x80:
        if (auto version = r_.read<uint8_t>("protocol"); version > 5) bad(fmt::format("protocol {}", version));
        return true;
      case 0x95:
        r_.read<uint64_t>("frame");
        return true;
      case '.':
        return false;
      case '(':
        push({.kind = Kind::mark});
        return true;
      case '}':
        push({.kind = Kind::dict});
        return true;
      case ']':
        push({.kind = Kind::list});
        return true;
      case ')':
        push({.kind = Kind::tuple});
        return true;
      case 'N':
        push({});
        return true;
      case 0x88:
        push_integer(1, Kind::boolean);
        return true;
      case 0x89:
        push_integer(0, Kind::boolean);
        return true;
      case 'J':
        push_integer(r_.read<int32_t>("BININT"));
        return true;
      case 'K':
        push_integer(r_.read<uint8_t>("BININT1"));
        return true;
      case 'M':
        push_integer(r_.read<uint16_t>("BININT2"));
        return true;
      case 0x8a:
        long1();
        return true;
      case 'G':
        r_.take(8, "BINFLOAT");
        push({.kind = Kind::real});  // no tensor needs the value
        return true;
      case 'X':
        push_text(chars(r_.read<uint32_t>("BINUNICODE length")));
        return true;
      case 0x8c:
      case 'U':
      case 'C':
        push_text(chars(r_.read<uint8_t>("string length")));
        return true;
      case 'T':
      case 'B':
        push_text(chars(r_.read<uint32_t>("string length")));
        return true;
      case 0x8d:
      case 0x8e:
        push_text(chars(r_.read<uint64_t>("string length")));
        return true;
      case 'q':
        memoize(r_.read<uint8_t>("BINPUT"));
        return true;
      case 'r':
        memoize(r_.read<uint32_t>("LONG_BINPUT"));
        return true;
      case 0x94:
        memoize(memo_.size());
        return true;
      case 'h':
        recall(r_.read<uint8_t>("BINGET"));
        return true;
      case 'j':
        recall(r_.read<uint32_t>("LONG_BINGET"));
        return true;
      case 'c': {
        std::string_view module = line();
        global(module, line());
        return true;
      }
      case 0x93: {
        std::string_view name = object(pop()).text, module = object(pop()).text;
        global(module, name);
        return true;
      }
      case 'R':
        reduce();
        return true;
      case 'b':
        build();
        return true;
      case 'Q':
        persistent();
        return true;
      case 't':
        push_with({.kind = Kind::tuple}, pop_to_mark());
        return true;
      case 0x85:
        tuple(1);
        return true;
      case 0x86:
        tuple(2);
        return true;
      case 0x87:
        tuple(3);
        return true;
      case 'l':
        push_with({.kind = Kind::list}, pop_to_mark());
        return true;
      case 'a': {
        int32_t item = pop();
        append_checked(peek(), {&item, 1}, Kind::list);
        return true;
      }
      case 'e': {
        auto popped = pop_to_mark();
        append_checked(peek(), popped, Kind::list);
        return true;
      }
      case 's': {
        int32_t entry[2];
        entry[1] = pop();
        entry[0] = pop();
        append_checked(peek(), entry, Kind::dict);
        return true;
      }
      case 'u': {
        auto popped = pop_to_mark();
        append_checked(peek(), popped, Kind::dict);
        return true;
      }
      case '0':
        pop();
        return true;
      case '1':
        pop_to_mark();
        return true;
      case '2':
        stack_.push_back(peek());
        return true;
      case 'i':
      case 'o':
      case 0x81:
      case 0x92:
      case 0x82:
      case 0x83:
      case 0x84:
      case 'P':
        fail(ErrorCode::invalid_file,
             "{}: forbidden opcode 0x{:02x} at offset {}: it makes objects by running code; the file is not loaded",
             r_.source(), op, r_.offset() - 1);
      default:
        bad(fmt::format("unknown opcode 0x{:02x}", op));
    }
  }

  ByteReader& r_;
  Pickle pickle_;
  std::vector<int32_t> stack_;
  std::unordered_map<uint64_t, int32_t> memo_;
};

Pickle Pickle::read(ByteReader& reader) { return PickleMachine(reader).run(); }

}  // namespace tenon::formats
