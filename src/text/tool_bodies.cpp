#include "text/tool_bodies.h"

#include <algorithm>

#include "base/error.h"

namespace tenon::text {
namespace {

constexpr std::string_view kBlank = " \t\r\n";
constexpr int kMostDepth = 64;
constexpr std::string_view kItem = "item";  // what the elements of lists are called

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

enum Kind : unsigned { kText = 1, kNull = 2, kNumber = 4, kBoolean = 8, kArray = 16, kObject = 32 };
constexpr unsigned kAny = 63, kBareText = kText | kNull;

unsigned kind_of(const Json& v) {
  return v.is_string()    ? kText
         : v.is_null()    ? kNull
         : v.is_boolean() ? kBoolean
         : v.is_array()   ? kArray
         : v.is_object()  ? kObject
                          : kNumber;
}

unsigned kind_called(const Json& type) {
  for (auto [name, kind] : {std::pair{"string", kText},
                            {"null", kNull},
                            {"number", kNumber},
                            {"integer", kNumber},
                            {"boolean", kBoolean},
                            {"array", kArray},
                            {"object", kObject}})
    if (type == name) return kind;
  return kAny;
}

// What a tool's schema says of values. It is its author's: a walk through it ends.
class SchemaWalk {
 public:
  explicit SchemaWalk(const Json& root) : root_(root) {}

  // The kinds of values that it takes.
  unsigned kinds(const Json& schema, int depth = 0) {
    if (!go_on(schema, depth)) return kAny;
    if (schema.contains("$ref")) {
      const Json* to = referred(schema);
      return to ? kinds(*to, depth + 1) : kAny;
    }
    if (auto value = schema.find("const"); value != schema.end()) return kind_of(*value);
    if (auto values = schema.find("enum"); values != schema.end() && values->is_array()) {
      unsigned all = 0;
      for (const Json& v : *values) all |= kind_of(v);
      return all;
    }
    for (const char* key : {"anyOf", "oneOf", "allOf"})
      if (auto ways = schema.find(key); ways != schema.end() && ways->is_array()) {
        unsigned all = 0;
        if (ways->empty() || (key == std::string_view("allOf") && ways->size() > 1)) all = kAny;
        for (const Json& w : *ways) all |= kinds(w, depth + 1);
        return all;
      }
    auto type = schema.find("type");
    if (type == schema.end()) return kAny;
    unsigned all = 0;
    for (const Json& t : type->is_array() ? *type : Json::array({*type})) all |= kind_called(t);
    return all;
  }

  // Adds the schemas of an object's member, or of a list's items for `key` kItem.
  void parts(const Json& schema, const std::string& key, std::vector<const Json*>& out, int depth = 0) {
    if (!go_on(schema, depth)) return;
    if (schema.contains("$ref"))
      if (const Json* to = referred(schema)) parts(*to, key, out, depth + 1);
    for (const char* ways : {"anyOf", "oneOf", "allOf"})
      if (auto all = schema.find(ways); all != schema.end() && all->is_array())
        for (const Json& w : *all) parts(w, key, out, depth + 1);
    auto add = [&](const Json& from, const std::string& name) {
      auto found = from.find(name);
      if (found != from.end()) out.push_back(&*found);
      return found != from.end();
    };
    auto properties = schema.find("properties");
    if (properties == schema.end() || !properties->is_object() || !add(*properties, key))
      add(schema, "additionalProperties");
    if (key != kItem) return;
    if (auto prefix = schema.find("prefixItems"); prefix != schema.end() && prefix->is_array())
      for (const Json& p : *prefix) out.push_back(&p);
    add(schema, "items");
  }

 private:
  static constexpr int kMostDepth = 8, kMostSteps = 1000;
  bool go_on(const Json& schema, int depth) {
    return schema.is_object() && depth <= kMostDepth && ++steps_ <= kMostSteps;
  }
  // The one inside of the root that a `$ref` names; nullptr: none.
  const Json* referred(const Json& schema) const {
    const Json& ref = schema["$ref"];
    if (!ref.is_string() || !ref.get_ref<const std::string&>().starts_with("#")) return nullptr;
    try {
      return &root_.at(Json::json_pointer(ref.get_ref<const std::string&>().substr(1)));
    } catch (const Json::exception&) {
      return nullptr;
    }
  }

