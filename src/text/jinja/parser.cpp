#include "text/jinja/parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "text/jinja/chars.h"
#include "text/jinja/filters.h"
#include "text/jinja/numbers.h"
#include "text/jinja/tests.h"

namespace tenon::text::jinja {

// One level of nesting in the source.
class Parser::Deeper {
 public:
  explicit Deeper(Parser& parser) : parser_(parser) {
    if (++parser_.depth_ > kMaxSourceDepth) {
      --parser_.depth_;
      parser_.fail_here(fmt::format("more than {} levels of nesting", kMaxSourceDepth));
    }
  }
  ~Deeper() { --parser_.depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  Parser& parser_;
};

namespace {

uint32_t offset(const Token& token) { return static_cast<uint32_t>(token.offset); }

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::end:
      return "the end of the template";
    case TokenKind::data:
      return "text";
    case TokenKind::print_begin:
    case TokenKind::print_end:
    case TokenKind::block_begin:
    case TokenKind::block_end:
    case TokenKind::name:
    case TokenKind::op:
      return fmt::format("'{}'", token.text);
    default:
      return "a literal";
  }
}

}  // namespace

Parser::Parser(Program& program, std::string_view source) : program_(program), tokens_(lex(source)) {}

Body Parser::parse() {
  Body body = body_until({});
  harden(0);
  if (!unknown_for_sure_.empty()) throw unknown_for_sure_.front();
  return body;
}

bool Parser::skip_op(std::string_view text) {
  if (!is_op(text)) return false;
  take();
  return true;
}

bool Parser::skip_name(std::string_view text) {
  if (!is_name(text)) return false;
  take();
  return true;
}

void Parser::expect_op(std::string_view text) {
  if (!skip_op(text)) unexpected(fmt::format("'{}'", text));
}

void Parser::expect_name(std::string_view text) {
  if (!skip_name(text)) unexpected(fmt::format("'{}'", text));
}

std::string_view Parser::expect_identifier() {
  if (now().kind != TokenKind::name) unexpected("a name");
  return take().text;
}

void Parser::unexpected(std::string_view wanted) const {
  fail_here(fmt::format("expected {}, found {}", wanted, describe(now())));
}

void Parser::fail_here(std::string message) const { throw SyntaxFailure{now().offset, std::move(message)}; }

Value Parser::literal(std::string text) {
  program_.literals_.push_back(std::make_unique<Str>(nullptr, std::move(text), Marks{}, false));
  Str& s = *program_.literals_.back();
  (void)s.length();  // computed now: programs are shared by threads
  return Value::object(Kind::string, &s);
}

Symbol Parser::symbol(std::string_view name) {
  auto& symbols = program_.symbols_;
  auto found = program_.symbol_index_.find(std::string(name));
  if (found != program_.symbol_index_.end()) return found->second;
  Symbol s = static_cast<Symbol>(symbols.size());
  symbols.emplace_back(name);
  program_.symbol_index_.emplace(name, s);
  return s;
}

// ---- statements

Body Parser::body_until(std::initializer_list<std::string_view> ends) {
  Deeper deeper(*this);
  Body body;
  while (true) {
    const Token& token = now();
    if (token.kind == TokenKind::data) {
      Statement s{Statement::Kind::text};
      s.at = offset(token);
      s.value = literal(std::string(token.text));
      body.push_back(std::move(s));
      take();
    } else if (token.kind == TokenKind::print_begin) {
      take();
      body.push_back(print_statement());
      if (now().kind != TokenKind::print_end) unexpected("'}}'");
      take();
    } else if (token.kind == TokenKind::block_begin) {
      const Token& tag = ahead(1);
      if (tag.kind == TokenKind::name && std::find(ends.begin(), ends.end(), tag.text) != ends.end()) {
        take();
        return body;
      }
      take();
      body.push_back(statement());
      end_block();
    } else if (token.kind == TokenKind::end && ends.size() == 0) {
      return body;
    } else {
      std::string wanted;
      for (std::string_view e : ends) wanted += (wanted.empty() ? "'" : " or '") + std::string(e) + "'";
      unexpected(wanted);
    }
  }
}

