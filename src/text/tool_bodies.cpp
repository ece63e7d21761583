#include "text/tool_bodies.h"

#include <algorithm>

#include "base/error.h"

namespace tenon::text {
namespace {

constexpr std::string_view kBlank = " \t\r\n";
constexpr int kMostDepth = 64;

std::string_view trim(std::string_view s) {
  const size_t a = s.find_first_not_of(kBlank);
  return a == std::string_view::npos ? std::string_view() : s.substr(a, s.find_last_not_of(kBlank) - a + 1);
}

std::string dump(const Json& j) { return j.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::optional<Json> parse(std::string_view text) {
  try {
    return parse_json(text, "tool call", kMostDepth);
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool read_object(const Json& call, std::vector<ToolCall>& calls) {
  if (!call.is_object()) return false;
  ToolCall out;
  for (const char* key : {"name", "tool_name", "function"})
    if (auto v = call.find(key); v != call.end() && v->is_string() && out.name.empty())
      out.name = v->get<std::string>();
  if (out.name.empty()) return false;
  Json arguments = Json::object();
  for (const char* key : {"arguments", "parameters"})
    if (auto v = call.find(key); v != call.end()) arguments = *v;
  if (arguments.is_string()) {
    auto inner = parse(arguments.get<std::string>());
    if (!inner) return false;
    arguments = *inner;
  }
  if (arguments.is_null()) arguments = Json::object();
  if (!arguments.is_object()) return false;
  out.arguments = dump(arguments);
  calls.push_back(std::move(out));
  return true;
}

// The schema of a tool's arguments; null: it says nothing.
Json schema_of(const Json& tools, std::string_view tool) {
  if (!tools.is_array()) return nullptr;
  for (const Json& t : tools) {
    if (!t.is_object()) continue;
    const Json& f = function_of(t);
    if (f.is_object() && f.value("name", Json()) == tool) return f.value("parameters", Json());
  }
  return nullptr;
}

enum Kind : unsigned { kText = 1, kNull = 2, kOther = 4 };

unsigned kind_of_value(const Json& v) { return v.is_string() ? kText : v.is_null() ? kNull : kOther; }

// The kinds of values that a schema takes. It is the tool's author's: a `$ref` is followed inside of `root`.
unsigned kinds_of(const Json& root, const Json& schema, int depth = 0) {
  if (!schema.is_object() || depth > 8) return kOther;
  if (auto ref = schema.find("$ref"); ref != schema.end()) {
    if (!ref->is_string() || !ref->get_ref<const std::string&>().starts_with("#/")) return kOther;
    try {
      return kinds_of(root, root.at(Json::json_pointer(ref->get_ref<const std::string&>().substr(1))), depth + 1);
    } catch (const Json::exception&) {
      return kOther;
    }
  }
  if (auto value = schema.find("const"); value != schema.end()) return kind_of_value(*value);
  if (auto values = schema.find("enum"); values != schema.end() && values->is_array()) {
    unsigned all = 0;
    for (const Json& v : *values) all |= kind_of_value(v);
    return all;
  }
  for (const char* key : {"anyOf", "oneOf", "allOf"})
    if (auto ways = schema.find(key); ways != schema.end() && ways->is_array()) {
      unsigned all = 0;
      if (ways->empty() || (key == std::string_view("allOf") && ways->size() > 1)) all = kOther;
      for (const Json& w : *ways) all |= kinds_of(root, w, depth + 1);
      return all;
    }
  auto type = schema.find("type");
  if (type == schema.end()) return kOther;
  unsigned all = 0;
  for (const Json& t : type->is_array() ? *type : Json::array({*type}))
    all |= t == "string" ? kText : t == "null" ? kNull : kOther;
  return all;
}

bool read_python_value(std::string_view text, Json& out);

// A value that is written as JSON, or nearly so; else it is text.
Json typed(std::string_view text) {
  const std::string_view bare = trim(text);
  if (bare == "True" || bare == "False") return bare == "True";
  if (bare == "None") return nullptr;
  if (auto value = parse(bare)) return *value;
  Json value;
  if ((bare.starts_with('[') || bare.starts_with('{')) && read_python_value(bare, value)) return value;
  return std::string(text);
}

// A value written as bare text where the schema wants it.
Json typed(std::string_view text, const Json& schema, std::string_view parameter) {
  const BareText bare = bare_text(schema, parameter);
  if (!bare.text) return typed(text);
  return bare.null && text == "null" ? Json() : Json(std::string(text));
}

// Takes text up to `mark` off `in`; false: it is not there.
bool cut(std::string_view& in, std::string_view mark, std::string_view& before) {
  const size_t at = in.find(mark);
  if (at == std::string_view::npos) return false;
  before = in.substr(0, at);
  in.remove_prefix(at + mark.size());
  return true;
}

std::string_view unwrap(std::string_view v, std::string_view around) {
  if (v.starts_with(around)) v.remove_prefix(around.size());
  if (v.ends_with(around)) v.remove_suffix(around.size());
  return v;
}

bool finish(std::string_view name, const Json& arguments, std::vector<ToolCall>& calls) {
  if (name.empty()) return false;
  calls.push_back({"", std::string(name), dump(arguments)});
  return true;
}

// NAME> then <parameter=K>V</parameter>..., or the arguments as one JSON object.
bool read_parameters(const ToolFormat& format, std::string_view text, const Json& tools, std::vector<ToolCall>& calls) {
  std::string_view name, key, value;
  if (!cut(text, ">", name)) return false;
  name = trim(name);
  if (trim(text).starts_with('{')) return read_json_calls(name, trim(text), calls);
  const Json schema = schema_of(tools, name);
  Json arguments = Json::object();
  while (cut(text, "<parameter=", value)) {
    if (!cut(text, ">", key) || !cut(text, "</parameter>", value)) return false;
    arguments[std::string(trim(key))] = typed(unwrap(value, format.around_value), schema, trim(key));
  }
  return finish(name, arguments, calls);
}

// NAME then <arg_key>K</arg_key><arg_value>V</arg_value>...
bool read_arg_keys(std::string_view text, const Json& tools, std::vector<ToolCall>& calls) {
  const std::string_view name = trim(text.substr(0, text.find("<arg_key>")));
  if (name.find_first_of("<>{}\"\n") != std::string_view::npos) return false;
  const Json schema = schema_of(tools, name);
  Json arguments = Json::object();
  std::string_view key, value;
  while (cut(text, "<arg_key>", value)) {
    if (!cut(text, "</arg_key>", key) || !cut(text, "<arg_value>", value) || !cut(text, "</arg_value>", value))
      return false;
    arguments[std::string(trim(key))] = typed(value, schema, trim(key));
  }
  return finish(name, arguments, calls);
}

// NAME"> then <parameter name="K">V</parameter>..., K perhaps followed by string="true" or "false".
bool read_invoke(const ToolFormat& format, std::string_view text, const Json& tools, std::vector<ToolCall>& calls) {
  std::string_view name, key, attributes, value;
  if (!cut(text, "\"", name) || !cut(text, ">", value)) return false;
  const Json schema = schema_of(tools, name);
  Json arguments = Json::object();
  while (cut(text, "parameter name=\"", value)) {
    if (!cut(text, "\"", key) || !cut(text, ">", attributes) || !cut(text, argument_end(format), value)) return false;
    Json& out = arguments[std::string(key)];
    if (attributes.find("string=\"true\"") != std::string_view::npos)
      out = std::string(value);
    else
      out = attributes.find("string=\"false\"") != std::string_view::npos ? typed(value) : typed(value, schema, key);
  }
  return finish(name, arguments, calls);
}

// ---- Values of two notations that are nearly JSON.

class ValueReader {
 public:
  ValueReader(std::string_view text, bool python) : in_(text), python_(python) {}

  bool more() {
    in_.remove_prefix(std::min(in_.find_first_not_of(kBlank), in_.size()));
    return !in_.empty();
  }
  bool take(std::string_view what) {
    more();
    if (!in_.starts_with(what)) return false;
    in_.remove_prefix(what.size());
    return true;
  }
  std::string word() {
    more();
    const size_t n = std::min(in_.find_first_of(" \t\r\n()[]{},:=\"'<>|"), in_.size());
    std::string out(in_.substr(0, n));
    in_.remove_prefix(n);
    return out;
  }
  // Throws nothing: false and an unspecified value where the text is none.
  bool value(Json& out, int depth = 0) {
    if (depth > kMostDepth || !more()) return false;
    if (!python_ && take("<|\"|>")) return until("<|\"|>", out);
    if (in_[0] == '"' || (python_ && in_[0] == '\'')) return quoted(out);
    if (take("[")) return list(out, depth);
    if (take("{")) return map(out, depth);
    const std::string text = word();
    if (text.empty()) return false;
    out = typed(text);
    return true;
  }
  // KEY SEPARATOR VALUE, ... up to `end`.
  bool members(Json& out, std::string_view separator, std::string_view end, int depth) {
    out = Json::object();
    if (take(end)) return true;
    do {
      Json key, v;
      if (more() && (in_[0] == '"' || in_[0] == '\'' || in_.starts_with("<|\"|>"))) {
        if (!value(key, depth + 1) || !key.is_string()) return false;
      } else {
        key = word();
        if (key.get<std::string>().empty()) return false;
      }
      if (!take(separator) || !value(v, depth + 1)) return false;
      out[key.get<std::string>()] = v;
    } while (take(","));
    return take(end);
  }

 private:
  bool until(std::string_view end, Json& out) {
    std::string_view text;
    if (!cut(in_, end, text)) return false;
    out = std::string(text);
    return true;
  }
  bool quoted(Json& out) {
    const char quote = in_[0];
    std::string text = "\"";
    for (size_t i = 1; i < in_.size(); ++i) {
      const char c = in_[i];
      if (c == quote) {
        in_.remove_prefix(i + 1);
        auto parsed = parse(text + "\"");
        if (parsed) out = *parsed;
        return parsed.has_value();
      }
      if (c == '\\' && i + 1 < in_.size()) {
        text += in_[i + 1] == '\'' ? "'" : std::string{c, in_[i + 1]};
        ++i;
      } else if (c == '"') {
        text += "\\\"";
      } else if (c == '\n') {
        text += "\\n";
      } else {
        text += c;
      }
    }
    return false;
  }
  bool list(Json& out, int depth) {
    out = Json::array();
    if (take("]")) return true;
    do {
      Json v;
      if (!value(v, depth + 1)) return false;
      out.push_back(v);
    } while (take(","));
    return take("]");
  }
  bool map(Json& out, int depth) { return members(out, ":", "}", depth); }

  std::string_view in_;
  bool python_;
};

bool read_python_value(std::string_view text, Json& out) {
  ValueReader in(text, true);
  return in.value(out) && !in.more();
}

// call:NAME{K:V,...}
bool read_gemma(std::string_view text, std::vector<ToolCall>& calls) {
  ValueReader in(text, false);
  Json arguments;
  if (!in.take("call:")) return false;
  const std::string name = in.word();
  return in.take("{") && in.members(arguments, ":", "}", 0) && !in.more() && finish(name, arguments, calls);
}

// [NAME(K=V, ...), ...]
bool read_python(std::string_view text, std::vector<ToolCall>& calls) {
  ValueReader in(text, true);
  if (!in.take("[")) return false;
  std::vector<ToolCall> found;
  do {
    const std::string name = in.word();
    Json arguments;
    if (!in.take("(") || !in.members(arguments, "=", ")", 0) || !finish(name, arguments, found)) return false;
  } while (in.take(","));
  if (!in.take("]") || in.more()) return false;
  calls.insert(calls.end(), found.begin(), found.end());
  return true;
}

}  // namespace

// "functions.get_weather:0<|sep|>" and the like: what stands before the name is known, the name ends where no name goes
// on.
std::string_view call_name_in(std::string_view header) {
  for (std::string_view before : {"function<｜tool▁sep｜>", "functions."})
    if (trim(header).starts_with(before)) header = trim(header).substr(before.size());
  header = trim(header);
  return header.substr(0, header.find_first_of(" \t\r\n<>[](){}:\"'`,;=|｜"));
}

bool read_json_calls(std::string_view header, std::string_view json, std::vector<ToolCall>& calls) {
  const auto value = parse(json);
  if (!value) return false;
  if (!trim(header).empty()) {
    const std::string_view name = call_name_in(header);
    if (name.empty() || !value->is_object()) return false;
    calls.push_back({"", std::string(name), dump(*value)});
    return true;
  }
  if (!value->is_array()) return read_object(*value, calls);
  std::vector<ToolCall> found;
  for (const Json& call : *value)
    if (!read_object(call, found)) return false;
  calls.insert(calls.end(), found.begin(), found.end());
  return !found.empty();
}

bool read_tagged_calls(const ToolFormat& format, std::string_view text, const Json& tools,
                       std::vector<ToolCall>& calls) {
  switch (format.body) {
    case ToolFormat::Body::parameters:
      return read_parameters(format, text, tools, calls);
    case ToolFormat::Body::arg_keys:
      return read_arg_keys(text, tools, calls);
    case ToolFormat::Body::invoke:
      return read_invoke(format, text, tools, calls);
    case ToolFormat::Body::gemma:
      return read_gemma(text, calls);
    case ToolFormat::Body::python:
      return read_python(text, calls);
    case ToolFormat::Body::json:
    case ToolFormat::Body::none:
      break;
  }
  return false;
}

std::string_view argument_end(const ToolFormat& format) {
  switch (format.body) {
    case ToolFormat::Body::parameters:
      return "</parameter>";
    case ToolFormat::Body::arg_keys:
      return "</arg_value>";
    case ToolFormat::Body::invoke:
      return format.says_type ? "</｜DSML｜parameter>" : "</parameter>";
    case ToolFormat::Body::gemma:
      return "<|\"|>";
    default:
      return "";
  }
}

BareText bare_text(const Json& parameters, std::string_view parameter) {
  if (!parameters.is_object()) return {};
  auto all = parameters.find("properties");
  if (all == parameters.end() || !all->is_object()) return {};
  auto schema = all->find(std::string(parameter));
  if (schema == all->end()) return {};
  const unsigned kinds = kinds_of(parameters, *schema);
  return {(kinds & kText) && !(kinds & kOther), (kinds & kNull) != 0};
}

}  // namespace tenon::text
