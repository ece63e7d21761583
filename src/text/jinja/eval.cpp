#include "text/jinja/eval.h"

#include "text/jinja/filters.h"
#include "text/jinja/globals.h"
#include "text/jinja/loop.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/tests.h"

namespace tenon::text::jinja {

class Macro : public Special {
 public:
  Macro(const MacroBody& body, Scope& scope) : body_(body), scope_(scope) {}

  std::optional<Value> attribute(Meter& meter, std::string_view name) override {
    if (name == "name") return body_.name.is(Kind::string) ? body_.name : Value::none();
    if (name == "arguments") return make_tuple(meter, body_.parameter_names);
    if (name == "catch_kwargs") return Value::of(body_.uses_kwargs);
    if (name == "catch_varargs") return Value::of(body_.uses_varargs);
    if (name == "caller") return Value::of(body_.uses_caller);
    return std::nullopt;
  }
  std::string text() const override {
    return body_.name.is(Kind::string) ? fmt::format("<Macro '{}'>", body_.name.str().view()) : "<Macro anonymous>";
  }
  Value call(Evaluator& evaluator, const Args& args) override { return evaluator.macro_call(body_, scope_, args); }

 private:
  const MacroBody& body_;
  Scope& scope_;
};

// `self`: its attributes are the template's blocks.
class BlockReference : public Special {
 public:
  explicit BlockReference(std::function<Value()> render) : render_(std::move(render)) {}
  Value call(Evaluator&, const Args&) override { return render_(); }

 private:
  std::function<Value()> render_;
};

class SelfReference : public Special {
 public:
  explicit SelfReference(Evaluator& evaluator) : evaluator_(evaluator) {}
  std::optional<Value> attribute(Meter&, std::string_view name) override {
    for (const auto& [block_name, block] : evaluator_.blocks_) {
      if (block_name != name) continue;
      const Body& body = block->bodies[0];
      auto render = [this, &body] { return evaluator_.captured(body, evaluator_.root_); };
      return Value::object(Kind::joiner, &evaluator_.own(std::make_unique<BlockReference>(render)));
    }
    return std::nullopt;
  }
  Value call(Evaluator&, const Args&) override { raise("'self' is not callable"); }

