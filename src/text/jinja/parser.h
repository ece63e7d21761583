// Tokens -> tree, by Jinja's grammar.
#pragma once
#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace tenon::text::jinja {

class Parser {
 public:
  Parser(Program& program, std::string_view source);
  Body parse();  // throws SyntaxFailure

 private:
  class Deeper;

  // tokens
  const Token& now() const { return tokens_[next_]; }
  const Token& ahead(size_t n) const { return tokens_[std::min(next_ + n, tokens_.size() - 1)]; }
  const Token& take() { return tokens_[next_ + 1 < tokens_.size() ? next_++ : next_]; }
  bool is_op(std::string_view text) const { return now().kind == TokenKind::op && now().text == text; }
  bool is_name(std::string_view text) const { return now().kind == TokenKind::name && now().text == text; }
  bool skip_op(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_op(std::string_view text);
  void expect_name(std::string_view text);
  std::string_view expect_identifier();
  [[noreturn]] void unexpected(std::string_view wanted) const;
  [[noreturn]] void fail_here(std::string message) const;

  // what the program owns
  Value literal(std::string text);
  Symbol symbol(std::string_view name);

  // statements
  Body body_until(std::initializer_list<std::string_view> ends);
  Statement print_statement();
  Statement statement();
  void end_block();
  Statement if_statement();
  Statement for_statement();
  Statement set_statement();
  Statement macro_statement();
  Statement call_statement();
  Statement filter_statement();
  Statement with_statement();
  Statement print_tag();
  Statement scope_statement(std::string_view end);
  Statement block_statement();
  Statement autoescape_statement();
  Statement refused(std::string_view tag);
  Target target(bool attributes);
  Target single_target(bool attributes);
  void signature(MacroBody& macro);
  void parse_macro_body(MacroBody& macro, std::string_view end);
  // Unknown filters and tests found since `before` are errors for sure.
  void harden(size_t before);

  // expressions
  Expr node(Expr::Kind kind, uint32_t at, std::vector<Expr> kids = {});
  Expr literal_node(uint32_t at, Value value);
  Expr name_node(uint32_t at, std::string_view name);
  Expr expression(bool conditional = true);
  Expr conditional();
  Expr any_of();
  Expr all_of();
  Expr negation();
  Expr comparison();
  Expr sum();
  Expr concat();
  Expr product();
  Expr power();
  Expr unary(bool with_filter = true);
  Expr primary();
  Expr postfix(Expr of);
  Expr filters_and_tests(Expr of);
  Expr filter(Expr of);
  Expr test(Expr of);
  Expr subscript(Expr of);
  Expr bracketed(Expr of, uint32_t at);
  Expr tuple(bool conditional, bool parenthesised, std::initializer_list<std::string_view> end_names = {});
  Expr list();
  Expr dict();
  std::string dotted_name();
  void call_args(Expr& call);
  void adopt_depth(Expr& outer, const Expr& inner);

  Program& program_;
  std::vector<Token> tokens_;
  size_t next_ = 0;
  int depth_ = 0, loops_ = 0;
  std::vector<MacroBody*> macros_;
  std::vector<SyntaxFailure> unknown_, unknown_for_sure_;
};

}  // namespace tenon::text::jinja
