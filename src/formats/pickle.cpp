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
    {"torch FloatStorage", DType::f32}, {"torch DoubleStorage", DType::f64},   {"torch HalfStorage", DType::f16},
    {"torch BFloat16Storage", DType::bf16}, {"torch LongStorage", DType::i64}, {"torch IntStorage", DType::i32},
    {"torch ShortStorage", DType::i16}, {"torch CharStorage", DType::i8},      {"torch ByteStorage", DType::u8},
    {"torch BoolStorage", DType::boolean}, {"torch ComplexFloatStorage", DType::c64},
};

// Element types as torch names them.
constexpr StorageClass kDtypes[] = {
    {"torch float32", DType::f32},   {"torch float64", DType::f64}, {"torch float16", DType::f16}, {"torch bfloat16", DType::bf16},
    {"torch int64", DType::i64},     {"torch int32", DType::i32},   {"torch int16", DType::i16},   {"torch int8", DType::i8},
    {"torch uint8", DType::u8},      {"torch uint16", DType::u16},  {"torch uint32", DType::u32},  {"torch uint64", DType::u64},
    {"torch bool", DType::boolean},  {"torch complex64", DType::c64}, {"torch float8_e4m3fn", DType::f8_e4m3},
    {"torch float8_e5m2", DType::f8_e5m2}, {"torch float8_e4m3fnuz", DType::f8_e4m3fnuz}, {"torch float8_e5m2fnuz", DType::f8_e5m2fnuz},
    {"torch float8_e8m0fnu", DType::f8_e8m0},
};

constexpr const char* kOtherGlobals[] = {"collections OrderedDict",      "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_tensor_v3",
                                         "torch._utils _rebuild_tensor", "torch._utils _rebuild_parameter", "torch.storage UntypedStorage",
                                         "torch UntypedStorage",         "torch Size"};

template <size_t N>
std::optional<DType> dtype_in(const StorageClass (&table)[N], std::string_view name) {
  for (const StorageClass& s : table)
    if (name == s.name) return s.dtype;
  return std::nullopt;
}

bool allowed(std::string_view name) {
  return dtype_in(kStorages, name) || dtype_in(kDtypes, name) ||
         std::find(std::begin(kOtherGlobals), std::end(kOtherGlobals), name) != std::end(kOtherGlobals);
}

constexpr int kMaxDepth = 100;
constexpr size_t kMaxObjects = 20'000'000;

}  // namespace

class PickleMachine {
 public:
  explicit PickleMachine(ByteReader& r) : r_(r) {}

  Pickle run() {
    while (step()) {}
    pickle_.top_ = pop();
    return std::move(pickle_);
  }

 private:
  [[noreturn]] void bad(std::string_view why) {
    fail(ErrorCode::invalid_file, "{}: bad pickle: {} before offset {}", r_.source(), why, r_.offset());
  }

  int32_t make(PickleObject o) {
    if (pickle_.objects_.size() >= kMaxObjects) bad("too many objects");
    for (int32_t i : o.items) deepen(o, i);
    pickle_.objects_.push_back(std::move(o));
    return static_cast<int32_t>(pickle_.objects_.size()) - 1;
  }
  void deepen(PickleObject& o, int32_t item) {
    o.depth = std::max(o.depth, pickle_.at(item).depth + 1);
    if (o.depth > kMaxDepth) bad("nested too deep");
  }
  PickleObject& object(int32_t i) { return pickle_.objects_[static_cast<size_t>(i)]; }

  void push(PickleObject o) { stack_.push_back(make(std::move(o))); }
  void push_integer(int64_t v, Kind kind = Kind::integer) { push({.kind = kind, .integer = v}); }
  void push_text(std::string_view s) { push({.kind = Kind::string, .text = std::string(s)}); }
  int32_t pop() {
    if (stack_.empty()) bad("the stack is empty");
    int32_t i = stack_.back();
    stack_.pop_back();
    return i;
  }
  int32_t peek() {
    if (stack_.empty()) bad("the stack is empty");
    return stack_.back();
  }
  std::vector<int32_t> pop_to_mark() {
    size_t at = stack_.size();
    while (at > 0 && object(stack_[at - 1]).kind != Kind::mark) --at;
    if (at == 0) bad("no mark on the stack");
    std::vector<int32_t> items(stack_.begin() + static_cast<std::ptrdiff_t>(at), stack_.end());
    stack_.resize(at - 1);
    return items;
  }

  std::string_view line() {
    std::string_view rest = r_.chars(std::min<uint64_t>(r_.remaining(), 1000), "line");
    size_t end = rest.find('\n');
    if (end == std::string_view::npos) bad("a line does not end");
    r_.seek(r_.offset() - rest.size() + end + 1, "line");
    return rest.substr(0, end);
  }