Statement Parser::print_statement() {
  Statement s{Statement::Kind::print};
  s.at = offset(now());
  s.exprs.push_back(tuple(true, false));
  return s;
}

void Parser::end_block() {
  if (now().kind != TokenKind::block_end) unexpected("the end of this block, '%}'");
  take();
}

Statement Parser::statement() {
  if (now().kind != TokenKind::name) unexpected("a statement");
  uint32_t at = offset(now());
  std::string_view tag = take().text;
  Statement s = [&] {
    if (tag == "if") return if_statement();
    if (tag == "for") return for_statement();
    if (tag == "set") return set_statement();
    if (tag == "macro") return macro_statement();
    if (tag == "call") return call_statement();
    if (tag == "filter") return filter_statement();
    if (tag == "with") return with_statement();
    if (tag == "print") return print_tag();
    if (tag == "generation") return scope_statement("endgeneration");
    if (tag == "block") return block_statement();
    if (tag == "autoescape") return autoescape_statement();
    if (tag == "break") return Statement{Statement::Kind::break_};
    if (tag == "continue") return Statement{Statement::Kind::continue_};
    if (tag == "include" || tag == "import" || tag == "from" || tag == "extends") return refused(tag);
    throw SyntaxFailure{at, fmt::format("unknown tag '{}'", tag)};
  }();
  bool jump = s.kind == Statement::Kind::break_ || s.kind == Statement::Kind::continue_;
  if (jump && loops_ == 0) throw SyntaxFailure{at, fmt::format("'{}' outside of a loop", tag)};
  s.at = at;
  return s;
}

Statement Parser::if_statement() {
  Statement s{Statement::Kind::if_};
  size_t before = unknown_.size();
  while (true) {
    s.exprs.push_back(tuple(false, false));
    end_block();
    s.bodies.push_back(body_until({"elif", "else", "endif"}));
    std::string_view tag = take().text;
    if (tag == "elif") continue;
    if (tag == "else") {
      end_block();
      s.bodies.push_back(body_until({"endif"}));
      take();
    }
    break;
  }
  unknown_.resize(before);  // such filters matter only when they run
  return s;
}

Statement Parser::for_statement() {
  Statement s{Statement::Kind::for_};
  s.target = target(false);
  expect_name("in");
  s.exprs.push_back(tuple(false, false, {"recursive"}));
  size_t before = unknown_.size();
  if (skip_name("if")) s.exprs.push_back(expression());
  s.recursive = skip_name("recursive");
  end_block();
  ++loops_;
  s.bodies.push_back(body_until({"endfor", "else"}));
  --loops_;
  if (take().text == "else") {
    end_block();
    s.bodies.push_back(body_until({"endfor"}));
    take();
  }
  harden(before);
  return s;
}

Target Parser::single_target(bool attributes) {
  Target t;
  t.at = offset(now());
  if (skip_op("(")) {
    Target inner = target(attributes);
    expect_op(")");
    return inner;
  }
  std::string_view name = expect_identifier();
  if (name == "true" || name == "false" || name == "none" || name == "True" || name == "False" || name == "None")
    fail_here(fmt::format("can't assign to '{}'", name));
  t.symbol = symbol(name);
  if (attributes && skip_op(".")) {
    t.kind = Target::Kind::attribute;
    t.value = literal(std::string(expect_identifier()));
  }
  return t;
}

Target Parser::target(bool attributes) {
  Deeper deeper(*this);
  Target first = single_target(attributes);
  if (!is_op(",")) return first;
  Target all;
  all.kind = Target::Kind::tuple;
  all.at = first.at;
  all.items.push_back(std::move(first));
  while (skip_op(",")) {
    if (now().kind != TokenKind::name && !is_op("(")) break;
    if (is_name("in")) break;
    all.items.push_back(single_target(attributes));
  }
  return all;
}

