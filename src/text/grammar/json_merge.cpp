#include "text/grammar/json_merge.h"

#include <algorithm>
#include <numeric>

namespace tenon::text::grammar {
namespace {

[[noreturn]] void bad(const std::string& pointer, std::string_view why) {
  fail(ErrorCode::invalid_argument, "JSON schema: {}: {}", printable(pointer, 300), why);
}

uint64_t count(const Json& v, const std::string& pointer) {
  if (v.is_number_float() && v.get<double>() >= 0 && v.get<double>() < 9e15 &&
      v.get<double>() == static_cast<double>(static_cast<uint64_t>(v.get<double>())))
    return static_cast<uint64_t>(v.get<double>());
  if (!v.is_number_integer() || (!v.is_number_unsigned() && v.get<int64_t>() < 0)) bad(pointer, "is not a count");
  return v.get<uint64_t>();
}

uint32_t type_named(const Json& v, const std::string& pointer) {
  static const std::pair<std::string_view, uint32_t> kTypes[] = {
      {"null", kNull},     {"boolean", kBoolean}, {"integer", kInteger}, {"number", kNumber | kInteger},
      {"string", kString}, {"array", kArray},     {"object", kObject}};
  if (!v.is_string()) bad(pointer, "is not a type's name");
  for (auto [name, bits] : kTypes)
    if (v.get_ref<const std::string&>() == name) return bits;
  bad(pointer, "is not a type's name");
}

uint32_t types_of(const Json& v, const std::string& pointer) {
  if (!v.is_array()) return type_named(v, pointer);
  uint32_t bits = 0;
  for (size_t i = 0; i < v.size(); ++i) bits |= type_named(v[i], pointer_to(pointer, std::to_string(i)));
  return bits;
}

void tighten(std::optional<Bound>& bound, Bound by, bool low) {
  if (bound) {
    int c = compare(by.value, bound->value);
    if (c == 0)
      by.exclusive |= bound->exclusive;
    else if ((c < 0) == low)
      return;
  }
  bound = std::move(by);
}

Bound bound_of(const Json& v, bool exclusive, const std::string& pointer) {
  if (!v.is_number()) bad(pointer, "is not a number");
  auto d = Decimal::parse(v.dump());
  if (!d)
    fail(ErrorCode::unsupported, "JSON schema: {}: a bound of this size cannot be enforced", printable(pointer, 300));
  return {*d, exclusive};
}

const Json& checked_list(const Json& v, const std::string& pointer) {
  if (!v.is_array() || v.empty()) bad(pointer, "is not a list of schemas");
  return v;
}

const Json& checked_map(const Json& v, const std::string& pointer) {
  if (!v.is_object()) bad(pointer, "is not an object");
  return v;
}

void restrict_values(MergedSchema& m, std::vector<Json> values) {
  if (m.values)
    std::erase_if(values, [&](const Json& v) {
      return std::none_of(m.values->begin(), m.values->end(), [&](const Json& w) { return same_value(v, w); });
    });
  m.values = std::move(values);
}

}  // namespace

bool same_value(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return a == b;
  if (a.type() != b.type() || !a.is_structured()) return a == b;
  if (a.size() != b.size()) return false;
  if (a.is_array()) return std::equal(a.begin(), a.end(), b.begin(), same_value);
  for (const auto& [key, value] : a.items()) {
    auto it = b.find(key);
    if (it == b.end() || !same_value(value, *it)) return false;
  }
  return true;
}

std::string pointer_to(const std::string& pointer, std::string_view key) {
  std::string out = pointer + "/";
  for (char c : key) {
    if (c == '~')
      out += "~0";
    else if (c == '/')
      out += "~1";
    else
      out.push_back(c);
  }
  return out;
}

bool is_annotation(std::string_view k) {
  static constexpr std::string_view kKnown[] = {"$schema",          "$id",           "$comment",    "$defs",
                                                "definitions",      "$anchor",       "title",       "description",
                                                "default",          "examples",      "example",     "deprecated",
                                                "readOnly",         "writeOnly",     "$vocabulary", "contentEncoding",
                                                "contentMediaType", "contentSchema", "strict"};
  return k.starts_with("x-") || std::find(std::begin(kKnown), std::end(kKnown), k) != std::end(kKnown);
}

bool MergedSchema::plain() const { return !typed && implied == 0 && !values && !impossible; }

std::optional<SchemaAt> SchemaDocument::pure_reference(const SchemaAt& at) const {
  if (!at.schema->is_object()) return std::nullopt;
  const std::string* reference = nullptr;
  for (const auto& [key, value] : at.schema->items()) {
    if (key == "$ref" && value.is_string())
      reference = &value.get_ref<const std::string&>();
    else if (!is_annotation(key))
      return std::nullopt;
  }
  if (!reference) return std::nullopt;
  return resolve(*reference, pointer_to(at.pointer, "$ref"));
}

SchemaAt SchemaDocument::resolve(const std::string& reference, const std::string& pointer) const {
  if (reference.empty() || reference[0] != '#')
    fail(ErrorCode::unsupported, "JSON schema: {}: \"{}\" is outside of this schema", printable(pointer, 300),
         printable(reference));
  std::string path;
  for (size_t i = 1; i < reference.size(); ++i) {  // %41 is A
    if (reference[i] == '%' && i + 2 < reference.size()) {
      path.push_back(static_cast<char>(std::strtol(reference.substr(i + 1, 2).c_str(), nullptr, 16)));
      i += 2;
    } else {
      path.push_back(reference[i]);
    }
  }
  try {
    Json::json_pointer p(path);
    return {&root_.at(p), where_ + path};
  } catch (const Json::exception&) {
    fail(ErrorCode::invalid_argument, "JSON schema: {}: \"{}\" leads nowhere", printable(pointer, 300),
         printable(reference));
  }
}

MergedSchema SchemaDocument::merge(const SchemaAt& at) const {
  MergedSchema m;
  m.pointer = at.pointer;
  merge_into(m, at);
  return m;
}

void SchemaDocument::merge_into(MergedSchema& m, const SchemaAt& at, int depth) const {
  meter_.spend(10);
  if (depth > 64) bad(at.pointer, "refers to itself");
  const Json& s = *at.schema;
  if (s.is_boolean()) {
    m.impossible |= !s.get<bool>();
    return;
  }
  if (!s.is_object()) bad(at.pointer, "is not a schema");
  for (const auto& [key, value] : s.items())
    if (!is_annotation(key)) keyword(m, key, value, at, depth);
  // Keywords that only mean something together.
  if (s.contains("properties") || s.contains("patternProperties") || s.contains("additionalProperties")) {
    MergedSchema::ObjectFacet f;
    auto take = [&](const char* name, auto& into) {
      if (auto it = s.find(name); it != s.end())
        for (const auto& [k, v] : checked_map(*it, pointer_to(at.pointer, name)).items())
          into.emplace_back(k, SchemaAt{&v, pointer_to(pointer_to(at.pointer, name), k)});
    };
    take("properties", f.properties);
    take("patternProperties", f.patterns);
    if (auto it = s.find("additionalProperties"); it != s.end())
      f.additional = SchemaAt{&*it, pointer_to(at.pointer, "additionalProperties")};
    m.objects.push_back(std::move(f));
  }
  if (s.contains("prefixItems") || s.contains("items")) {
    MergedSchema::ArrayFacet f;
    if (auto it = s.find("prefixItems"); it != s.end())
      for (size_t i = 0; i < checked_list(*it, pointer_to(at.pointer, "prefixItems")).size(); ++i)
        f.prefix.push_back({&(*it)[i], pointer_to(pointer_to(at.pointer, "prefixItems"), std::to_string(i))});
    if (auto it = s.find("items"); it != s.end()) f.items = SchemaAt{&*it, pointer_to(at.pointer, "items")};
    m.arrays.push_back(std::move(f));
  }
}

void SchemaDocument::keyword(MergedSchema& m, const std::string& key, const Json& v, const SchemaAt& at,
                             int depth) const {
  const std::string here = pointer_to(at.pointer, key);
  meter_.spend(1);
  if (key == "$ref") {
    if (!v.is_string()) bad(here, "is not a string");
    merge_into(m, resolve(v.get<std::string>(), here), depth + 1);
  } else if (key == "allOf") {
    for (size_t i = 0; i < checked_list(v, here).size(); ++i)
      merge_into(m, {&v[i], pointer_to(here, std::to_string(i))}, depth + 1);
  } else if (key == "anyOf" || key == "oneOf") {
    MergedSchema::Group g{{}, key == "oneOf", here};
    for (size_t i = 0; i < checked_list(v, here).size(); ++i)
      g.ways.push_back({&v[i], pointer_to(here, std::to_string(i))});
    m.groups.push_back(std::move(g));
  } else if (key == "type") {
    m.typed = true;
    m.types &= types_of(v, here);
  } else if (key == "enum") {
    if (!v.is_array()) bad(here, "is not a list");
    restrict_values(m, v.get<std::vector<Json>>());
  } else if (key == "const") {
    restrict_values(m, {v});
  } else if (key == "properties" || key == "patternProperties" || key == "additionalProperties") {
    m.implied |= kObject;
  } else if (key == "required") {
    m.implied |= kObject;
    if (!v.is_array()) bad(here, "is not a list of names");
    for (const Json& name : v) {
      if (!name.is_string()) bad(here, "is not a list of names");
      if (std::find(m.required.begin(), m.required.end(), name.get<std::string>()) == m.required.end())
        m.required.push_back(name.get<std::string>());
    }
  } else if (key == "propertyNames") {
    m.implied |= kObject;
    m.names.push_back({&v, here});
  } else if (key == "minProperties") {
    m.implied |= kObject;
    m.min_properties = std::max(m.min_properties, count(v, here));
  } else if (key == "maxProperties") {
    m.implied |= kObject;
    m.max_properties = std::min(m.max_properties, count(v, here));
  } else if (key == "items" || key == "prefixItems") {
    m.implied |= kArray;
  } else if (key == "minItems") {
    m.implied |= kArray;
    m.min_items = std::max(m.min_items, count(v, here));
  } else if (key == "maxItems") {
    m.implied |= kArray;
    m.max_items = std::min(m.max_items, count(v, here));
  } else if (key == "uniqueItems") {
    if (!v.is_boolean()) bad(here, "is not true or false");
    if (v.get<bool>()) m.implied |= kArray, m.unique = true;
  } else if (key == "pattern" || key == "format") {
    m.implied |= kString;
    if (!v.is_string()) bad(here, "is not a string");
    if (key == "pattern")
      m.patterns.emplace_back(v.get<std::string>(), here);
    else
      m.formats.push_back(v.get<std::string>());
  } else if (key == "minLength") {
    m.implied |= kString;
    m.min_length = std::max(m.min_length, count(v, here));
  } else if (key == "maxLength") {
    m.implied |= kString;
    m.max_length = std::min(m.max_length, count(v, here));
  } else if (key == "minimum" || key == "exclusiveMinimum") {
    m.implied |= kNumber | kInteger;
    tighten(m.range.low, bound_of(v, key == "exclusiveMinimum", here), true);
  } else if (key == "maximum" || key == "exclusiveMaximum") {
    m.implied |= kNumber | kInteger;
    tighten(m.range.high, bound_of(v, key == "exclusiveMaximum", here), false);
  } else if (key == "multipleOf") {
    m.implied |= kNumber | kInteger;
    Bound b = bound_of(v, false, here);
    if (b.value.negative || b.value.zero()) bad(here, "is not greater than 0");
    if (!b.value.fraction.empty() || b.value.whole.size() > 9)
      fail(ErrorCode::unsupported, "JSON schema: {}: only whole numbers can be enforced", printable(here, 300));
    uint64_t by = std::stoull(b.value.whole);
    by = m.range.multiple == 0 ? by : std::lcm(m.range.multiple, by);
    if (by > 1'000'000'000)
      fail(ErrorCode::unsupported, "JSON schema: {}: multiples of {} cannot be enforced", printable(here, 300), by);
    m.range.multiple = by;
  } else {
    fail(ErrorCode::unsupported, "JSON schema: {}: this keyword is not supported", printable(here, 300));
  }
}

}  // namespace tenon::text::grammar