  void global(std::string_view module, std::string_view name) {
    std::string full = std::string(module) + " " + std::string(name);
    if (!allowed(full))
      fail(ErrorCode::invalid_file, "{}: forbidden global {} at offset {}: the file wants to run code; it is not loaded", r_.source(),
           printable(std::string(module) + "." + std::string(name)), r_.offset());
    push({.kind = Kind::global, .text = full});
  }

  void memoize(uint64_t slot) { memo_[slot] = peek(); }
  void recall(uint64_t slot) {
    auto it = memo_.find(slot);
    if (it == memo_.end()) bad("an unknown memo is read");
    stack_.push_back(it->second);
  }

  void append(int32_t to, const std::vector<int32_t>& items, Kind kind) {
    if (object(to).kind != kind || (kind == Kind::dict && items.size() % 2)) bad("items for something that takes none");
    for (int32_t i : items) {
      deepen(object(to), i);
      object(to).items.push_back(i);
    }
  }

  // ("storage", class, key, location, elements)
  void persistent() {
    const PickleObject id = object(pop());
    if (id.kind != Kind::tuple || id.items.size() < 5 || object(id.items[0]).text != "storage") bad("an unknown persistent id");
    const PickleObject &type = object(id.items[1]), &key = object(id.items[2]), &count = object(id.items[4]);
    if (type.kind != Kind::global || key.kind != Kind::string || count.kind != Kind::integer) bad("a storage reference of the wrong form");
    auto dtype = dtype_in(kStorages, type.text);
    if (!dtype && !type.text.ends_with("UntypedStorage")) bad("a storage of class " + printable(type.text));
    push({.kind = Kind::storage, .integer = count.integer, .text = key.text, .dtype = dtype});
  }

  std::vector<int64_t> integers(int32_t index) {
    const PickleObject& o = object(index);
    std::vector<int64_t> out;
    if (o.kind != Kind::tuple && o.kind != Kind::list) bad("a shape is no tuple");
    for (int32_t i : o.items) {
      if (object(i).kind != Kind::integer) bad("a shape holds something else than integers");
      out.push_back(object(i).integer);
    }
    return out;
  }

  void rebuild_tensor(const std::vector<int32_t>& args, bool v3) {
    if (args.size() < (v3 ? 7u : 4u)) bad("a tensor has too few arguments");
    const PickleObject storage = object(args[0]);
    if (storage.kind != Kind::storage || object(args[1]).kind != Kind::integer) bad("a tensor without storage or offset");
    PickleObject t{.kind = Kind::tensor, .integer = object(args[1]).integer, .items = {args[0]}};
    t.shape = integers(args[2]);
    t.strides = integers(args[3]);
    if (t.shape.size() != t.strides.size() || t.shape.size() > 64) bad("a tensor's shape and strides differ in length");
    t.dtype = storage.dtype;
    if (v3) t.dtype = dtype_in(kDtypes, object(args[6]).text);
    if (!t.dtype) bad("a tensor without element type");
    push(std::move(t));
  }

