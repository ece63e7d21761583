// The interpreter's bounds and positions; its semantics are in tests/golden/chat_templates (jinja_*.json, from
// Jinja 3.1.6).
#include <gtest/gtest.h>

#include "base/error.h"
#include "text/chat_template.h"

namespace tenon::text {
namespace {

std::string render(const std::string& source, const Json& context = Json::object()) {
  return ChatTemplate(source, "t").render_context(context, "2026-10-27 12:00:00");
}

std::string error_of(const std::string& source, const Json& context = Json::object()) {
  try {
    return "rendered " + std::to_string(render(source, context).size()) + " bytes";
  } catch (const Error& e) {
    return e.what();
  }
}

std::string repeated(const std::string& s, size_t n) {
  std::string out;
  for (size_t i = 0; i < n; ++i) out += s;
  return out;
}

struct Refused {
  const char* source;
  const char* message;
};

class Bounded : public testing::TestWithParam<Refused> {};

TEST_P(Bounded, IsRefused) {
  EXPECT_NE(error_of(GetParam().source).find(GetParam().message), std::string::npos) << error_of(GetParam().source);
}

INSTANTIATE_TEST_SUITE_P(
    Jinja, Bounded,
    testing::Values(
        Refused{"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "steps"},
        Refused{"{{ 'x' * 999999999 }}", "bytes"}, Refused{"{{ ('x' * 9999999) * 9999999 }}", "bytes"},
        Refused{"{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
                "bytes"},
        Refused{
            "{% set ns = namespace(l=[]) %}{% for i in range(999) %}{% set ns.l = ns.l + ['x' * 999999] %}{% endfor %}",
            "bytes"},
        Refused{"{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
                "bytes"},
        Refused{"{{ [0] * 99999999999 }}", "too long"}, Refused{"{{ range(999999) }}", "range too big"},
        Refused{"{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}",
                "nested"},
        Refused{"{% set ns = namespace() %}{% set ns.n = ns %}{{ ns }}", "nested"},
        Refused{"{% set ns = namespace() %}{% set ns.n = [ns] %}{{ ns.n == [ns.n] }}{{ ns }}", "nested"},
        Refused{"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "recursion"},
        Refused{"{% macro a() %}{% call a() %}{{ caller() }}{% endcall %}{% endmacro %}{{ a() }}", "recursion"},
        Refused{"{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}", "recursion"},
        Refused{"{{ 9 ** 999999999 }}", "127 bits"},
        Refused{"{{ 99999999999999999999999999999999999999999 }}", "127 bits"},
        Refused{"{{ '{:999999999}'.format(1) }}", "beyond"}, Refused{"{{ '%999999999d' % 1 }}", "beyond"},
        Refused{"{{ '%.99999f' % 1.0 }}", "precision"}, Refused{"{{ 'x'.center(999999999) }}", "beyond"},
        Refused{"{{ 'x'|indent(999999999) }}", "beyond"}, Refused{"{{ [1]|batch(999999999, 0)|list }}", "beyond"}));

TEST(Jinja, DeepSourceIsRefused) {
  constexpr size_t kDeep = 100000;
  for (auto [open, close] : std::initializer_list<std::pair<const char*, const char*>>{{"(", ")"},
                                                                                       {"[", "]"},
                                                                                       {"{1:", "}"},
                                                                                       {"-", ""},
                                                                                       {"not ", ""},
                                                                                       {"a[", "]"},
                                                                                       {"f(", ")"},
                                                                                       {"f(a=", ")"},
                                                                                       {"a if b else ", ""},
                                                                                       {"'x' is eq (", ")"}})
    EXPECT_NE(error_of("{{ " + repeated(open, kDeep) + "1" + repeated(close, kDeep) + " }}").find("nesting"),
              std::string::npos)
        << open;
  EXPECT_NE(error_of("{{ a" + repeated(".b", kDeep) + " }}").find("nesting"), std::string::npos);
  EXPECT_NE(error_of("{{ a" + repeated("|upper", kDeep) + " }}").find("nesting"), std::string::npos);
  EXPECT_NE(error_of(repeated("{% if 1 %}", kDeep)).find("nesting"), std::string::npos);
  EXPECT_NE(error_of("{% set " + repeated("(", kDeep) + "a" + repeated(")", kDeep) + " = 1 %}").find("nesting"),
            std::string::npos);
}

TEST(Jinja, LongChainsAreFine) {
  EXPECT_EQ(render("{{ 0" + repeated(" + 1", 5000) + " }}"), "5000");
  EXPECT_EQ(render("{{ ''" + repeated(" ~ 'x'", 5000) + " }}").size(), 5000u);
  EXPECT_EQ(render("{% if 0 %}" + repeated("{% elif 0 %}", 5000) + "{% else %}e{% endif %}"), "e");
}

TEST(Jinja, MessagesMayBeDeep) {
  Json deep = 1;
  for (int i = 0; i < 190; ++i) deep = Json::array({deep});
  EXPECT_EQ(render("{{ d|tojson }}", {{"d", deep}}), repeated("[", 190) + "1" + repeated("]", 190));
  std::string source =
      "{% macro m(v) %}{% if v is number %}{{ v }}{% else %}[{{ m(v[0]) }}]{% endif %}{% endmacro %}{{ m(d) }}";
  EXPECT_EQ(render(source, {{"d", deep}}), repeated("[", 190) + "1" + repeated("]", 190));
}

TEST(Jinja, ManyKeysAreFoundFast) {
  Json keys = Json::object();
  for (int i = 0; i < 20000; ++i) keys["key" + std::to_string(i)] = i;
  EXPECT_EQ(render("{% set ns = namespace(n=0) %}{% for k in d %}{% set ns.n = ns.n + d[k] %}{% endfor %}{{ ns.n }}",
                   {{"d", keys}}),
            "199990000");
}

TEST(Jinja, WhatOutlivesItsScopeStaysUsable) {
  EXPECT_EQ(render("{% set ns = namespace() %}{% for i in [1, 2] %}{% macro m() %}<{{ i }}>{% endmacro %}{% set ns.m = "
                   "m %}{% endfor %}"
                   "{{ ns.m() }}"),
            "<2>");
  EXPECT_EQ(render("{% set ns = namespace() %}{% for i in [1, 2] %}{% set ns.l = loop %}{% endfor %}{% for i in 'abc' "
                   "%}{% endfor %}"
                   "{{ ns.l.index }}"),
            "2");
  EXPECT_NE(
      error_of("{% set ns = namespace() %}{% for i in [1] recursive %}{% set ns.l = loop %}{% endfor %}{{ ns.l([1]) }}")
          .find("ended"),
      std::string::npos);
}

struct Position {
  const char* source;
  const char* where;
};

class Positions : public testing::TestWithParam<Position> {};

TEST_P(Positions, AreLineAndColumn) {
  std::string message = error_of(GetParam().source);
  EXPECT_TRUE(message.starts_with(GetParam().where)) << message;
}

INSTANTIATE_TEST_SUITE_P(Jinja, Positions,
                         testing::Values(Position{"{{ x.y }}", "t: line 1, column 5: 'x' is undefined"},
                                         Position{"a\r\nb {{ 1 + 'x' }}", "t: line 2, column 8: unsupported operand"},
                                         Position{"\xC3\xA9 {% nope %}", "t: line 1, column 6: unknown tag 'nope'"},
                                         Position{"{{ 'abc }}", "t: line 1, column 4: this string is not closed"},
                                         Position{"\n\n{% if x %}",
                                                  "t: line 3, column 11: expected 'elif' or 'else' or 'endif'"},
                                         Position{"{{ (1] }}", "t: line 1, column 6: unexpected ']', expected ')'"},
                                         Position{"{{ 1|nope }}", "t: line 1, column 6: there is no filter 'nope'"},
                                         Position{"{{ a }", "t: line 1, column 6: unexpected '}'"},
                                         Position{"\xFF", "t: line 1, column 1: the template is not valid UTF-8"},
                                         Position{"{# \n", "t: line 1, column 1: missing end of comment"}));

}  // namespace
}  // namespace tenon::text