Statement Parser::set_statement() {
  Statement s{Statement::Kind::set};
  s.target = target(true);
  if (skip_op("=")) {
    s.exprs.push_back(tuple(true, false));
    return s;
  }
  s.kind = Statement::Kind::set_block;
  size_t before = unknown_.size();
  if (is_op("|")) s.exprs.push_back(filters_and_tests(name_node(offset(now()), kBlockInput)));
  end_block();
  s.bodies.push_back(body_until({"endset"}));
  take();
  harden(before);
  return s;
}

void Parser::signature(MacroBody& macro) {
  expect_op("(");
  while (!is_op(")")) {
    if (!macro.parameters.empty()) expect_op(",");
    if (is_op(")")) break;
    std::string_view name = expect_identifier();
    macro.parameters.push_back(symbol(name));
    macro.parameter_names.push_back(literal(std::string(name)));
    macro.caller_is_parameter |= name == "caller";
    if (skip_op("="))
      macro.defaults.push_back(expression());
    else if (!macro.defaults.empty())
      fail_here("a parameter without default follows one with a default");
  }
  expect_op(")");
}

void Parser::parse_macro_body(MacroBody& macro, std::string_view end) {
  end_block();
  size_t before = unknown_.size();
  int loops = std::exchange(loops_, 0);
  macros_.push_back(&macro);
  macro.body = body_until({end});
  macros_.pop_back();
  loops_ = loops;
  take();
  harden(before);
}

Statement Parser::macro_statement() {
  Statement s{Statement::Kind::macro};
  s.macro = std::make_shared<MacroBody>();
  std::string_view name = expect_identifier();
  s.symbol = symbol(name);
  s.macro->name = literal(std::string(name));
  signature(*s.macro);
  parse_macro_body(*s.macro, "endmacro");
  return s;
}

Statement Parser::call_statement() {
  Statement s{Statement::Kind::call};
  s.macro = std::make_shared<MacroBody>();
  if (is_op("(")) signature(*s.macro);
  s.exprs.push_back(expression());
  if (s.exprs[0].kind != Expr::Kind::call) fail_here("expected a call");
  parse_macro_body(*s.macro, "endcall");
  return s;
}

Statement Parser::filter_statement() {
  Statement s{Statement::Kind::filter_block};
  size_t before = unknown_.size();
  s.exprs.push_back(filters_and_tests(filter(name_node(offset(now()), kBlockInput))));
  end_block();
  s.bodies.push_back(body_until({"endfilter"}));
  take();
  harden(before);
  return s;
}

Statement Parser::with_statement() {
  Statement s{Statement::Kind::with};
  while (now().kind != TokenKind::block_end) {
    if (!s.targets.empty()) expect_op(",");
    s.targets.push_back(single_target(false));
    expect_op("=");
    s.exprs.push_back(expression());
  }
  size_t before = unknown_.size();
  end_block();
  s.bodies.push_back(body_until({"endwith"}));
  take();
  harden(before);
  return s;
}

Statement Parser::print_tag() {
  Statement s{Statement::Kind::print};
  while (now().kind != TokenKind::block_end) {
    if (!s.exprs.empty()) expect_op(",");
    s.exprs.push_back(expression());
  }
  return s;
}

Statement Parser::scope_statement(std::string_view end) {
  Statement s{Statement::Kind::scope};
  size_t before = unknown_.size();
  int loops = std::exchange(loops_, 0);
  end_block();
  s.bodies.push_back(body_until({end}));
  take();
  loops_ = loops;
  harden(before);
  return s;
}

Statement Parser::block_statement() {
  std::string_view name = expect_identifier();
  skip_name("scoped");
  skip_name("required");
  Statement s = scope_statement("endblock");
  if (now().kind == TokenKind::name && now().text == name) take();
  s.kind = Statement::Kind::block;
  s.value = literal(std::string(name));
  return s;
}

Statement Parser::autoescape_statement() {
  Statement s{Statement::Kind::autoescape};
  s.exprs.push_back(expression());
  end_block();
  s.bodies.push_back(body_until({"endautoescape"}));
  take();
  return s;
}

Statement Parser::refused(std::string_view tag) {
  Statement s{Statement::Kind::refuse};
  s.value = literal(fmt::format("'{}' can't load other templates here", tag));
  s.exprs.push_back(expression());
  while (now().kind != TokenKind::block_end && now().kind != TokenKind::end) take();
  return s;
}

