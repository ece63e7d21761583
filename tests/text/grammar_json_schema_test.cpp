// JSON Schema: the texts that each keyword takes and refuses, what is refused as a schema, and hostile schemas.
#include "text/grammar/json_schema.h"

#include <gtest/gtest.h>

#include "support/grammar_vocab.h"

namespace tenon::text::grammar {
namespace {

using test::TriePtr;

struct Row {
  const char* schema;
  std::vector<std::string> accepted, refused;
};

// \u20AC and friends are written as UTF-8 here; R"(\u20AC)" is the escape.
const std::vector<Row>& rows() {
  static const std::vector<Row> kRows = {
      // types
      {R"({"type": "null"})", {"null"}, {"", "nul", "nullnull", "0", "NULL", " null", "null "}},
      {R"({"type": "boolean"})", {"true", "false"}, {"True", "1", "truefalse", "\"true\""}},
      {R"({"type": "integer"})",
       {"0", "-1", "12", "999999999999999999"},
       {"-", "01", "+1", "1.0", "1e2", "-0", "1000000000000000000", ""}},
      {R"({"type": "number"})",
       {"0", "-0", "1.5", "-12.25", "1e10", "1E-5", "0.1e+2"},
       {".5", "1.", "01", "1e", "1e+", "--1", "NaN", "Infinity", "0x1"}},
      {R"({"type": "string"})",
       {R"("")", R"("a")", R"("\n\t\"\\\/\b\f\r")", R"("\u20aC")", "\"\xE2\x82\xAC\"", R"("\ud83d\ude00")",
        "\"\xF0\x9F\x98\x80\"", "\"\x7F\""},
       {"\"", "\"a", "a", "\"\n\"", R"("\x")", R"("\u12")", R"("\ud83d")", R"("\ude00")", R"("\ud83dx")", "\"\xFF\"",
        "\"\xC3\"", "\"\xED\xA0\x80\"", "\"\xC0\x80\"", "\"\xF4\x90\x80\x80\"", "'a'"}},
      {R"({"type": ["integer", "null"]})", {"1", "null"}, {"1.5", "\"1\"", "true"}},
      {R"({"type": "array"})", {"[]", "[1, \"a\", {}]", "[[[]]]"}, {"[", "[,]", "[1,]", "{}"}},
      {R"({"type": "object"})", {"{}", R"({"a": 1, "b": {"c": []}})"}, {"[]", R"({"a"})", R"({a: 1})", R"({"a": 1,})"}},
      {"true", {"1", "null", "[{}]", R"({"a": [true, false]})", "\"x\"", "-2.5e3"}, {"", "tru", "[", "1 2"}},
      {"{}", {"1", "\"x\"", "{}"}, {"x"}},

      // white space
      {R"({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}, "required": ["a"]})",
       {R"({"a":[1,2]})", R"({"a": [1, 2]})", "{\n  \"a\": [\n    1,\n    2\n  ]\n}", R"({ "a": [ 1, 2 ] })"},
       {R"({  "a":[1]})", "{\"a\"\n:[1]}", "{\"a\" :[1]}"}},

      // objects
      {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"],
           "additionalProperties": false})",
       {R"({"a": 1})", R"({"a": 1, "b": "x"})"},
       {"{}", R"({"b": "x"})", R"({"b": "x", "a": 1})", R"({"a": 1, "c": 2})", R"({"a": 1, "a": 2})", R"({"a": "1"})"}},
      {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}, "c": {"type": "integer"}},
           "additionalProperties": false})",
       {"{}", R"({"a": 1})", R"({"b": 1})", R"({"c": 1})", R"({"a": 1, "c": 1})", R"({"a": 1, "b": 1, "c": 1})"},
       {R"({"c": 1, "a": 1})", R"({, "a": 1})", R"({"a": 1, })", R"({"a": 1 "b": 1})"}},
      {R"({"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["z", "b"]})",
       {R"({"b": 1, "z": null})", R"({"b": 1, "z": [1]})"},
       {R"({"b": 1})", R"({"z": 1})"}},
      {R"({"type": "object", "properties": {"a": true}, "required": ["a"], "additionalProperties": {"type": "integer"}})",
       {R"({"a": "x"})", R"({"a": 1, "bc": 2, "": 3})"},
       {R"({"bc": 2})", R"({"a": 1, "bc": "x"})", R"({"a": 1, "a": 2})"}},
      {R"({"type": "object", "properties": {"a": {"type": "null"}}, "additionalProperties": {"type": "integer"}})",
       {"{}", R"({"a": null})", R"({"x": 1})", R"({"a": null, "x": 1})", R"({"aa": 1})"},
       {R"({"a": 1})", R"({"\u0061": 1})", R"({"x": 1, "a": null})"}},
      {R"({"type": "object", "additionalProperties": {"type": "boolean"}})",
       {"{}", R"({"a": true, "b": false})", "{\"\xC3\xA9\": true}"},
       {R"({"a": 1})", R"({"\u0041": true})"}},
      {R"({"type": "object", "properties": {"a\"b\\\n\u001f/": {"type": "null"}}, "required": ["a\"b\\\n\u001f/"],
           "additionalProperties": {"type": "integer"}})",
       {R"({"a\"b\\\n\u001f/": null})"},
       {R"({"a\"b\\\n\u001f/": null, "a\"b\\\n\u001F/": 1})", R"({"ab": null})"}},
      {R"({"type": "object", "patternProperties": {"^i_": {"type": "integer"}, "^s_": {"type": "string"}},
           "additionalProperties": false})",
       {"{}", R"({"i_a": 1})", R"({"s_": "x", "i_": 2})"},
       {R"({"i_a": "x"})", R"({"s_a": 1})", R"({"a": 1})", R"({"xi_a": 1})"}},
      {R"({"type": "object", "patternProperties": {"^[0-9]+$": {"type": "integer"}}, "additionalProperties":
           {"type": "null"}})",
       {R"({"12": 1, "a": null, "1a": null})"},
       {R"({"12": null})", R"({"a": 1})"}},
      {R"({"type": "object", "properties": {"i1": {"maximum": 5, "type": "integer"}},
           "patternProperties": {"^i": {"minimum": 3, "type": "integer"}}, "required": ["i1"]})",
       {R"({"i1": 3})", R"({"i1": 5, "i2": 9})"},
       {R"({"i1": 2})", R"({"i1": 6})", R"({"i1": 4, "i2": 2})"}},
      {R"({"type": "object", "propertyNames": {"pattern": "^[a-c]+$", "maxLength": 2}, "additionalProperties":
           {"type": "integer"}})",
       {"{}", R"({"ab": 1, "c": 2})"},
       {R"({"abc": 1})", R"({"d": 1})", R"({"": 1})"}},
      {R"({"type": "object", "propertyNames": {"enum": ["x", "y"]}, "additionalProperties": {"type": "integer"}})",
       {"{}", R"({"x": 1, "y": 2})"},
       {R"({"z": 1})", R"({"xy": 1})"}},
      {R"({"type": "object", "propertyNames": {"minLength": 2, "maxLength": 3}, "additionalProperties": true})",
       {"{}", R"({"ab": 1})", "{\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\": 1}"},
       {R"({"a": 1})", R"({"abcd": 1})"}},
      {R"({"type": "object", "properties": {"a": {"type": "null"}, "bb": {"type": "null"}},
           "propertyNames": {"maxLength": 1}, "additionalProperties": false})",
       {"{}", R"({"a": null})"},
       {R"({"bb": null})"}},
      {R"({"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2})",
       {"{}", R"({"a": 1, "b": 2})"},
       {R"({"a": 1, "b": 2, "c": 3})"}},
      {R"({"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1})",
       {R"({"a": 1})", R"({"a": 1, "b": 2})"},
       {"{}"}},
      {R"({"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}}, "minProperties": 1,
           "additionalProperties": false})",
       {R"({"a": null})", R"({"b": null})", R"({"a": null, "b": null})"},
       {"{}"}},
      {R"({"type": "object", "properties": {"a": {"type": "null"}}, "minProperties": 1,
           "additionalProperties": {"type": "integer"}})",
       {R"({"a": null})", R"({"b": 1})", R"({"a": null, "b": 1})"},
       {"{}"}},
      {R"({"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"], "minProperties": 2, "maxProperties": 3,
           "additionalProperties": {"type": "integer"}})",
       {R"({"a": null, "x": 1})", R"({"a": null, "x": 1, "y": 1})"},
       {R"({"a": null})", R"({"a": null, "x": 1, "y": 1, "z": 1})"}},
      {R"({"type": "object", "properties": {"a": false, "b": {"type": "null"}}, "additionalProperties": false})",
       {"{}", R"({"b": null})"},
       {R"({"a": 1})"}},

      // arrays
      {R"({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3})",
       {"[1]", "[1, 2]", "[1,2,3]"},
       {"[]", "[1,2,3,4]", "[\"a\"]"}},
      {R"({"type": "array", "maxItems": 0})", {"[]"}, {"[1]"}},
      {R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]})",
       {"[]", "[1]", "[1, \"a\"]"},
       {"[\"a\"]", "[1, 2]"}},
      {R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": {"type": "null"},
           "minItems": 2, "maxItems": 4})",
       {"[1, \"a\"]", "[1, \"a\", null]", "[1, \"a\", null, null]"},
       {"[1]", "[1, null]", "[1, \"a\", 2]", "[1, \"a\", null, null, null]"}},
      {R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "integer"}], "items": false, "maxItems": 9})",
       {"[]", "[1, 2]"},
       {"[1, 2, 3]"}},
      {R"({"type": "array", "prefixItems": [{"type": "integer"}], "minItems": 3})", {"[1, null, {}]"}, {"[1, 2]"}},
      {R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "integer"}, {"type": "integer"}], "maxItems": 2})",
       {"[]", "[1, 2]"},
       {"[1, 2, 3]"}},
      {R"({"type": "array", "items": false})", {"[]"}, {"[1]"}},
      {R"({"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": true})",
       {"[]", "[\"b\"]", "[\"c\", \"a\"]", "[\"a\",\"b\",\"c\"]"},
       {"[\"a\", \"a\"]", "[\"a\", \"b\", \"a\"]", "[\"d\"]"}},
      {R"({"type": "array", "items": {"enum": [1, 2, 3]}, "uniqueItems": true, "minItems": 2, "maxItems": 2})",
       {"[1, 3]", "[3, 1]"},
       {"[1]", "[1, 1]", "[1, 2, 3]"}},

      // strings
      {R"({"type": "string", "minLength": 2, "maxLength": 3})",
       {R"("ab")", R"("abc")", "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"", R"("\n\u00e9\ud83d\ude00")", R"("\\\\")"},
       {R"("a")", R"("abcd")", R"("\n")", R"("\ud83d\ude00")", "\"\xF0\x9F\x98\x80\"", R"("\n\n\n\n")"}},
      {R"({"type": "string", "maxLength": 0})", {R"("")"}, {R"("a")"}},
      {R"({"type": "string", "minLength": 100, "maxLength": 100})",
       {"\"" + std::string(100, 'a') + "\""},
       {"\"" + std::string(99, 'a') + "\"", "\"" + std::string(101, 'a') + "\""}},
      {R"({"type": "string", "pattern": "^[a-z]+-\\d{2,3}$"})",
       {R"("ab-12")", R"("z-123")"},
       {R"("ab-1")", R"("ab-1234")", R"("-12")", R"("AB-12")", R"("ab-12\n")"}},
      {R"({"type": "string", "pattern": "b+"})",
       {R"("abba")", R"("b")", R"("\"b\\")",
        "\"\xC3\xA9"
        "b\""},
       {R"("")", R"("aaa")"}},
      {R"J({"type": "string", "pattern": "^(foo|bar)"})J", {R"("foo")", R"("barx")"}, {R"("xfoo")", R"("fo")"}},
      {R"J({"type": "string", "pattern": "(foo|bar)$"})J", {R"("foo")", R"("xbar")"}, {R"("foox")"}},
      {R"({"type": "string", "pattern": "^a|b$"})", {R"("ax")", R"("xb")", R"("a")"}, {R"("xa")", R"("bx")"}},
      {R"({"type": "string", "pattern": "^\"\\\\n\\n$"})", {R"("\"\\n\n")"}, {R"("\"\\n\\n")"}},
      {R"({"type": "string", "pattern": "^.{2}$", "minLength": 1})",
       {"\"\xE2\x82\xAC\xC3\xA9\""},
       {R"("a")", R"("\n\n")"}},
      {R"({"type": "string", "pattern": "^a*$", "minLength": 2, "maxLength": 4})",
       {R"("aa")", R"("aaaa")"},
       {R"("a")", R"("aaaaa")", R"("ab")"}},
      {R"({"allOf": [{"type": "string", "pattern": "a"}, {"pattern": "b"}]})",
       {R"("ab")", R"("ba")"},
       {R"("a")", R"("b")"}},

      // numbers
      {R"({"type": "integer", "minimum": 3, "maximum": 12})", {"3", "9", "10", "12"}, {"2", "13", "-5", "30", "3.0"}},
      {R"({"type": "integer", "exclusiveMinimum": -2, "exclusiveMaximum": 2})", {"-1", "0", "1"}, {"-2", "2", "-0"}},
      {R"({"type": "integer", "minimum": -120, "maximum": -9})", {"-120", "-99", "-9"}, {"-8", "-121", "0", "9"}},
      {R"({"type": "integer", "minimum": 0.5, "maximum": 2.5})", {"1", "2"}, {"0", "3"}},
      {R"({"type": "integer", "minimum": -9223372036854775808, "maximum": 9223372036854775807})",
       {"0", "-999999999999999999", "999999999999999999"},
       {"1.5"}},
      {R"({"type": "integer", "multipleOf": 7})", {"0", "7", "-14", "700"}, {"1", "71", "-1"}},
      {R"({"type": "integer", "multipleOf": 6, "minimum": 5, "maximum": 20})", {"6", "12", "18"}, {"0", "5", "24"}},
      {R"({"allOf": [{"type": "integer", "multipleOf": 4}, {"multipleOf": 6}]})", {"12", "24", "0"}, {"4", "6", "18"}},
      {R"({"type": "number", "multipleOf": 5})", {"0", "15"}, {"1", "7"}},
      {R"({"type": "number", "minimum": 0, "maximum": 1})",
       {"0", "0.0", "1", "1.0", "0.5", "0.999999"},
       {"-0.1", "1.1", "2", "1.000001"}},
      {R"({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1})",
       {"0.5", "0.000001"},
       {"0", "0.0", "1", "1.0"}},
      {R"({"type": "number", "minimum": -1.25, "maximum": 2.75})",
       {"-1.25", "-1", "0", "2.75", "2.7", "2.750", "-0.5"},
       {"-1.26", "2.76", "3", "-2", "-1.251"}},
      {R"({"type": "number", "exclusiveMinimum": -1.25, "exclusiveMaximum": -0.5})",
       {"-1.24", "-1", "-0.51"},
       {"-1.25", "-0.5", "-0.50", "0", "-1.3"}},
      {R"({"type": "number", "minimum": 1e3})", {"1000", "1000.5", "99999"}, {"999", "999.9", "0", "-1000"}},
      {R"({"type": "number", "maximum": 0})", {"0", "-1", "-0.5"}, {"0.1", "1"}},
      {R"({"type": "number", "maximum": 3, "exclusiveMaximum": 3})", {"2.9"}, {"3", "3.0"}},

      // enum, const
      {R"({"enum": ["a", 1, 1.5, true, null, [1, 2], {"k": "v"}, "\"\n"]})",
       {"\"a\"", "1", "1.5", "true", "null", "[1, 2]", R"({"k": "v"})", R"("\"\n")"},
       {"\"b\"", "2", "false", "[1]", "a"}},
      {R"({"const": "x"})", {"\"x\""}, {"\"y\"", "x"}},
      {R"({"type": "string", "enum": ["a", 1, "b"]})", {"\"a\"", "\"b\""}, {"1"}},
      {R"({"enum": ["a", "abc", "abcde"], "minLength": 2, "maxLength": 4})", {"\"abc\""}, {"\"a\"", "\"abcde\""}},
      {R"({"enum": [1, 5, 10, 2e22, "x"], "minimum": 4})", {"5", "10", "2e+22", "\"x\""}, {"1"}},
      {R"({"enum": [3, 4.0, 8, 6], "multipleOf": 4})", {"4.0", "8"}, {"3", "6"}},
      {R"({"allOf": [{"enum": ["a", "b"]}, {"enum": ["b", "c"]}]})", {"\"b\""}, {"\"a\"", "\"c\""}},
      {R"({"allOf": [{"enum": [{"a": 1, "b": 2}]}, {"enum": [{"b": 2, "a": 1}]}]})", {R"({"b": 2, "a": 1})"}, {"{}"}},

      // combinations
      {R"({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]})", {"12", "\"a\""}, {"\"ab\"", "1.5"}},
      {R"({"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"],
           "anyOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                     {"properties": {"b": {"type": "null"}}, "required": ["b"]}]})",
       {R"({"k": "x", "a": 1})", R"({"k": "x", "b": null})"},
       {R"({"k": "x"})", R"({"a": 1})"}},
      {R"({"oneOf": [{"type": "integer"}, {"type": "string"}]})", {"1", "\"a\""}, {"null", "1.5"}},
      {R"({"oneOf": [{"type": "object", "properties": {"t": {"const": "a"}, "x": {"type": "integer"}}, "required": ["t", "x"]},
                     {"type": "object", "properties": {"t": {"const": "b"}, "y": {"type": "null"}}, "required": ["t", "y"]}]})",
       {R"({"t": "a", "x": 1})", R"({"t": "b", "y": null})"},
       {R"({"t": "a", "y": null})", R"({"t": "c"})"}},
      {R"({"oneOf": [{"enum": [1, 2]}, {"enum": [3]}]})", {"1", "2", "3"}, {"4"}},
      {R"({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                     {"properties": {"b": {"type": "string"}}, "required": ["b"]}]})",
       {R"({"a": 1, "b": "x"})"},
       {R"({"a": 1})", R"({"b": "x"})"}},
      {R"({"allOf": [{"properties": {"a": {"type": "integer", "minimum": 2}}}, {"properties": {"a": {"maximum": 4}}}],
           "type": "object", "required": ["a"]})",
       {R"({"a": 2})", R"({"a": 4})"},
       {R"({"a": 1})", R"({"a": 5})"}},
      {R"({"allOf": [{"type": ["integer", "string"]}, {"type": ["string", "null"]}]})", {"\"x\""}, {"1", "null"}},
      {R"({"allOf": [{"anyOf": [{"minimum": 5}, {"maximum": 2}]}], "type": "integer"})", {"5", "2", "-7"}, {"3", "4"}},

      // references
      {R"({"$defs": {"n": {"type": "integer"}}, "type": "array", "items": {"$ref": "#/$defs/n"}})",
       {"[1, 2]"},
       {"[\"a\"]"}},
      {R"({"$defs": {"n": {"type": "integer", "minimum": 3}}, "$ref": "#/$defs/n", "maximum": 4})",
       {"3", "4"},
       {"2", "5"}},
      {R"({"definitions": {"a/b~c %": {"const": 7}}, "$ref": "#/definitions/a~1b~0c%20%25"})", {"7"}, {"8"}},
      {R"({"type": "object", "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
           "required": ["v", "next"], "additionalProperties": false})",
       {R"({"v": 1, "next": null})", R"({"v": 1, "next": {"v": 2, "next": {"v": 3, "next": null}}})"},
       {R"({"v": 1})", R"({"v": 1, "next": {"v": 2}})"}},
      {R"({"$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}, "$ref": "#/$defs/t"})",
       {"[]", "[[], [[]]]"},
       {"[1]", "[[]"}},
      {R"({"$defs": {"a": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/$defs/b"}}]},
                     "b": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/a"}}]}},
           "$ref": "#/$defs/a"})",
       {"1", "[\"x\"]", "[[1]]", "[[[\"x\"]], \"y\"]"},
       {"\"x\"", "[1]", "[[\"x\"]]"}},
      {R"({"title": "T", "description": "d", "default": 1, "examples": [1], "$comment": "c", "x-more": {}, "type": "integer"})",
       {"1"},
       {"null"}},
  };
  return kRows;
}

