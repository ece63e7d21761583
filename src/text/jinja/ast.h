// A parsed template.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace tenon::text::jinja {

using Symbol = uint32_t;  // index of a variable's name

enum class Op : unsigned char {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  in,
  not_in
};

constexpr uint32_t kUnknownFunction = UINT32_MAX;

struct CallArgs;

struct Expr {
  enum class Kind : unsigned char {
    literal,    // value
    name,       // symbol
    attribute,  // kids[0].value
    item,       // kids[0][kids[1]]
    slice,      // kids[0][kids[1]:kids[2]:kids[3]]
    call,       // kids[0](args)
    filter,     // kids[0] | value(args)
    test,       // kids[0] is value(args)
    binary,     // kids, joined by ops from left to right
    compare,    // kids, chained by ops
    concat,     // kids
    all_of,     // and
    any_of,     // or
    negation,   // not kids[0]
    minus,
    plus,
    conditional,  // kids[1] if kids[0] else kids[2], or undefined
    list,
    tuple,
    dict,  // key, value, key, value ...
  };
  Kind kind;
  uint16_t depth = 1;
  uint32_t at = 0;    // offset in the source
  Symbol symbol = 0;  // a name; of filters and tests: their index, or kUnknownFunction
  Value value{};
  std::vector<Expr> kids{};
  std::vector<Op> ops{};
  std::unique_ptr<CallArgs> args{};
};

struct CallArgs {
  std::vector<Expr> positional;
  std::vector<std::pair<Value, Expr>> named;
  std::unique_ptr<Expr> star, star_star;
};

// What `set` and `for` assign to.
struct Target {
  enum class Kind : unsigned char { name, attribute, tuple };
  Kind kind = Kind::name;
  uint32_t at = 0;
  Symbol symbol = 0;  // of an attribute: its namespace
  Value value;        // an attribute's name
  std::vector<Target> items;
};

struct MacroBody;

struct Statement {
  enum class Kind : unsigned char {
    text,          // value
    print,         // exprs
    if_,           // exprs[i] -> bodies[i]; one body more is `else`
    for_,          // target in exprs[0] [if exprs[1]]: bodies[0] else bodies[1]
    set,           // target = exprs[0]
    set_block,     // target = bodies[0], through exprs[0] if it is there
    macro,         // symbol
    call,          // exprs[0] with macro as caller
    filter_block,  // exprs[0] of bodies[0]
    with,          // targets' values exprs, bodies[0]
    scope,         // bodies[0] in a scope of its own (generation)
    block,         // bodies[0], called value
    autoescape,    // exprs[0], bodies[0]
    break_,
    continue_,
    refuse,  // a statement that can't work here; value says why
  };
  Kind kind;
  bool recursive = false;
  uint32_t at = 0;
  Symbol symbol = 0;
  Value value{};
  Target target{};
  std::vector<Target> targets{};
  std::vector<Expr> exprs{};
  std::vector<std::vector<Statement>> bodies{};
  std::shared_ptr<MacroBody> macro{};
};

using Body = std::vector<Statement>;

struct MacroBody {
  Value name;  // undefined for call blocks
  std::vector<Symbol> parameters;
  std::vector<Value> parameter_names;
  std::vector<Expr> defaults;  // of the last parameters
  Body body;
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
  bool caller_is_parameter = false;
};

// The filters' input inside `{% filter %}` and `{% set x | f %}`: a name that no template can spell.
constexpr std::string_view kBlockInput = "<block>";

class Program {
 public:
  // Throws Error{invalid_file} with line and column.
  Program(std::string_view source, std::string_view name);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  const Body& body() const { return body_; }
  const std::vector<std::string>& symbols() const { return symbols_; }
  std::optional<Symbol> find_symbol(const std::string& name) const {
    auto found = symbol_index_.find(name);
    return found == symbol_index_.end() ? std::nullopt : std::optional<Symbol>(found->second);
  }
  const std::string& name() const { return name_; }
  // "NAME: line 3, column 7"
  std::string where(size_t offset) const;

 private:
  friend class Parser;
  std::string name_, source_;
  std::vector<std::unique_ptr<Str>> literals_;  // outlive the tree, which points to them
  std::vector<std::string> symbols_;
  std::unordered_map<std::string, Symbol> symbol_index_;
  Body body_;
};

}  // namespace tenon::text::jinja