void Parser::harden(size_t before) {
  unknown_for_sure_.insert(unknown_for_sure_.end(), unknown_.begin() + static_cast<ptrdiff_t>(before), unknown_.end());
  unknown_.resize(before);
}

// ---- expressions

void Parser::adopt_depth(Expr& outer, const Expr& inner) {
  outer.depth = std::max<uint16_t>(outer.depth, static_cast<uint16_t>(inner.depth + 1));
  if (outer.depth > kMaxSourceDepth) fail_here(fmt::format("more than {} levels of nesting", kMaxSourceDepth));
}

Expr Parser::node(Expr::Kind kind, uint32_t at, std::vector<Expr> kids) {
  Expr e{kind};
  e.at = at;
  e.kids = std::move(kids);
  for (const Expr& kid : e.kids) adopt_depth(e, kid);
  return e;
}

namespace {

std::vector<Expr> pack(Expr a) {
  std::vector<Expr> v;
  v.push_back(std::move(a));
  return v;
}

std::vector<Expr> pack(Expr a, Expr b) {
  std::vector<Expr> v = pack(std::move(a));
  v.push_back(std::move(b));
  return v;
}

}  // namespace

Expr Parser::literal_node(uint32_t at, Value value) {
  Expr e = node(Expr::Kind::literal, at);
  e.value = std::move(value);
  return e;
}

Expr Parser::name_node(uint32_t at, std::string_view name) {
  Expr e = node(Expr::Kind::name, at);
  e.symbol = symbol(name);
  for (MacroBody* m : macros_) {
    m->uses_varargs |= name == "varargs";
    m->uses_kwargs |= name == "kwargs";
    m->uses_caller |= name == "caller";
  }
  return e;
}

Expr Parser::expression(bool with_conditional) {
  Deeper deeper(*this);
  return with_conditional ? conditional() : any_of();
}

Expr Parser::conditional() {
  size_t before = unknown_.size();
  Expr e = any_of();
  while (is_name("if")) {
    uint32_t at = offset(take());
    Expr condition = any_of();
    std::vector<Expr> kids = pack(std::move(condition), std::move(e));
    if (skip_name("else")) kids.push_back(expression());
    e = node(Expr::Kind::conditional, at, std::move(kids));
    unknown_.resize(before);  // such filters matter only when they run
  }
  return e;
}

Expr Parser::any_of() {
  Expr e = all_of();
  if (!is_name("or")) return e;
  uint32_t at = offset(now());
  std::vector<Expr> kids = pack(std::move(e));
  while (skip_name("or")) kids.push_back(all_of());
  return node(Expr::Kind::any_of, at, std::move(kids));
}

Expr Parser::all_of() {
  Expr e = negation();
  if (!is_name("and")) return e;
  uint32_t at = offset(now());
  std::vector<Expr> kids = pack(std::move(e));
  while (skip_name("and")) kids.push_back(negation());
  return node(Expr::Kind::all_of, at, std::move(kids));
}

Expr Parser::negation() {
  if (!is_name("not")) return comparison();
  Deeper deeper(*this);
  uint32_t at = offset(take());
  return node(Expr::Kind::negation, at, pack(negation()));
}

Expr Parser::comparison() {
  static constexpr std::pair<std::string_view, Op> kOps[] = {{"==", Op::eq}, {"!=", Op::ne}, {"<", Op::lt},
                                                             {"<=", Op::le}, {">", Op::gt},  {">=", Op::ge}};
  uint32_t at = offset(now());
  std::vector<Expr> kids = pack(sum());
  std::vector<Op> ops;
  while (true) {
    const Token& token = now();
    const auto* found = std::find_if(std::begin(kOps), std::end(kOps), [&](const auto& o) {
      return token.kind == TokenKind::op && token.text == o.first;
    });
    if (found != std::end(kOps)) {
      ops.push_back(found->second);
      take();
    } else if (skip_name("in")) {
      ops.push_back(Op::in);
    } else if (is_name("not") && ahead(1).kind == TokenKind::name && ahead(1).text == "in") {
      take();
      take();
      ops.push_back(Op::not_in);
    } else {
      break;
    }
    if (ops.size() == 1) at = offset(token);
    kids.push_back(sum());
  }
  if (ops.empty()) return std::move(kids[0]);
  Expr e = node(Expr::Kind::compare, at, std::move(kids));
  e.ops = std::move(ops);
  return e;
}