std::vector<Row> formats() {
  auto row = [](const std::string& format, std::vector<std::string> good, std::vector<std::string> bad) {
    static std::vector<std::unique_ptr<std::string>> kept;
    kept.push_back(std::make_unique<std::string>(R"({"type": "string", "format": ")" + format + "\"}"));
    Row r{kept.back()->c_str(), {}, {}};
    for (auto& s : good) r.accepted.push_back("\"" + s + "\"");
    for (auto& s : bad) r.refused.push_back("\"" + s + "\"");
    return r;
  };
  return {
      row("date", {"2024-02-29", "2000-02-29", "1999-12-31", "0001-01-01", "9999-12-31"},
          {"2023-02-29", "1900-02-29", "2024-13-01", "2024-04-31", "2024-1-1", "24-01-01", "2024-00-10", "2024-01-00",
           "2024-02-30"}),
      row("time", {"00:00:00Z", "23:59:59+14:00", "12:30:15.123456-05:30"},
          {"24:00:00Z", "12:60:00Z", "12:00:00", "12:00Z", "12:00:00+24:00", "12:00:00.Z"}),
      row("date-time", {"2024-02-29T12:00:00Z", "1985-04-12T23:20:50.52Z", "1996-12-19T16:39:57-08:00"},
          {"2024-02-29 12:00:00Z", "2024-02-29", "2023-02-29T12:00:00Z", "2024-02-29T12:00:00"}),
      row("duration", {"P1Y", "P1Y2M3D", "P3D", "P4W", "PT1H", "PT1H30M", "PT5S", "P1DT12H", "P2M", "PT36H"},
          {"P", "PT", "1Y", "P1", "P1W1D", "P1D2Y", "PT1D", "P1S", "P1Y2D", "PT1H5S"}),
      row("uuid", {"123e4567-e89b-12d3-a456-426614174000", "2EB8AA08-AA98-11EA-B4AA-73B441D16380"},
          {"123e4567e89b12d3a456426614174000", "123e4567-e89b-12d3-a456-42661417400",
           "123e4567-e89b-12d3-a456-42661417400g"}),
      row("email", {"a@b.co", "first.last+tag@sub.example.com", "x_y@example.org"},
          {"a", "@b.co", "a@", "a@b..co", ".a@b.co", "a.@b.co", "a..b@c.de", "a b@c.de", "a@-b.co"}),
      row("hostname", {"localhost", "example.com", "a-b.c1", "xn--bcher-kva.example"},
          {"-a.com", "a-.com", "a..b", "", "a_b", ".a", "a."}),
      row("ipv4", {"0.0.0.0", "255.255.255.255", "192.168.1.10"},
          {"256.1.1.1", "1.1.1", "1.1.1.1.1", "01.1.1.1", "1.1.1.a", "1.1.1.300"}),
      row("ipv6",
          {"::", "::1", "1::", "1:2:3:4:5:6:7:8", "2001:db8::1", "fe80::1:2:3:4",
           "ABCD:EF01:2345:6789:ABCD:EF01:2345:6789", "FF01:0:0:0:0:0:0:101", "::13.1.68.3", "::FFFF:129.144.52.38",
           "0:0:0:0:0:FFFF:129.144.52.38", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1::8", "1:2:3:4:5:6::8",
           "1::4:5:6:7:8", "64:ff9b::192.0.2.33", "1:2:3:4:5::1.2.3.4"},
          {"", ":", ":::", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1::2::3", "12345::", "g::1", "1:2:3:4:5:6:7:8::",
           "1:2:3:4:5:6:7::8:9", "::1:2:3:4:5:6:7:8", ":1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:", "1.2.3.4", "::1.2.3",
           "::256.1.1.1", "1:2:3:4:5:6:7:1.2.3.4", "::1.2.3.4:5", "1:2:3:4:5:6::1.2.3.4"}),
      row("uri",
          {"http://a", "https://example.com/a/b?c=d&e=%20f#frag", "ftp://ftp.is.co.za/rfc/rfc1808.txt",
           "http://h:65535/", "mailto:John.Doe@example.com", "news:comp.infosystems.www.servers.unix",
           "tel:+1-816-555-1212", "urn:oasis:names:specification:docbook:dtd:xml:4.1.2", "telnet://192.0.2.16:80/",
           "ldap://[2001:db8::7]/c=GB?one", "file:///etc/hosts", "http://user:pw@host/~x;y=1,2?q=/?#/?", "foo:"},
          {"", "a", "/a/b", "//host/x", "http", "1http://a", "http://a b", "http://a/%2", "http://a/%zz",
           "http://[1::2", "http://a/#x#y", "http://a/[", "ht^tp://a", "http://a:8a/", "http://h\\\\x",
           "http://a/<b>"}),
  };
}