  const Json& root_;
  int steps_ = 0;
};

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

// Takes the name off that stands first in a call; "": there is none.
std::string_view take_name(const ToolFormat& format, std::string_view& text) {
  const size_t end = std::min(text.find_first_of("<>{}\"\n"), text.size());
  const std::string_view name = trim(text.substr(0, end));
  text.remove_prefix(end);
  return text.starts_with(format.before_arguments.substr(0, 1)) ? name : std::string_view();
}

// A name, then marked arguments, or all of them as one JSON object.
bool read_tagged(const ToolFormat& format, std::string_view text, const Json& tools, std::vector<ToolCall>& calls) {
  const std::string_view name = take_name(format, text);
  if (text.find(format.key_begin) == std::string_view::npos)
    if (const size_t at = text.find('{'); at != std::string_view::npos)
      return read_json_calls(format, name, text.substr(at, text.rfind('}') + 1 - at), calls);
  const Json schema = schema_of(tools, name);
  Json arguments = Json::object();
  std::string_view before, key, attributes, value;
  while (cut(text, format.key_begin, before)) {
    if (!cut(text, format.key_end, key) || !cut(text, format.value_begin, attributes) ||
        !cut(text, format.value_end, value))
      return false;
    auto says = [&](std::string_view a) { return !a.empty() && attributes.find(a) != std::string_view::npos; };
    value = unwrap(value, format.around_value);
    arguments[std::string(trim(key))] =
        says(format.text_attribute) ? Json(std::string(value))
        : std::any_of(format.other_attributes.begin(), format.other_attributes.end(), says)
            ? typed(value)
            : typed(value, schema, trim(key));
  }
  return finish(name, arguments, calls);
}

// Elements <K>V</K>, V a text or elements: of a list they are called kItem. `mark` stands before each tag.
class ElementReader {
 public:
  ElementReader(std::string_view text, std::string_view mark, const Json& root) : in_(text), mark_(mark), root_(root) {}

  // False: they are not well-formed.
  bool arguments(Json& out) {
    Content c;
    const bool read = content({&root_}, c, 0);
    out = std::move(c.object);
    return read;
  }

 private:
  using Schemas = std::vector<const Json*>;  // of which one holds; empty: nothing is known
  struct Content {
    std::string_view text;  // without elements
    Json object = Json::object(), items = Json::array();
    bool list() const { return items.size() > 0 && object.size() == 1; }
  };

  // Up to the tag that ends it; at depth 0 to the end of the text.
  bool content(const Schemas& schemas, Content& c, int depth) {
    if (depth > kMostDepth) return false;
    for (bool first = true;; first = false) {
      const size_t at = in_.find(mark_);
      const std::string_view text = in_.substr(0, at);
      if (first) c.text = text;
      in_.remove_prefix(at == std::string_view::npos ? in_.size() : at + mark_.size());
      std::string_view key;
      const bool tag = in_.starts_with("<") && cut(in_, ">", key);
      const bool ends = tag ? key.starts_with("</") : depth == 0 && in_.empty();
      if (!(first && ends) && !trim(text).empty()) return false;
      if (ends || !tag) return ends && (depth == 0) != tag;
      const std::string name(key.substr(1));
      Json v;
      if (name.empty() || !value(parts(schemas, name), v, depth + 1)) return false;
      if (name == kItem) c.items.push_back(v);
      c.object[name] = std::move(v);
    }
  }
  bool value(const Schemas& schemas, Json& out, int depth) {
    Content c;
    if (!content(schemas, c, depth)) return false;
    unsigned kinds = schemas.empty() ? kAny : 0;
    for (const Json* s : schemas) kinds |= SchemaWalk(root_).kinds(*s);
    if (c.object.empty())
      out = scalar(c.text, kinds);
    else
      out = c.list() && (kinds & kArray) ? std::move(c.items) : std::move(c.object);
    return true;
  }
  static Json scalar(std::string_view text, unsigned kinds) {
    if (text.empty() && !(kinds & kText)) {
      if (kinds & kArray) return Json::array();
      if (kinds & kObject) return Json::object();
    }
    Json v = typed(text);
    return !v.is_string() && (kind_of(v) & kinds) ? v : Json(std::string(text));
  }
  Schemas parts(const Schemas& schemas, const std::string& name) {
    Schemas out;
    for (const Json* s : schemas) SchemaWalk(root_).parts(*s, name, out);
    return out;
  }

  std::string_view in_, mark_;
  const Json& root_;
};

// A name, then elements.
bool read_elements(const ToolFormat& format, std::string_view text, const Json& tools, std::vector<ToolCall>& calls) {
  const std::string_view name = take_name(format, text);
  std::string_view between;
  const Json schema = schema_of(tools, name);
  Json arguments;
  return cut(text, ">", between) && ElementReader(text, format.value_end, schema).arguments(arguments) &&
         finish(name, arguments, calls);
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
std::string_view call_name_in(const ToolFormat& format, std::string_view header) {
  if (const size_t at = header.find(format.before_name); at != std::string_view::npos)
    header.remove_prefix(at + format.before_name.size());
  header = trim(header);
  return header.substr(0, header.find_first_of(" \t\r\n<>[](){}:\"'`,;=|｜"));
}

bool read_json_calls(const ToolFormat& format, std::string_view header, std::string_view json,
                     std::vector<ToolCall>& calls) {
  const auto value = parse(json);
  if (!value) return false;
  if (!trim(header).empty()) {
    const std::string_view name = call_name_in(format, header);
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
    case ToolFormat::Body::tagged:
      return read_tagged(format, text, tools, calls);
    case ToolFormat::Body::elements:
      return read_elements(format, text, tools, calls);
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

BareText bare_text(const Json& parameters, std::string_view parameter) {
  if (!parameters.is_object()) return {};
  auto all = parameters.find("properties");
  if (all == parameters.end() || !all->is_object()) return {};
  auto schema = all->find(std::string(parameter));
  if (schema == all->end()) return {};
  const unsigned kinds = SchemaWalk(parameters).kinds(*schema);
  return {(kinds & kText) && !(kinds & ~kBareText), (kinds & kNull) != 0};
}

}  // namespace tenon::text