Expr Parser::sum() {
  Expr first = concat();
  if (!is_op("+") && !is_op("-")) return first;
  uint32_t at = offset(now());
  std::vector<Expr> kids = pack(std::move(first));
  std::vector<Op> ops;
  while (is_op("+") || is_op("-")) {
    ops.push_back(take().text == "+" ? Op::add : Op::subtract);
    kids.push_back(concat());
  }
  Expr e = node(Expr::Kind::binary, at, std::move(kids));
  e.ops = std::move(ops);
  return e;
}

Expr Parser::concat() {
  Expr e = product();
  if (!is_op("~")) return e;
  uint32_t at = offset(now());
  std::vector<Expr> kids = pack(std::move(e));
  while (skip_op("~")) kids.push_back(product());
  return node(Expr::Kind::concat, at, std::move(kids));
}

Expr Parser::product() {
  static constexpr std::pair<std::string_view, Op> kOps[] = {
      {"*", Op::multiply}, {"/", Op::divide}, {"//", Op::floor_divide}, {"%", Op::modulo}};
  std::vector<Expr> kids = pack(power());
  std::vector<Op> ops;
  uint32_t at = offset(now());
  while (now().kind == TokenKind::op) {
    const auto* found =
        std::find_if(std::begin(kOps), std::end(kOps), [&](const auto& o) { return now().text == o.first; });
    if (found == std::end(kOps)) break;
    ops.push_back(found->second);
    take();
    kids.push_back(power());
  }
  if (ops.empty()) return std::move(kids[0]);
  Expr e = node(Expr::Kind::binary, at, std::move(kids));
  e.ops = std::move(ops);
  return e;
}

// Jinja's `**` associates to the left.
Expr Parser::power() {
  Expr first = unary();
  if (!is_op("**")) return first;
  uint32_t at = offset(now());
  std::vector<Expr> kids = pack(std::move(first));
  while (skip_op("**")) kids.push_back(unary());
  Expr e = node(Expr::Kind::binary, at, std::move(kids));
  e.ops.assign(e.kids.size() - 1, Op::power);
  return e;
}

Expr Parser::unary(bool with_filter) {
  Deeper deeper(*this);
  uint32_t at = offset(now());
  Expr e = skip_op("-")   ? node(Expr::Kind::minus, at, pack(unary(false)))
           : skip_op("+") ? node(Expr::Kind::plus, at, pack(unary(false)))
                          : primary();
  e = postfix(std::move(e));
  return with_filter ? filters_and_tests(std::move(e)) : std::move(e);
}

Expr Parser::primary() {
  const Token& token = now();
  uint32_t at = offset(token);
  switch (token.kind) {
    case TokenKind::name: {
      std::string_view name = take().text;
      if (name == "true" || name == "True") return literal_node(at, Value::of(true));
      if (name == "false" || name == "False") return literal_node(at, Value::of(false));
      if (name == "none" || name == "None") return literal_node(at, Value::none());
      return name_node(at, name);
    }
    case TokenKind::string: {
      std::string text;
      while (now().kind == TokenKind::string) text += unescape(take());
      return literal_node(at, literal(std::move(text)));
    }
    case TokenKind::integer: {
      auto i = parse_integer(take().text, 0);
      if (!i) throw SyntaxFailure{at, "this is not an integer"};
      return literal_node(at, Value::of(*i));
    }
    case TokenKind::real:
      return literal_node(at, Value::of(parse_float(take().text).value_or(0.0)));
    default:
      break;
  }
  if (skip_op("(")) {
    Expr e = tuple(true, true);
    expect_op(")");
    return e;
  }
  if (is_op("[")) return list();
  if (is_op("{")) return dict();
  unexpected("an expression");
}

