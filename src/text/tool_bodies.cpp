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

// "functions.get_weather:0<|sep|>" and the like: what stands before the name is known, the name ends where no name goes
// on.
std::string_view name_in(std::string_view header) {
  for (std::string_view before : {"function<｜tool▁sep｜>", "functions."})
    if (trim(header).starts_with(before)) header = trim(header).substr(before.size());
  header = trim(header);
  return header.substr(0, header.find_first_of(" \t\r\n<>[](){}:\"'`,;=|｜"));
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

// What a tool's schema says of a parameter; null: nothing.
Json parameter_schema(const Json& tools, std::string_view tool, std::string_view parameter) {
  if (!tools.is_array()) return nullptr;
  for (const Json& t : tools) {
    if (!t.is_object()) continue;
    const Json& f = function_of(t);
    if (!f.is_object() || f.value("name", Json()) != tool) continue;
    auto p = f.find("parameters");
    if (p == f.end() || !p->is_object() || !p->contains("properties")) return nullptr;
    const Json& all = (*p)["properties"];
    auto s = all.find(std::string(parameter));
    return s == all.end() ? Json() : *s;
  }
  return nullptr;
}

bool takes_string(const Json& schema) {
  auto type = schema.find("type");
  if (type == schema.end()) return false;
  if (type->is_string()) return *type == "string";
  return type->is_array() && std::find(type->begin(), type->end(), "string") != type->end();
}

bool read_python_value(std::string_view text, Json& out);

// A value written as bare text: text where the schema wants it, else what it reads as.
Json typed(std::string_view text, const Json& schema, bool text_for_sure = false) {
  if (text_for_sure || (schema.is_object() && takes_string(schema))) return std::string(text);
  const std::string_view bare = trim(text);
  if (bare == "True" || bare == "False") return bare == "True";
  if (bare == "None") return nullptr;
  if (auto value = parse(bare)) return *value;
  Json value;
  if ((bare.starts_with('[') || bare.starts_with('{')) && read_python_value(bare, value)) return value;
  return std::string(text);
}

// Takes text up to `mark` off `in`; false: it is not there.
bool cut(std::string_view& in, std::string_view mark, std::string_view& before) {
  const size_t at = in.find(mark);
  if (at == std::string_view::npos) return false;
  before = in.substr(0, at);
  in.remove_prefix(at + mark.size());
  return true;
}

// One line break right inside of the marks belongs to them.
std::string_view unwrap(std::string_view v) {
  if (v.starts_with('\n')) v.remove_prefix(1);
  if (v.ends_with('\n')) v.remove_suffix(1);
  return v;
}

bool finish(std::string_view name, const Json& arguments, std::vector<ToolCall>& calls) {
  if (name.empty()) return false;
  calls.push_back({"", std::string(name), dump(arguments)});
  return true;
}

// NAME> then <parameter=K>V</parameter>..., or the arguments as one JSON object.
bool read_parameters(std::string_view text, const Json& tools, std::vector<ToolCall>& calls) {
  std::string_view name, key, value;
  if (!cut(text, ">", name)) return false;
  name = trim(name);
  if (trim(text).starts_with('{')) return read_json_calls(name, trim(text), calls);
  Json arguments = Json::object();
  while (cut(text, "<parameter=", value)) {
    if (!cut(text, ">", key) || !cut(text, "</parameter>", value)) return false;
    arguments[std::string(trim(key))] = typed(unwrap(value), parameter_schema(tools, name, trim(key)));
  }
  return finish(name, arguments, calls);
}

// NAME then <arg_key>K</arg_key><arg_value>V</arg_value>...
bool read_arg_keys(std::string_view text, const Json& tools, std::vector<ToolCall>& calls) {
  const std::string_view name = trim(text.substr(0, text.find("<arg_key>")));
  if (name.find_first_of("<>{}\"\n") != std::string_view::npos) return false;
  Json arguments = Json::object();
  std::string_view key, value;
  while (cut(text, "<arg_key>", value)) {
    if (!cut(text, "</arg_key>", key) || !cut(text, "<arg_value>", value) || !cut(text, "</arg_value>", value))
      return false;
    arguments[std::string(trim(key))] = typed(value, parameter_schema(tools, name, trim(key)));
  }
  return finish(name, arguments, calls);
}

// NAME"> then <parameter name="K">V</parameter>..., the marks perhaps with a prefix, K perhaps followed by
// string="true".
bool read_invoke(std::string_view text, const Json& tools, std::vector<ToolCall>& calls) {
  std::string_view name, key, attributes, value;
  if (!cut(text, "\"", name) || !cut(text, ">", value)) return false;
  Json arguments = Json::object();
  while (cut(text, "parameter name=\"", value)) {
    if (!cut(text, "\"", key) || !cut(text, ">", attributes) || !cut(text, "parameter>", value)) return false;
    value = value.substr(0, value.rfind("</"));
    const bool is_text = attributes.find("string=\"true\"") != std::string_view::npos;
    arguments[std::string(key)] = typed(is_text ? value : unwrap(value), parameter_schema(tools, name, key), is_text);
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
    out = typed(text, nullptr);
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
      }
      if (key.get<std::string>().empty() || !take(separator) || !value(v, depth + 1)) return false;
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

bool read_json_calls(std::string_view header, std::string_view json, std::vector<ToolCall>& calls) {
  const auto value = parse(json);
  if (!value) return false;
  if (!trim(header).empty()) {
    const std::string_view name = name_in(header);
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

bool read_tagged_calls(ToolFormat::Body body, std::string_view text, const Json& tools, std::vector<ToolCall>& calls) {
  switch (body) {
    case ToolFormat::Body::parameters:
      return read_parameters(text, tools, calls);
    case ToolFormat::Body::arg_keys:
      return read_arg_keys(text, tools, calls);
    case ToolFormat::Body::invoke:
      return read_invoke(text, tools, calls);
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

}  // namespace tenon::text