 private:
  Evaluator& evaluator_;
};

class Evaluator::Depth {
 public:
  Depth(int& depth, int most, const char* what) : depth_(depth) {
    if (depth_ >= most) raise("maximum recursion depth exceeded ({} nested {})", most, what);
    ++depth_;
  }
  ~Depth() { --depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  int& depth_;
};

namespace {

void collect_blocks(const Body& body, std::vector<std::pair<std::string_view, const Statement*>>& out) {
  for (const Statement& s : body) {
    if (s.kind == Statement::Kind::block) out.emplace_back(s.value.str().view(), &s);
    for (const Body& inner : s.bodies) collect_blocks(inner, out);
  }
}

}  // namespace

Evaluator::Evaluator(const Program& program, Meter& meter, const std::tm& now)
    : program_(program),
      meter_(meter),
      now_(now),
      loop_symbol_(program.find_symbol("loop")),
      caller_symbol_(program.find_symbol("caller")),
      varargs_symbol_(program.find_symbol("varargs")),
      kwargs_symbol_(program.find_symbol("kwargs")),
      input_symbol_(program.find_symbol(std::string(kBlockInput))),
      globals_(program.symbols().size()),
      defined_(program.symbols().size()) {
  const auto& names = global_names();
  for (size_t i = 0; i < names.size(); ++i) define(names[i], Value::function(static_cast<uint8_t>(i)));
  if (program.find_symbol("self")) {
    collect_blocks(program.body(), blocks_);
    define("self", Value::object(Kind::template_self, &own(std::make_unique<SelfReference>(*this))));
  }
}

Evaluator::~Evaluator() = default;

void Evaluator::define(std::string_view name, const Value& value) {
  auto symbol = program_.find_symbol(std::string(name));
  if (!symbol) return;
  globals_[*symbol] = value;
  defined_[*symbol] = 1;
}

void Evaluator::render(TextBuilder& out) { execute(program_.body(), root_, out); }

Value Evaluator::iterator(std::vector<Value> items, const char* name, std::optional<Failure> then) {
  meter_.hold(items.capacity() * sizeof(Value));
  auto it = std::make_unique<Iterator>(name);
  it->items = std::move(items);
  it->then = std::move(then);
  return Value::object(Kind::iterator, &own(std::move(it)));
}

// ---- scopes

Scope& Evaluator::enter(Scope& parent) {
  Scope* scope;
  if (free_scopes_.empty()) {
    meter_.hold(sizeof(Scope));
    scope = &scopes_.emplace_back();
  } else {
    scope = free_scopes_.back();
    free_scopes_.pop_back();
  }
  scope->parent = &parent;
  return *scope;
}

void Evaluator::leave(Scope& scope) {
  if (scope.captured) return;
  scope.variables.clear();
  free_scopes_.push_back(&scope);
}

void Evaluator::capture(Scope& scope) {
  for (Scope* s = &scope; s && !s->captured; s = s->parent) s->captured = true;
}

const Value* Evaluator::find(Symbol symbol, const Scope& scope) const {
  for (const Scope* s = &scope; s != &root_; s = s->parent)
    for (const auto& [name, value] : s->variables)
      if (name == symbol) return &value;
  return defined_[symbol] ? &globals_[symbol] : nullptr;
}

void Evaluator::assign(Symbol symbol, Value value, Scope& scope) {
  if (&scope == &root_) {
    globals_[symbol] = std::move(value);
    defined_[symbol] = 1;
    return;
  }
  for (auto& [name, old] : scope.variables) {
    if (name != symbol) continue;
    old = std::move(value);
    return;
  }
  meter_.step();
  scope.variables.emplace_back(symbol, std::move(value));
}

void Evaluator::assign(const Target& target, const Value& value, Scope& scope) {
  if (target.kind == Target::Kind::name) return assign(target.symbol, value, scope);
  at_ = target.at;
  if (target.kind == Target::Kind::tuple) {
    std::vector<Value> parts = elements(meter_, value);
    if (parts.size() != target.items.size())
      raise("{} values to unpack (expected {}, got {})", parts.size() < target.items.size() ? "not enough" : "too many",
            target.items.size(), parts.size());
    for (size_t i = 0; i < parts.size(); ++i) assign(target.items[i], parts[i], scope);
    return;
  }
  const Value* owner = find(target.symbol, scope);
  if (!owner || !owner->is(Kind::name_space)) raise("cannot assign attribute on non-namespace object");
  std::string_view name = target.value.str().view();
  if (name.starts_with('_')) raise("underscore-prefixed attribute '{}' on a namespace; please rename it", name);
  auto& space = owner->as<Namespace>();
  if (Value* old = space.find(name)) {
    *old = value;
    return;
  }
  meter_.hold(2 * sizeof(Value));
  space.items.emplace_back(target.value, value);
}

// ---- statements

Evaluator::Flow Evaluator::execute(const Body& body, Scope& scope, TextBuilder& out) {
  Depth deeper(depth_, kMaxEvalDepth, "blocks");
  for (const Statement& s : body) {
    Flow flow = execute(s, scope, out);
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

Evaluator::Flow Evaluator::execute(const Statement& s, Scope& scope, TextBuilder& out) {
  meter_.step();
  switch (s.kind) {
    case Statement::Kind::text:
      out.append(s.value.str().view(), false);
      break;
    case Statement::Kind::print:
      for (const Expr& e : s.exprs) {
        Value v = evaluate(e, scope);
        at_ = e.at;
        print_value(v, out);
      }
      break;
    case Statement::Kind::if_:
      return execute_if(s, scope, out);
    case Statement::Kind::for_: {
      Value iterable = evaluate(s.exprs[0], scope);
      at_ = s.exprs[0].at;
      execute_for(s, scope, iterable, 0, out);
      break;
    }
    case Statement::Kind::set: {
      Value v = evaluate(s.exprs[0], scope);
      assign(s.target, v, scope);
      break;
    }
    case Statement::Kind::set_block:
      execute_set_block(s, scope);
      break;
    case Statement::Kind::macro:
      execute_macro(s, scope);
      break;
    case Statement::Kind::call:
      execute_call(s, scope, out);
      break;
    case Statement::Kind::filter_block:
      return execute_filter_block(s, scope, out);
    case Statement::Kind::with:
      return execute_with(s, scope, out);
    case Statement::Kind::scope:
    case Statement::Kind::block:
      return execute_in_scope(s.bodies[0], scope, out);
    case Statement::Kind::autoescape:
      return execute_autoescape(s, scope, out);
    case Statement::Kind::break_:
      return Flow::break_;
    case Statement::Kind::continue_:
      return Flow::continue_;
    case Statement::Kind::refuse:
      at_ = s.at;
      raise("{}", s.value.str().view());
  }
  return Flow::next;
}

void Evaluator::print_value(const Value& value, TextBuilder& out) {
  if (autoescape_ && !value.is(Kind::undefined))
    print_escaped(meter_, out, value);
  else
    print(meter_, out, value);
}

Evaluator::Flow Evaluator::execute_if(const Statement& s, Scope& scope, TextBuilder& out) {
  for (size_t i = 0; i < s.exprs.size(); ++i) {
    Value v = evaluate(s.exprs[i], scope);
    at_ = s.exprs[i].at;
    if (truthy(v)) return execute(s.bodies[i], scope, out);
  }
  return s.bodies.size() > s.exprs.size() ? execute(s.bodies.back(), scope, out) : Flow::next;
}

void Evaluator::execute_for(const Statement& s, Scope& scope, const Value& iterable, int depth, TextBuilder& out) {
  Loop* loop = nullptr;
  if (free_loops_.empty()) {
    loop = &own(std::make_unique<Loop>());
  } else {
    loop = free_loops_.back();
    free_loops_.pop_back();
  }
  // A generator that fails does so when the loop gets there.
  std::optional<Failure> then;
  if (iterable.is(Kind::iterator)) then = std::exchange(iterable.as<Iterator>().then, std::nullopt);
  Loop::Filter filter;
  if (s.exprs.size() > 1)
    filter = [&](const Value& v) {
      Scope& inner = enter(scope);
      assign(s.target, v, inner);
      bool passes = truthy(evaluate(s.exprs[1], inner));
      leave(inner);
      return passes;
    };
  Loop::Recurse recurse;
  if (s.recursive)
    recurse = [&](const Value& again, int deeper_by) {
      Depth deeper(call_depth_, kMaxCallDepth, "recursive loops");
      TextBuilder text(meter_);
      text.set_markup(autoescape_);
      execute_for(s, scope, again, deeper_by, text);
      return text.finish();
    };
  loop->start(elements(meter_, iterable), std::move(filter), std::move(recurse), depth);

  Value loop_value = Value::object(Kind::loop, loop);
  bool any = false;
  Flow flow = Flow::next;
  while (flow != Flow::break_ && loop->advance()) {
    any = true;
    meter_.step();
    Scope& inner = enter(scope);
    assign(s.target, loop->current(), inner);
    if (loop_symbol_) inner.variables.emplace_back(*loop_symbol_, loop_value);
    flow = execute(s.bodies[0], inner, out);
    leave(inner);
  }
  loop->finish();
  if (!loop->escaped) free_loops_.push_back(loop);
  if (then && flow != Flow::break_) throw *then;
  if (!any && s.bodies.size() > 1) execute_in_scope(s.bodies[1], scope, out);
}

Value Evaluator::captured(const Body& body, Scope& scope, Flow* flow) {
  TextBuilder text(meter_);
  text.set_markup(autoescape_);
  Flow f = execute_in_scope(body, scope, text);
  if (flow) *flow = f;
  return text.finish();
}

Evaluator::Flow Evaluator::execute_in_scope(const Body& body, Scope& scope, TextBuilder& out) {
  Scope& inner = enter(scope);
  Flow flow = execute(body, inner, out);
  leave(inner);
  return flow;
}

void Evaluator::execute_set_block(const Statement& s, Scope& scope) {
  Value text = captured(s.bodies[0], scope);
  if (!s.exprs.empty()) {
    Scope& inner = enter(scope);
    assign(*input_symbol_, text, inner);
    text = evaluate(s.exprs[0], inner);
    leave(inner);
  }
  assign(s.target, text, scope);
}

void Evaluator::execute_macro(const Statement& s, Scope& scope) {
  capture(scope);
  assign(s.symbol, Value::object(Kind::macro, &own(std::make_unique<Macro>(*s.macro, scope))), scope);
}

void Evaluator::execute_call(const Statement& s, Scope& scope, TextBuilder& out) {
  capture(scope);
  Value caller = Value::object(Kind::macro, &own(std::make_unique<Macro>(*s.macro, scope)));
  Value v = evaluate_call(s.exprs[0], scope, &caller);
  print_value(v, out);
}

Evaluator::Flow Evaluator::execute_filter_block(const Statement& s, Scope& scope, TextBuilder& out) {
  Flow flow = Flow::next;
  Value text = captured(s.bodies[0], scope, &flow);
  Scope& inner = enter(scope);
  assign(*input_symbol_, text, inner);
  print_value(evaluate(s.exprs[0], inner), out);
  leave(inner);
  return flow;
}

Evaluator::Flow Evaluator::execute_with(const Statement& s, Scope& scope, TextBuilder& out) {
  Scope& inner = enter(scope);
  std::vector<Value> values;
  for (const Expr& e : s.exprs) values.push_back(evaluate(e, scope));
  for (size_t i = 0; i < values.size(); ++i) assign(s.targets[i], values[i], inner);
  Flow flow = execute(s.bodies[0], inner, out);
  leave(inner);
  return flow;
}

Evaluator::Flow Evaluator::execute_autoescape(const Statement& s, Scope& scope, TextBuilder& out) {
  bool before = std::exchange(autoescape_, truthy(evaluate(s.exprs[0], scope)));
  Flow flow = execute_in_scope(s.bodies[0], scope, out);
  autoescape_ = before;
  return flow;
}

// ---- macros

Value Evaluator::macro_call(const MacroBody& macro, Scope& scope, const Args& args) {
  Depth deeper(call_depth_, kMaxCallDepth, "macro calls");
  meter_.step(4);
  Scope& inner = enter(scope);
  bind(macro, inner, args);
  TextBuilder text(meter_);
  text.set_markup(autoescape_);
  execute(macro.body, inner, text);
  leave(inner);
  return text.finish();
}

void Evaluator::bind(const MacroBody& macro, Scope& scope, const Args& args) {
  std::string_view name = macro.name.is(Kind::string) ? macro.name.str().view() : "caller";
  size_t count = macro.parameters.size(), given = std::min(count, args.positional.size());
  std::vector<const Value*> values(count, nullptr);
  for (size_t i = 0; i < given; ++i) values[i] = &args.positional[i];
  if (args.positional.size() > count && !macro.uses_varargs)
    raise("macro '{}' takes not more than {} argument(s)", name, count);

  Ref<Dict> extra = make<Dict>(meter_);
  Value caller = Value::undefined(macro.name);
  for (const auto& [key, value] : args.named) {
    size_t i = given;
    while (i < count && macro.parameter_names[i].str().view() != key.str().view()) ++i;
    if (i < count)
      values[i] = &value;
    else if (key.str().view() == "caller" && macro.uses_caller && !macro.caller_is_parameter)
      caller = value;
    else if (macro.uses_kwargs)
      extra->set(key, value);
    else
      raise("macro '{}' takes no keyword argument '{}'", name, key.str().view());
  }
  size_t first_default = count - macro.defaults.size();
  for (size_t i = 0; i < count; ++i) {
    Value v = values[i]            ? *values[i]
              : i >= first_default ? evaluate(macro.defaults[i - first_default], scope)
                                   : Value::undefined(macro.parameter_names[i]);
    assign(macro.parameters[i], std::move(v), scope);
  }
  if (macro.uses_caller && !macro.caller_is_parameter) assign(*caller_symbol_, caller, scope);
  if (macro.uses_varargs)
    assign(*varargs_symbol_,
           make_tuple(meter_, {args.positional.begin() + static_cast<ptrdiff_t>(given), args.positional.end()}), scope);
  if (macro.uses_kwargs) assign(*kwargs_symbol_, to_value(extra), scope);
}

Value Evaluator::call(const Value& callee, const Args& args) {
  meter_.step();
  switch (callee.kind()) {
    case Kind::function:
      return call_global(*this, callee.aux(), args);
    case Kind::bound_method: {
      const BoundMethod& m = callee.as<BoundMethod>();
      return call_method(*this, m.self, m.name.str().view(), args);
    }
    case Kind::macro:
    case Kind::loop:
    case Kind::cycler:
    case Kind::joiner:
    case Kind::template_self:
      return callee.as<Special>().call(*this, args);
    default:
      break;
  }
  refuse_undefined(callee);
  raise("'{}' object is not callable", type_name(callee));
}

// ---- expressions

Value Evaluator::evaluate(const Expr& e, Scope& scope) {
  Depth deeper(depth_, kMaxEvalDepth, "expressions");
  meter_.step();
  switch (e.kind) {
    case Expr::Kind::literal:
      return e.value;
    case Expr::Kind::name:
      return evaluate_name(e, scope);
    case Expr::Kind::attribute:
      return evaluate_attribute(e, scope);
    case Expr::Kind::item: {
      Value owner = evaluate(e.kids[0], scope), key = evaluate(e.kids[1], scope);
      at_ = e.at;
      return item(meter_, owner, key);
    }
    case Expr::Kind::slice:
      return evaluate_slice(e, scope);
    case Expr::Kind::call:
      return evaluate_call(e, scope, nullptr);
    case Expr::Kind::filter:
      return evaluate_filter(e, scope);
    case Expr::Kind::test:
      return evaluate_test(e, scope);
    case Expr::Kind::binary:
      return evaluate_binary(e, scope);
    case Expr::Kind::compare:
      return evaluate_compare(e, scope);
    case Expr::Kind::concat:
      return evaluate_concat(e, scope);
    case Expr::Kind::all_of:
    case Expr::Kind::any_of:
    case Expr::Kind::negation:
    case Expr::Kind::conditional:
      return evaluate_logic(e, scope);
    case Expr::Kind::minus: {
      Value v = evaluate(e.kids[0], scope);
      at_ = e.at;
      return negate(v);
    }
    case Expr::Kind::plus: {
      Value v = evaluate(e.kids[0], scope);
      at_ = e.at;
      return plus(v);
    }
    case Expr::Kind::list:
    case Expr::Kind::tuple:
    case Expr::Kind::dict:
      return evaluate_container(e, scope);
  }
  return Value();
}

Value Evaluator::evaluate_name(const Expr& e, Scope& scope) {
  const Value* v = find(e.symbol, scope);
  if (!v) {
    at_ = e.at;
    return Value::undefined(make_string(meter_, program_.symbols()[e.symbol], false));
  }
  if (v->is(Kind::loop)) v->as<Loop>().escaped = true;
  return *v;
}

Value Evaluator::evaluate_attribute(const Expr& e, Scope& scope) {
  const Expr& of = e.kids[0];
  if (of.kind == Expr::Kind::name) {
    const Value* v = find(of.symbol, scope);
    if (v && v->is(Kind::loop)) {
      at_ = e.at;
      if (auto attribute_of_loop = v->as<Loop>().attribute(meter_, e.value.str().view())) {
        if (attribute_of_loop->is(Kind::bound_method)) v->as<Loop>().escaped = true;
        return *attribute_of_loop;
      }
    } else if (v) {
      meter_.step();
      at_ = e.at;
      return attribute(meter_, *v, e.value);
    }
  }
  Value owner = evaluate(of, scope);
  at_ = e.at;
  return attribute(meter_, owner, e.value);
}

Value Evaluator::evaluate_slice(const Expr& e, Scope& scope) {
  Value owner = evaluate(e.kids[0], scope), start = evaluate(e.kids[1], scope), stop = evaluate(e.kids[2], scope),
        step = evaluate(e.kids[3], scope);
  at_ = e.at;
  return slice(meter_, owner, start, stop, step);
}

Args Evaluator::evaluate_args(const CallArgs* args, Scope& scope) {
  Args out;
  if (!args) return out;
  out.positional.reserve(args->positional.size());
  for (const Expr& e : args->positional) out.positional.push_back(evaluate(e, scope));
  for (const auto& [name, e] : args->named) out.named.emplace_back(name, evaluate(e, scope));
  if (args->star) {
    std::vector<Value> more = elements(meter_, evaluate(*args->star, scope));
    out.positional.insert(out.positional.end(), more.begin(), more.end());
  }
  if (args->star_star) {
    Value more = evaluate(*args->star_star, scope);
    if (!more.is(Kind::dict)) raise("argument after ** must be a mapping, not {}", type_name(more));
    for (const auto& [key, value] : more.dict().items) {
      if (!key.is(Kind::string)) raise("keywords must be strings");
      meter_.step();
      out.named.emplace_back(key, value);
    }
  }
  return out;
}

Value Evaluator::evaluate_call(const Expr& e, Scope& scope, const Value* caller) {
  const Expr& callee = e.kids[0];
  Value self, function;
  bool method = false;
  if (callee.kind == Expr::Kind::attribute) {
    self = evaluate(callee.kids[0], scope);
    at_ = callee.at;
    method = find_method(self.kind(), callee.value.str().view()) == MethodKind::safe;
    if (!method) function = attribute(meter_, self, callee.value);
  } else {
    function = evaluate(callee, scope);
  }
  at_ = e.at;
  if (!method) refuse_undefined(function);
  Args args = evaluate_args(e.args.get(), scope);
  if (caller) args.named.emplace_back(make_string(meter_, "caller", false), *caller);
  at_ = e.at;
  return method ? call_method(*this, self, callee.value.str().view(), args) : call(function, args);
}

Value Evaluator::evaluate_filter(const Expr& e, Scope& scope) {
  Value input = evaluate(e.kids[0], scope);
  Args args = evaluate_args(e.args.get(), scope);
  at_ = e.at;
  if (e.symbol == kUnknownFunction) raise("there is no filter '{}'", e.value.str().view());
  return apply_filter(*this, e.symbol, input, args);
}

Value Evaluator::evaluate_test(const Expr& e, Scope& scope) {
  Value input = evaluate(e.kids[0], scope);
  Args args = evaluate_args(e.args.get(), scope);
  at_ = e.at;
  if (e.symbol == kUnknownFunction) raise("there is no test '{}'", e.value.str().view());
  return Value::of(apply_test(*this, e.symbol, input, args));
}

Value Evaluator::evaluate_binary(const Expr& e, Scope& scope) {
  Value left = evaluate(e.kids[0], scope);
  for (size_t i = 0; i < e.ops.size(); ++i) {
    Value right = evaluate(e.kids[i + 1], scope);
    at_ = e.at;
    switch (e.ops[i]) {
      case Op::add:
        left = add(meter_, left, right);
        break;
      case Op::subtract:
        left = subtract(left, right);
        break;
      case Op::multiply:
        left = multiply(meter_, left, right);
        break;
      case Op::divide:
        left = divide(left, right);
        break;
      case Op::floor_divide:
        left = floor_divide(left, right);
        break;
      case Op::modulo:
        left = modulo(meter_, left, right);
        break;
      default:
        left = power(left, right);
        break;
    }
  }
  return left;
}

Value Evaluator::evaluate_compare(const Expr& e, Scope& scope) {
  Value left = evaluate(e.kids[0], scope);
  for (size_t i = 0; i < e.ops.size(); ++i) {
    Value right = evaluate(e.kids[i + 1], scope);
    at_ = e.at;
    bool holds = false;
    switch (e.ops[i]) {
      case Op::eq:
        holds = equal(left, right);
        break;
      case Op::ne:
        holds = !equal(left, right);
        break;
      case Op::lt:
        holds = compare(left, right, "<") == -1;
        break;
      case Op::gt:
        holds = compare(left, right, ">") == 1;
        break;
      case Op::le: {
        int c = compare(left, right, "<=");
        holds = c == -1 || c == 0;
        break;
      }
      case Op::ge: {
        int c = compare(left, right, ">=");
        holds = c == 1 || c == 0;
        break;
      }
      case Op::in:
        holds = contains(meter_, right, left);
        break;
      default:
        holds = !contains(meter_, right, left);
        break;
    }
    if (!holds) return Value::of(false);
    left = std::move(right);
  }
  return Value::of(true);
}

Value Evaluator::evaluate_concat(const Expr& e, Scope& scope) {
  std::vector<Value> parts;
  parts.reserve(e.kids.size());
  for (const Expr& kid : e.kids) parts.push_back(evaluate(kid, scope));
  at_ = e.at;
  TextBuilder out(meter_);
  bool markup = false;
  if (autoescape_)
    for (const Value& v : parts) markup |= v.is(Kind::string) && v.str().markup();
  out.set_markup(markup);
  for (const Value& v : parts) {
    if (markup)
      print_escaped(meter_, out, v);
    else
      print(meter_, out, v);
  }
  return out.finish();
}

Value Evaluator::evaluate_logic(const Expr& e, Scope& scope) {
  switch (e.kind) {
    case Expr::Kind::negation: {
      Value v = evaluate(e.kids[0], scope);
      at_ = e.at;
      return Value::of(!truthy(v));
    }
    case Expr::Kind::conditional:
      if (truthy(evaluate(e.kids[0], scope))) return evaluate(e.kids[1], scope);
      if (e.kids.size() > 2) return evaluate(e.kids[2], scope);
      return Value::undefined();
    default:
      break;
  }
  bool stops_at = e.kind == Expr::Kind::any_of;
  Value v;
  for (const Expr& kid : e.kids) {
    v = evaluate(kid, scope);
    at_ = kid.at;
    if (&kid != &e.kids.back() && truthy(v) == stops_at) break;
  }
  return v;
}

Value Evaluator::evaluate_container(const Expr& e, Scope& scope) {
  if (e.kind == Expr::Kind::dict) {
    Ref<Dict> dict = make<Dict>(meter_);
    for (size_t i = 0; i < e.kids.size(); i += 2) {
      Value key = evaluate(e.kids[i], scope), value = evaluate(e.kids[i + 1], scope);
      at_ = e.at;
      dict->set(key, std::move(value));
    }
    return to_value(dict);
  }
  std::vector<Value> items;
  items.reserve(e.kids.size());
  for (const Expr& kid : e.kids) items.push_back(evaluate(kid, scope));
  at_ = e.at;
  return e.kind == Expr::Kind::list ? make_list(meter_, std::move(items)) : make_tuple(meter_, std::move(items));
}

}  // namespace tenon::text::jinja