Expr Parser::tuple(bool with_conditional, bool parenthesised, std::initializer_list<std::string_view> end_names) {
  uint32_t at = offset(now());
  auto ends = [&] {
    TokenKind k = now().kind;
    if (k == TokenKind::print_end || k == TokenKind::block_end || is_op(")")) return true;
    return k == TokenKind::name && std::find(end_names.begin(), end_names.end(), now().text) != end_names.end();
  };
  std::vector<Expr> kids;
  bool is_tuple = false;
  while (true) {
    if (!kids.empty() && !is_tuple) break;
    if (ends()) break;
    kids.push_back(expression(with_conditional));
    is_tuple = is_op(",");
    if (is_tuple)
      take();
    else
      break;
  }
  if (!is_tuple && kids.size() == 1) return std::move(kids[0]);
  if (kids.empty() && !parenthesised) unexpected("an expression");
  return node(Expr::Kind::tuple, at, std::move(kids));
}

Expr Parser::list() {
  uint32_t at = offset(take());
  std::vector<Expr> kids;
  while (!is_op("]")) {
    if (!kids.empty()) expect_op(",");
    if (is_op("]")) break;
    kids.push_back(expression());
  }
  expect_op("]");
  return node(Expr::Kind::list, at, std::move(kids));
}

Expr Parser::dict() {
  uint32_t at = offset(take());
  std::vector<Expr> kids;
  while (!is_op("}")) {
    if (!kids.empty()) expect_op(",");
    if (is_op("}")) break;
    kids.push_back(expression());
    expect_op(":");
    kids.push_back(expression());
  }
  expect_op("}");
  return node(Expr::Kind::dict, at, std::move(kids));
}

Expr Parser::postfix(Expr of) {
  while (now().kind == TokenKind::op) {
    if (is_op(".") || is_op("[")) {
      of = subscript(std::move(of));
    } else if (is_op("(")) {
      Expr call = node(Expr::Kind::call, offset(now()), pack(std::move(of)));
      call_args(call);
      of = std::move(call);
    } else {
      break;
    }
  }
  return of;
}

Expr Parser::filters_and_tests(Expr of) {
  while (true) {
    if (is_op("|")) {
      take();
      of = filter(std::move(of));
    } else if (is_name("is")) {
      of = test(std::move(of));
    } else if (is_op("(")) {
      Expr call = node(Expr::Kind::call, offset(now()), pack(std::move(of)));
      call_args(call);
      of = std::move(call);
    } else {
      return of;
    }
  }
}

std::string Parser::dotted_name() {
  std::string name(expect_identifier());
  while (skip_op(".")) name += "." + std::string(expect_identifier());
  return name;
}

Expr Parser::filter(Expr of) {
  uint32_t at = offset(now());
  std::string name = dotted_name();
  auto index = filter_index(name);
  if (!index) unknown_.push_back({at, fmt::format("there is no filter '{}'", name)});
  Expr e = node(Expr::Kind::filter, at, pack(std::move(of)));
  e.symbol = index.value_or(kUnknownFunction);
  e.value = literal(std::move(name));
  if (is_op("(")) call_args(e);
  return e;
}

Expr Parser::test(Expr of) {
  uint32_t at = offset(take());
  bool negated = skip_name("not");
  std::string name = dotted_name();
  auto index = test_index(name);
  if (!index) unknown_.push_back({at, fmt::format("there is no test '{}'", name)});
  Expr e = node(Expr::Kind::test, at, pack(std::move(of)));
  e.symbol = index.value_or(kUnknownFunction);
  e.value = literal(name);
  const Token& token = now();
  bool starts_operand =
      token.kind == TokenKind::string || token.kind == TokenKind::integer || token.kind == TokenKind::real ||
      is_op("[") || is_op("{") ||
      (token.kind == TokenKind::name && token.text != "else" && token.text != "or" && token.text != "and");
  if (is_op("(")) {
    call_args(e);
  } else if (starts_operand) {
    if (is_name("is")) fail_here("tests can't be chained with 'is'");
    e.args = std::make_unique<CallArgs>();
    Deeper deeper(*this);
    Expr operand = primary();
    operand = postfix(std::move(operand));
    adopt_depth(e, operand);
    e.args->positional.push_back(std::move(operand));
  }
  return negated ? node(Expr::Kind::negation, at, pack(std::move(e))) : std::move(e);
}

