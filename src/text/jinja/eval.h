// Runs a Program: one Evaluator per rendering. Bounded in steps, memory, text and depth (meter.h).
#pragma once
#include <ctime>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "text/jinja/args.h"
#include "text/jinja/ast.h"
#include "text/jinja/special.h"

namespace tenon::text::jinja {

struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<Symbol, Value>> variables;
  bool captured = false;  // by a macro: it stays
};

class Loop;

class Evaluator {
 public:
  // `now`: what strftime_now reads.
  Evaluator(const Program& program, Meter& meter, const std::tm& now);
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  void define(std::string_view name, const Value& value);
  // Throws Failure; where() says where.
  void render(TextBuilder& out);
  std::string where() const { return program_.where(at_); }

  Meter& meter() { return meter_; }
  const std::tm& now() const { return now_; }
  bool autoescape() const { return autoescape_; }
  Value call(const Value& callee, const Args& args);

  // Objects that live as long as the rendering.
  template <class T>
  T& own(std::unique_ptr<T> object) {
    meter_.hold(sizeof(T) + 32);
    T& reference = *object;
    owned_.push_back(std::move(object));
    return reference;
  }
  // What a Python generator or iterator is; `then`: the failure after the items.
  Value iterator(std::vector<Value> items, const char* name = "generator", std::optional<Failure> then = std::nullopt);

 private:
  friend class Macro;
  friend class SelfReference;
  enum class Flow : unsigned char { next, break_, continue_ };
  class Depth;

  Scope& enter(Scope& parent);
  void leave(Scope& scope);
  static void capture(Scope& scope);
  const Value* find(Symbol symbol, const Scope& scope) const;
  void assign(Symbol symbol, Value value, Scope& scope);
  void assign(const Target& target, const Value& value, Scope& scope);

  Flow execute(const Body& body, Scope& scope, TextBuilder& out);
  Flow execute(const Statement& s, Scope& scope, TextBuilder& out);
  void print_value(const Value& value, TextBuilder& out);
  Flow execute_if(const Statement& s, Scope& scope, TextBuilder& out);
  void execute_for(const Statement& s, Scope& scope, const Value& iterable, int depth, TextBuilder& out);
  void execute_set_block(const Statement& s, Scope& scope);
  void execute_macro(const Statement& s, Scope& scope);
  void execute_call(const Statement& s, Scope& scope, TextBuilder& out);
  Flow execute_filter_block(const Statement& s, Scope& scope, TextBuilder& out);
  Flow execute_with(const Statement& s, Scope& scope, TextBuilder& out);
  Flow execute_in_scope(const Body& body, Scope& scope, TextBuilder& out);
  Flow execute_autoescape(const Statement& s, Scope& scope, TextBuilder& out);
  Value captured(const Body& body, Scope& scope, Flow* flow = nullptr);
  Value macro_call(const MacroBody& macro, Scope& scope, const Args& args);
  void bind(const MacroBody& macro, Scope& scope, const Args& args);

  Value evaluate(const Expr& e, Scope& scope);
  Value evaluate_name(const Expr& e, Scope& scope);
  Value evaluate_attribute(const Expr& e, Scope& scope);
  Value evaluate_slice(const Expr& e, Scope& scope);
  Value evaluate_call(const Expr& e, Scope& scope, const Value* caller);
  Value evaluate_filter(const Expr& e, Scope& scope);
  Value evaluate_test(const Expr& e, Scope& scope);
  Value evaluate_binary(const Expr& e, Scope& scope);
  Value evaluate_compare(const Expr& e, Scope& scope);
  Value evaluate_concat(const Expr& e, Scope& scope);
  Value evaluate_logic(const Expr& e, Scope& scope);
  Value evaluate_container(const Expr& e, Scope& scope);
  Args evaluate_args(const CallArgs* args, Scope& scope);

  const Program& program_;
  Meter& meter_;
  std::tm now_;
  uint32_t at_ = 0;  // the expression that runs, for messages
  int depth_ = 0, call_depth_ = 0;
  bool autoescape_ = false;
  std::optional<Symbol> loop_symbol_, caller_symbol_, varargs_symbol_, kwargs_symbol_, input_symbol_;
  std::vector<std::unique_ptr<Object>> owned_;
  std::deque<Scope> scopes_;
  std::vector<Scope*> free_scopes_;
  std::vector<Loop*> free_loops_;
  std::vector<Value> globals_;          // by symbol
  std::vector<unsigned char> defined_;  // by symbol
  Scope root_;
  std::vector<std::pair<std::string_view, const Statement*>> blocks_;
};

}  // namespace tenon::text::jinja