void check(const Row& row, const TriePtr& trie) {
  SCOPED_TRACE(row.schema);
  std::shared_ptr<const Constraint> constraint;
  try {
    constraint = Constraint::compile(json_schema_grammar(parse_json(row.schema, "schema")), trie);
  } catch (const Error& e) {
    ADD_FAILURE() << e.what();
    return;
  }
  for (const std::string& text : row.accepted) EXPECT_TRUE(test::accepts(constraint, text)) << text;
  for (const std::string& text : row.refused) EXPECT_FALSE(test::accepts(constraint, text)) << text;
}

class JsonSchemaTexts : public testing::TestWithParam<int> {
 protected:
  TriePtr trie() const {
    return GetParam() == 0   ? test::byte_vocabulary()
           : GetParam() == 1 ? test::piece_vocabulary()
                             : test::real_vocabulary();
  }
};

TEST_P(JsonSchemaTexts, KeywordsTakeAndRefuse) {
  for (const Row& row : rows()) check(row, trie());
}

TEST_P(JsonSchemaTexts, FormatsTakeAndRefuse) {
  for (const Row& row : formats()) check(row, trie());
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, JsonSchemaTexts, testing::Values(0, 1, 2));

std::string refusal(std::string_view schema) {
  try {
    Constraint::compile(json_schema_grammar(parse_json(schema, "schema")), test::byte_vocabulary());
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(JsonSchema, RefusesWithAPointer) {
  const std::pair<const char*, const char*> kRefused[] = {
      {R"({"not": {}})", "#/not"},
      {R"({"properties": {"a/b": {"if": true}}})", "#/properties/a~1b/if"},
      {R"({"items": {"contains": {}}})", "#/items/contains"},
      {R"({"dependentRequired": {}})", "#/dependentRequired"},
      {R"({"unevaluatedProperties": false})", "#/unevaluatedProperties"},
      {R"({"type": "text"})", "#/type"},
      {R"({"type": ["string", "text"]})", "#/type/1"},
      {R"({"type": "string", "format": "iri"})", "#/format"},
      {R"J({"type": "string", "pattern": "("})J", "#/pattern"},
      {R"J({"type": "string", "pattern": "(?=a)"})J", "#/pattern"},
      {R"({"type": "string", "minLength": -1})", "#/minLength"},
      {R"({"type": "string", "maxLength": "3"})", "#/maxLength"},
      {R"({"type": "number", "multipleOf": 0})", "#/multipleOf"},
      {R"({"type": "number", "multipleOf": 0.1})", "#/multipleOf"},
      {R"({"$ref": "#/$defs/none"})", "#/$ref"},
      {R"({"$ref": "https://example.com/x"})", "#/$ref"},
      {R"({"$ref": 1})", "#/$ref"},
      {R"({"anyOf": []})", "#/anyOf"},
      {R"({"allOf": {}})", "#/allOf"},
      {R"({"enum": "x"})", "#/enum"},
      {R"({"required": "x"})", "#/required"},
      {R"({"properties": []})", "#/properties"},
      {R"({"items": 3, "type": "array"})", "#/items"},
      {R"({"type": "array", "uniqueItems": true})", "#/uniqueItems"},
      {R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", "#/oneOf"},
      {R"({"oneOf": [{"enum": [{"a": 1, "b": 2}]}, {"enum": [{"b": 2, "a": 1}]}]})", "#/oneOf"},
      // A string satisfies the first way too, as that says nothing of strings.
      {R"({"oneOf": [{"properties": {"a": {}}, "required": ["a"]}, {"type": "string"}]})", "#/oneOf"},
      {R"({"patternProperties": {"^a": {"type": "integer"}, "b$": {"type": "string"}}})", "#/patternProperties"},
  };
  for (auto [schema, pointer] : kRefused) {
    std::string message = refusal(schema);
    EXPECT_NE(message.find(std::string("JSON schema: ") + pointer), std::string::npos) << schema << ": " << message;
  }
}

TEST(JsonSchema, RefusesWhatNothingSatisfies) {
  for (const char* schema :
       {"false", R"({"type": "integer", "minimum": 3, "maximum": 2})",
        R"({"type": "string", "minLength": 2, "maxLength": 1})", R"({"enum": []})",
        R"({"allOf": [{"type": "string"}, {"type": "integer"}]})",
        R"({"type": "object", "properties": {"a": false}, "required": ["a"]})",
        R"({"type": "array", "minItems": 2, "maxItems": 1})", R"({"type": "array", "minItems": 1, "items": false})",
        R"({"$defs": {"a": {"type": "object", "properties": {"x": {"$ref": "#/$defs/a"}}, "required": ["x"]}},
            "$ref": "#/$defs/a"})"})
    EXPECT_NE(refusal(schema).find("matches nothing"), std::string::npos) << schema << ": " << refusal(schema);
}

// Refused or compiled, but soon.
TEST(JsonSchema, HostileSchemasEndInTime) {
  std::vector<std::string> hostile;
  std::string deep = R"({"type": "integer"})";
  for (int i = 0; i < 80; ++i) deep = R"({"type": "array", "items": )" + deep + "}";
  hostile.push_back(deep);
  hostile.push_back(R"({"$ref": "#"})");
  hostile.push_back(R"({"allOf": [{"$ref": "#"}]})");
  hostile.push_back(R"({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]})");
  hostile.push_back(R"({"anyOf": [{"allOf": [{"$ref": "#"}]}], "type": "object"})");
  hostile.push_back(R"({"oneOf": [{"$ref": "#"}, {"type": "null"}], "type": ["object", "null"]})");
  hostile.push_back(R"({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"})");
  hostile.push_back(R"({"items": {"allOf": [{"$ref": "#"}, {"items": {"$ref": "#"}}]}})");
  hostile.push_back(
      R"({"properties": {"a": {"allOf": [{"$ref": "#"}, {"properties": {"a": {"$ref": "#/properties/a"}}}]}}})");
  for (const char* bound : {"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"})
    for (const char* value : {"1000000", "4294967295", "4294967296", "1000000000000000", "18446744073709551615"})
      hostile.push_back(fmt::format(R"({{"{}": {}}})", bound, value));
  for (const char* bound : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
    for (const char* value :
         {"1e300", "-1e300", "1e-300", "123456789012345678901234567890", "0.1234567890123456789", "9999"})
      hostile.push_back(fmt::format(R"({{"type": "number", "{}": {}}})", bound, value));
  hostile.push_back(R"({"allOf": [{"multipleOf": 999999937}, {"multipleOf": 999999929}, {"multipleOf": 999999893}]})");
  hostile.push_back(R"({"enum": [1e300, -1e300], "type": "integer"})");
  for (const char* pattern : {"^(a|b|ab)*c{0,1000}$", "(a*)*b", "(x+x+)+y", "(a|a)*", ".*a.{30}$",
                              "^(.{1,500}){1,500}$", "(.*){50}", "^((((a{9}){9}){9}){9}){9}$", "a{0,1000000000}",
                              "(){0,1000000000}", "((){1000}){1000}", "\\\\p{L}{1,200}[^\\\\p{Lu}]{200}"})
    hostile.push_back(fmt::format(R"({{"type": "string", "pattern": "{}"}})", pattern));
  std::string every = "[", combined = "[";
  for (int i = 0; i < 24; ++i) {
    every += fmt::format(R"({}{{"anyOf": [{{"minimum": {}}}, {{"maximum": {}}}]}})", i ? "," : "", i, -i);
    combined += fmt::format(R"({}{{"anyOf": [{{"required": ["a{}"]}}, {{"required": ["b{}"]}}]}})", i ? "," : "", i, i);
  }
  hostile.push_back(R"({"allOf": )" + every + "]}");
  hostile.push_back(R"({"type": "object", "allOf": )" + combined + "]}");
  std::string doubling = R"({"$defs": {"d0": {"type": "null"})";
  for (int i = 1; i < 40; ++i)
    doubling +=
        fmt::format(R"(, "d{}": {{"allOf": [{{"$ref": "#/$defs/d{}"}}, {{"$ref": "#/$defs/d{}"}}]}})", i, i - 1, i - 1);
  hostile.push_back(doubling + R"(}, "$ref": "#/$defs/d39"})");
  std::string ways = R"({"$defs": {"d0": {"type": "null"})";
  for (int i = 1; i < 40; ++i)
    ways += fmt::format(
        R"(, "d{}": {{"type": "array", "prefixItems": [{{"$ref": "#/$defs/d{}"}}, {{"$ref": "#/$defs/d{}"}}], "minItems": 2}})",
        i, i - 1, i - 1);
  hostile.push_back(ways + R"(}, "$ref": "#/$defs/d39"})");
  std::string properties = R"({"type": "object", "properties": {)";
  for (int i = 0; i < 2000; ++i) properties += fmt::format(R"({}"p{}": {{"type": "integer"}})", i ? "," : "", i);
  hostile.push_back(properties + "}}");
  hostile.push_back(properties + R"(}, "additionalProperties": {"type": "string"}})");
  std::string numbers = R"({"enum": [)";
  for (int i = 0; i < 20000; ++i) numbers += fmt::format("{}\"value {}\"", i ? "," : "", i);
  hostile.push_back(numbers + "]}");
  for (const std::string& schema : hostile) {
    try {
      auto c = Constraint::compile(json_schema_grammar(parse_json(schema, "schema")), test::byte_vocabulary());
      ConstraintState state(c);
      std::vector<uint32_t> bits = test::mask_of(state, c->trie());
      EXPECT_FALSE(test::ids_of(bits).empty()) << schema.substr(0, 200);
      std::mt19937 random(1);
      for (int i = 0; i < 200 && !state.finished(); ++i) {
        std::vector<int32_t> ids = test::ids_of(test::mask_of(state, c->trie()));
        ASSERT_FALSE(ids.empty()) << schema.substr(0, 200);
        ASSERT_TRUE(state.accept(ids[random() % ids.size()]));
      }
    } catch (const Error& e) {
      EXPECT_NE(e.code(), ErrorCode::internal) << schema.substr(0, 200) << ": " << e.what();
    }
  }
}

TEST(JsonSchema, WithoutWhitespaceNothingIsBetween) {
  auto c =
      Constraint::compile(json_schema_grammar(parse_json(R"({"type": "object", "properties": {"a": {"type": "array"}},
      "required": ["a"]})",
                                                         "schema"),
                                              {.whitespace = false}),
                          test::byte_vocabulary());
  EXPECT_TRUE(test::accepts(c, R"({"a":[1,{"b":[]}]})"));
  for (const char* text : {R"({"a": []})", R"({ "a":[]})", R"({"a":[1, 2]})", R"({"a":[] })"})
    EXPECT_FALSE(test::accepts(c, text)) << text;
}

TEST(JsonSchema, AnyObject) {
  auto c = Constraint::compile(json_object_grammar(), test::piece_vocabulary());
  for (const char* text : {"{}", R"({"a": [1, "x", {"b": null}], "c": -1.5e3})"})
    EXPECT_TRUE(test::accepts(c, text)) << text;
  for (const char* text : {"[]", "1", "", R"({"a": })", "{}{}"}) EXPECT_FALSE(test::accepts(c, text)) << text;
}

}  // namespace
}  // namespace tenon::text::grammar