Expr Parser::subscript(Expr of) {
  uint32_t at = offset(now());
  if (take().text == "[") return bracketed(std::move(of), at);
  const Token& token = now();
  if (token.kind == TokenKind::name) {
    Expr e = node(Expr::Kind::attribute, at, pack(std::move(of)));
    e.value = literal(std::string(take().text));
    return e;
  }
  if (token.kind != TokenKind::integer) unexpected("a name or number");
  auto index = parse_integer(take().text, 0);
  return node(Expr::Kind::item, at, pack(std::move(of), literal_node(at, Value::of(index.value_or(0)))));
}

Expr Parser::bracketed(Expr of, uint32_t at) {
  auto part = [&]() -> Expr {
    if (is_op(":") || is_op("]") || is_op(",")) return literal_node(offset(now()), Value::none());
    return expression();
  };
  if (is_op("]")) unexpected("a subscript");
  Expr first = part();
  if (is_op(":")) {
    std::vector<Expr> kids = pack(std::move(of), std::move(first));
    take();
    kids.push_back(part());
    kids.push_back(skip_op(":") ? part() : literal_node(at, Value::none()));
    expect_op("]");
    return node(Expr::Kind::slice, at, std::move(kids));
  }
  if (is_op(",")) {
    std::vector<Expr> keys = pack(std::move(first));
    while (skip_op(",")) keys.push_back(expression());
    first = node(Expr::Kind::tuple, at, std::move(keys));
  }
  expect_op("]");
  return node(Expr::Kind::item, at, pack(std::move(of), std::move(first)));
}

void Parser::call_args(Expr& call) {
  expect_op("(");
  call.args = std::make_unique<CallArgs>();
  CallArgs& args = *call.args;
  bool first = true;
  while (!is_op(")")) {
    if (!first) expect_op(",");
    if (is_op(")")) break;
    first = false;
    if (skip_op("*")) {
      if (args.star || args.star_star) fail_here("invalid syntax for a call");
      args.star = std::make_unique<Expr>(expression());
      adopt_depth(call, *args.star);
    } else if (skip_op("**")) {
      if (args.star_star) fail_here("invalid syntax for a call");
      args.star_star = std::make_unique<Expr>(expression());
      adopt_depth(call, *args.star_star);
    } else if (now().kind == TokenKind::name && ahead(1).kind == TokenKind::op && ahead(1).text == "=") {
      if (args.star_star) fail_here("invalid syntax for a call");
      for (const auto& other : args.named)
        if (other.first.str().view() == now().text)
          fail_here(fmt::format("the keyword argument '{}' is repeated", now().text));
      Value name = literal(std::string(take().text));
      take();
      Expr value = expression();
      adopt_depth(call, value);
      args.named.emplace_back(std::move(name), std::move(value));
    } else {
      if (args.star || args.star_star || !args.named.empty()) fail_here("invalid syntax for a call");
      args.positional.push_back(expression());
      adopt_depth(call, args.positional.back());
    }
  }
  expect_op(")");
}

Program::Program(std::string_view source, std::string_view name) : name_(name) {
  try {
    source_ = normalise_source(source);
    Parser parser(*this, source_);
    body_ = parser.parse();
  } catch (const Failure& f) {  // a number out of range
    fail(ErrorCode::invalid_file, "{}: {}", name_, f.message);
  } catch (const SyntaxFailure& f) {
    fail(ErrorCode::invalid_file, "{}: {}", where(f.offset), printable(f.message, 200));
  }
}

std::string Program::where(size_t offset) const {
  std::string_view before = std::string_view(source_).substr(0, offset);
  size_t line = static_cast<size_t>(std::count(before.begin(), before.end(), '\n')) + 1;
  size_t start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return fmt::format("{}: line {}, column {}", name_, line, count_chars(before.substr(start)) + 1);
}

}  // namespace tenon::text::jinja
