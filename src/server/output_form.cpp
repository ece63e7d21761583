#include "server/output_form.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "text/grammar/choices.h"
#include "text/grammar/grammar_text.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/regex_grammar.h"

namespace tenon::server {
namespace grammar = text::grammar;
namespace {

using Make = std::function<grammar::Grammar()>;

OutputForm form(const char* kind, const std::string& field, const std::string& source, Make make) {
  return {field, std::string(kind) + '\0' + source,
          [make = std::move(make)](const grammar::TokenTrie&) { return make(); }};
}

OutputForm regex_form(const std::string& pattern, const std::string& field) {
  return form("regex", field, pattern, [pattern] { return grammar::regex_grammar(pattern); });
}

OutputForm choice_form(const std::vector<std::string>& texts, const std::string& field) {
  if (texts.empty()) refuse(field, fmt::format("'{}' must be a list of at least one text", field));
  return form("choice", field, Json(texts).dump(-1, ' ', false, Json::error_handler_t::replace),
              [texts] { return grammar::choices_grammar(texts); });
}

OutputForm grammar_form(const std::string& source, const std::string& field) {
  return form("grammar", field, source, [source] { return grammar::grammar_of_text(source); });
}

// A schema is an object or its text.
OutputForm json_form(const Json& schema, const std::string& field) {
  if (!schema.is_string()) return schema_form(schema, field);
  try {
    return schema_form(parse_json(schema.get<std::string>(), field, 128), field);
  } catch (const Error& e) {
    refuse(field, e.what());
  }
}

void take_structured(Fields& f, const std::function<void(OutputForm)>& add) {
  const Json* wanted = f.take("structured_outputs");
  if (!wanted) return;
  Fields s(*wanted, f.path("structured_outputs"));
  if (const Json* schema = s.take("json")) add(json_form(*schema, s.path("json")));
  if (auto pattern = s.text("regex")) add(regex_form(*pattern, s.path("regex")));
  if (auto choice = s.texts("choice", 4096); !choice.empty()) add(choice_form(choice, s.path("choice")));
  if (auto source = s.text("grammar")) add(grammar_form(*source, s.path("grammar")));
  if (s.flag("json_object").value_or(false)) add(object_form(s.path("json_object")));
  s.unsupported("structural_tag");
  s.unsupported("whitespace_pattern");
  s.unsupported("disable_any_whitespace", {false});
  s.unsupported("disable_additional_properties", {false});
  s.finish();
}

}  // namespace

OutputForm schema_form(const Json& schema, const std::string& field) {
  return form("schema", field, schema.dump(-1, ' ', false, Json::error_handler_t::replace),
              [schema] { return grammar::json_schema_grammar(schema); });
}

OutputForm object_form(const std::string& field) {
  return form("object", field, "", [] { return grammar::json_object_grammar(); });
}

std::optional<OutputForm> output_format(const Json& format, const std::string& field) {
  Fields r(format, field);
  const std::string type = r.text("type").value_or("");
  std::optional<OutputForm> out;
  if (type == "json_object") {
    if (const Json* schema = r.take("schema"))
      out = schema_form(*schema, r.path("schema"));
    else
      out = object_form(field);
  } else if (type == "json_schema") {
    const Json* inside = r.take("json_schema");
    auto take = [&](Fields& s) {
      for (const char* name : {"name", "description", "strict"}) s.ignore(name);  // every schema is strict here
      out = schema_form(s.require("schema"), s.path("schema"));
    };
    if (inside) {
      Fields s(*inside, r.path("json_schema"));
      take(s);
      s.finish();
    } else {
      take(r);
    }
  } else if (type != "text") {
    refuse(r.path("type"),
           fmt::format("'{}' is '{}', not text, json_object or json_schema", r.path("type"), printable(type)));
  }
  r.finish();
  return out;
}

std::optional<OutputForm> take_output_form(Fields& f) {
  std::optional<OutputForm> out;
  auto add = [&](OutputForm next) {
    if (out) refuse(next.field, fmt::format("'{}' and '{}' ask for two forms of the answer", out->field, next.field));
    out = std::move(next);
  };
  if (const Json* format = f.take("response_format"))
    if (auto asked = output_format(*format, f.path("response_format"))) add(std::move(*asked));
  take_structured(f, add);
  if (const Json* schema = f.take("guided_json")) add(json_form(*schema, f.path("guided_json")));
  if (auto pattern = f.text("guided_regex")) add(regex_form(*pattern, f.path("guided_regex")));
  if (auto choice = f.texts("guided_choice", 4096); !choice.empty()) add(choice_form(choice, f.path("guided_choice")));
  if (auto source = f.text("guided_grammar")) add(grammar_form(*source, f.path("guided_grammar")));
  if (auto source = f.text("grammar")) add(grammar_form(*source, f.path("grammar")));
  if (const Json* schema = f.take("json_schema")) add(json_form(*schema, f.path("json_schema")));
  return out;
}

}  // namespace tenon::server