  void reduce() {
    int32_t args_index = pop();
    std::string name = object(peek()).text;
    if (object(pop()).kind != Kind::global) bad("a call of something that is no name");
    if (object(args_index).kind != Kind::tuple) bad("a call without arguments");
    std::vector<int32_t> args = object(args_index).items;
    if (name == "collections OrderedDict") {
      PickleObject dict{.kind = Kind::dict};
      if (!args.empty() && object(args[0]).kind == Kind::list)  // protocol 2 writes a list of pairs
        for (int32_t pair : object(args[0]).items) {
          if (object(pair).items.size() != 2) bad("an OrderedDict of something else than pairs");
          dict.items.insert(dict.items.end(), object(pair).items.begin(), object(pair).items.end());
        }
      push(std::move(dict));
    } else if (name == "torch._utils _rebuild_tensor_v2" || name == "torch._utils _rebuild_tensor") {
      rebuild_tensor(args, false);
    } else if (name == "torch._utils _rebuild_tensor_v3") {
      rebuild_tensor(args, true);
    } else if (name == "torch._utils _rebuild_parameter") {
      if (args.empty() || object(args[0]).kind != Kind::tensor) bad("a parameter without tensor");
      stack_.push_back(args[0]);
    } else if (name == "torch Size") {
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
      fail(ErrorCode::invalid_file, "{}: forbidden global or state at offset {}: an object sets its own state", r_.source(), r_.offset());
  }

  void tuple(size_t n) {
    PickleObject t{.kind = Kind::tuple};
    for (size_t i = 0; i < n; ++i) t.items.push_back(pop());
    std::reverse(t.items.begin(), t.items.end());
    push(std::move(t));
  }

  void long1() {
    auto n = r_.read<uint8_t>("LONG1 length");
    auto raw = r_.take(n, "LONG1");
    if (n > 16) bad("an integer of more than 16 bytes");
    // Sign-extended little endian; the magic number of old files has 10 bytes, of which the low 8 are kept.
    uint64_t v = 0;
    for (size_t i = 0; i < std::min<size_t>(8, raw.size()); ++i) v |= static_cast<uint64_t>(static_cast<uint8_t>(raw[i])) << (8 * i);
    if (n > 0 && n < 8 && static_cast<uint8_t>(raw[n - 1]) & 0x80) v |= ~uint64_t{0} << (8 * n);
    push_integer(static_cast<int64_t>(v));
  }

  bool step() {
    auto op = r_.read<uint8_t>("opcode");
    switch (op) {
      case 0x80:
        if (auto version = r_.read<uint8_t>("protocol"); version > 5) bad(fmt::format("protocol {}", version));
        return true;
      case 0x95: r_.read<uint64_t>("frame"); return true;
      case '.': return false;
      case '(': push({.kind = Kind::mark}); return true;
      case '}': push({.kind = Kind::dict}); return true;
      case ']': push({.kind = Kind::list}); return true;
      case ')': push({.kind = Kind::tuple}); return true;
      case 'N': push({}); return true;
      case 0x88: push_integer(1, Kind::boolean); return true;
      case 0x89: push_integer(0, Kind::boolean); return true;
      case 'J': push_integer(r_.read<int32_t>("BININT")); return true;
      case 'K': push_integer(r_.read<uint8_t>("BININT1")); return true;
      case 'M': push_integer(r_.read<uint16_t>("BININT2")); return true;
      case 0x8a: long1(); return true;
      case 'G': push({.kind = Kind::real, .real = r_.read<double>("BINFLOAT", true)}); return true;
      case 'X': push_text(r_.chars(r_.read<uint32_t>("BINUNICODE length"), "BINUNICODE")); return true;
      case 0x8c: case 'U': case 'C': push_text(r_.chars(r_.read<uint8_t>("string length"), "short string")); return true;
      case 'T': case 'B': push_text(r_.chars(r_.read<uint32_t>("string length"), "string")); return true;
      case 0x8d: case 0x8e: push_text(r_.chars(r_.read<uint64_t>("string length"), "long string")); return true;
      case 'q': memoize(r_.read<uint8_t>("BINPUT")); return true;
      case 'r': memoize(r_.read<uint32_t>("LONG_BINPUT")); return true;
      case 0x94: memoize(memo_.size()); return true;
      case 'h': recall(r_.read<uint8_t>("BINGET")); return true;
      case 'j': recall(r_.read<uint32_t>("LONG_BINGET")); return true;
      case 'c': {
        std::string module(line());
        global(module, line());
        return true;
      }
      case 0x93: {
        std::string name = object(pop()).text, module = object(pop()).text;
        global(module, name);
        return true;
      }
      case 'R': reduce(); return true;
      case 'b': build(); return true;
      case 'Q': persistent(); return true;
      case 't': push({.kind = Kind::tuple, .items = pop_to_mark()}); return true;
      case 0x85: tuple(1); return true;
      case 0x86: tuple(2); return true;
      case 0x87: tuple(3); return true;
      case 'l': push({.kind = Kind::list, .items = pop_to_mark()}); return true;
      case 'a': {
        int32_t item = pop();
        append(peek(), {item}, Kind::list);
        return true;
      }
      case 'e': {
        auto items = pop_to_mark();
        append(peek(), items, Kind::list);
        return true;
      }
      case 's': {
        int32_t value = pop(), key = pop();
        append(peek(), {key, value}, Kind::dict);
        return true;
      }
      case 'u': {
        auto items = pop_to_mark();
        append(peek(), items, Kind::dict);
        return true;
      }
      case '0': pop(); return true;
      case '1': pop_to_mark(); return true;
      case '2': stack_.push_back(peek()); return true;
      case 'i': case 'o': case 0x81: case 0x92: case 0x82: case 0x83: case 0x84: case 'P':
        fail(ErrorCode::invalid_file, "{}: forbidden opcode 0x{:02x} at offset {}: it makes objects by running code; the file is not loaded",
             r_.source(), op, r_.offset() - 1);
      default: bad(fmt::format("unknown opcode 0x{:02x}", op));
    }
  }

  ByteReader& r_;
  Pickle pickle_;
  std::vector<int32_t> stack_;
  std::unordered_map<uint64_t, int32_t> memo_;
};

Pickle Pickle::read(ByteReader& reader) { return PickleMachine(reader).run(); }

}  // namespace tenon::formats
