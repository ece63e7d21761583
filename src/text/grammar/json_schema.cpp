#include "text/grammar/json_schema.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <unordered_map>

#include "text/grammar/json_formats.h"
#include "text/grammar/json_merge.h"
#include "text/grammar/json_numbers.h"
#include "text/grammar/regex_grammar.h"
#include "text/grammar/regular.h"

namespace tenon::text::grammar {
namespace {

using Id = Grammar::Id;
using Written = text::grammar::Spelling;

constexpr uint64_t kSteps = 30'000'000;
constexpr uint64_t kUnrolledLength = 2'000;  // bounds on the length of strings that have a pattern too
constexpr uint64_t kUnrolledMarks = 256;     // bounds where some texts may not occur
constexpr size_t kUniqueValues = 6;
constexpr size_t kMostVariants = 500;
constexpr uint32_t kMostStates = 20'000, kMostListedStates = 100'000;

class SchemaBuilder {
 public:
  SchemaBuilder(Grammar& g, const Json& root, const JsonOptions& options, std::string_view where)
      : g_(g), meter_(kSteps), document_(root, where, meter_), options_(options) {}

  Id root() { return value(document_.root()); }
  Id members_of_root(const MembersForm& form) { return arguments(document_.merge(document_.root()), form); }
  Id any_object() {
    any_value();
    return g_.call(*any_object_);
  }

 private:
  [[noreturn]] void unsupported(const std::string& pointer, std::string_view why) const {
    fail(ErrorCode::unsupported, "JSON schema: {}: {}", printable(pointer, 300), why);
  }
  // Runs what may fail without knowing where it is.
  template <class F>
  auto at(const std::string& pointer, F&& f) const {
    try {
      return f();
    } catch (const Error& e) {
      if (std::string_view(e.what()).starts_with("JSON schema: ")) throw;
      throw Error(e.code(), fmt::format("JSON schema: {}: {}", printable(pointer, 300), e.what()));
    }
  }

  // --- pieces of JSON ---

  Id space() {
    if (!options_.whitespace) return g_.text("");
    if (!space_) {
      CharRanges blanks = CharRanges::one(' ');
      blanks.add('\t', '\t');
      space_ = g_.choice({g_.text(""), g_.text(" "), g_.sequence({g_.text("\n"), g_.repeat(g_.chars(blanks), 0, 16)})});
    }
    return *space_;
  }
  Id colon() { return options_.whitespace ? g_.sequence({g_.text(":"), g_.optional(g_.text(" "))}) : g_.text(":"); }
  Id comma() { return g_.sequence({bracket(","), space()}); }
  bool gemma() const { return options_.notation == Notation::gemma; }
  bool elements() const { return options_.notation == Notation::elements; }
  bool plain() const { return gemma() || elements(); }
  Written written() const { return plain() ? Written::plain : Written::json; }
  // What stands between the quotes.
  std::string spelled(const Json& text) const {
    if (plain()) return text.get<std::string>();
    std::string out = text.dump();
    return out.substr(1, out.size() - 2);
  }
  Id quoted(const Dfa& text) {
    if (gemma()) return g_.sequence({options_.mark, g_.terminal(text), options_.mark});
    return g_.terminal(elements() ? text : enclose(text, '"', '"'));
  }
  // What begins or ends a list or an object, or stands between two of its parts: nothing in elements.
  Id bracket(std::string_view text) { return g_.text(elements() ? "" : text); }
  Id element(Id name, Id value) {
    return g_.sequence(
        {options_.mark, g_.text("<"), name, g_.text(">"), value, options_.mark, g_.text("</"), name, g_.text(">")});
  }
  Id item(Id value) { return elements() ? element(g_.text("item"), value) : value; }
  Id member_of(Id key, Id value) { return elements() ? element(key, value) : g_.sequence({key, colon(), value}); }
  Id key(const std::string& name) {
    if (!plain()) return g_.text(Json(name).dump());
    return elements() || is_bare(name) ? g_.text(name) : g_.sequence({options_.mark, g_.text(name), options_.mark});
  }
  static bool letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
  // A name that stands without quotes.
  static bool is_bare(std::string_view name) {
    return !name.empty() && letter(name[0]) && std::all_of(name.begin(), name.end(), [](char c) {
      return letter(c) || std::isdigit(static_cast<unsigned char>(c)) || c == '-' || c == '.';
    });
  }

  Dfa content(Id id, Written spelling, bool search) {
    const RegularLimits limits{.dfa_states = kMostStates};
    return search ? regular_search(g_, id, spelling, limits, meter_) : regular(g_, id, spelling, limits, meter_);
  }
  // Keys that are not declared, where they stand without quotes.
  Dfa bare_names() { return content(add_regex(g_, "[A-Za-z_][A-Za-z0-9_]*"), Written::plain, false); }
  Dfa any_content() { return permitted(content(g_.repeat(g_.chars(CharRanges::all()), 0), written(), false)); }
  Dfa both(const Dfa& a, const Dfa& b) { return combine(a, b, Combine::both, kMostStates, meter_); }
  Dfa without(const Dfa& a, const Dfa& b) { return combine(a, b, Combine::first_only, kMostStates, meter_); }

  // What holds none of the texts that may not occur.
  Dfa permitted(const Dfa& texts) {
    if (options_.never.empty()) return texts;
    std::vector<Id> never;
    for (std::string_view t : options_.never) never.push_back(g_.text(t));
    return without(texts, content(g_.choice(std::move(never)), Written::plain, true));
  }

  Dfa free_text(uint64_t min, uint64_t max, Written spelling) {
    if (min >= Dfa::kNoLimit) fail(ErrorCode::invalid_argument, "a string of at least {} characters", min);
    CharRanges characters = CharRanges::all();
    const bool counted = min > 0 || max < Dfa::kNoLimit;
    if (!options_.never.empty()) {
      if (!counted || (max <= kUnrolledMarks && max >= min))
        return permitted(content(g_.repeat(g_.chars(characters), min, counted ? max : kUnbounded), spelling, false));
      // Counting automata cannot be combined: without the characters that those texts begin with.
      CharRanges first;
      for (std::string_view t : options_.never) first.add(static_cast<uint8_t>(t[0]), static_cast<uint8_t>(t[0]));
      characters = first.complement();
    }
    return repeat_counted(content(g_.chars(characters), spelling, false), static_cast<uint32_t>(min),
                          static_cast<uint32_t>(std::min<uint64_t>(max, Dfa::kNoLimit)));
  }

  // What a string schema asks of the text between the quotes; nullopt: nothing but its length.
  std::optional<Dfa> string_content(const MergedSchema& m, Written spelling) {
    std::optional<Dfa> out;
    auto take = [&](Dfa d) { out = out ? both(*out, d) : std::move(d); };
    for (const auto& [pattern, pointer] : m.patterns)
      at(pointer, [&, &regex = pattern] {
        take(content(add_regex(g_, regex), spelling, true));
        return 0;
      });
    for (const std::string& format : m.formats) {
      auto pattern = format_pattern(format);
      if (!pattern)
        unsupported(pointer_to(m.pointer, "format"), "format \"" + printable(format) + "\" cannot be enforced");
      at(m.pointer, [&] {
        take(content(add_regex(g_, *pattern), spelling, false));
        return 0;
      });
    }
    if (!out) return out;
    out = permitted(*out);
    const bool bounded = m.max_length != ~uint64_t{0};
    if (m.min_length == 0 && !bounded) return out;
    at(m.pointer, [&] {
      if (std::max(m.min_length, bounded ? m.max_length : 0) > kUnrolledLength)
        fail(ErrorCode::unsupported, "a length beyond {} together with a pattern or format cannot be enforced",
             kUnrolledLength);
      take(content(g_.repeat(g_.chars(CharRanges::all()), m.min_length, bounded ? m.max_length : kUnbounded), spelling,
                   false));
      return 0;
    });
    return out;
  }

  // The texts of a string schema: `spelling` as in string values, or plain.
  Dfa string(const MergedSchema& m, Written spelling) {
    if (m.max_length < m.min_length) return {};
    if (auto c = string_content(m, spelling)) return *c;
    const Written free = spelling == Written::plain ? Written::plain : Written::json_free;
    return at(m.pointer, [&] { return free_text(m.min_length, m.max_length, free); });
  }

  Id any_value() {
    if (any_) return g_.call(*any_);
    any_ = g_.add_rule("JSON value");
    any_object_ = g_.add_rule("JSON object");
    Id str = quoted(free_text(0, ~uint64_t{0}, plain() ? Written::plain : Written::json_free));
    Id v = g_.call(*any_);
    Id member = member_of(elements() ? g_.terminal(bare_names()) : str, v);
    g_.define(*any_object_, list("{", member, "}", 0, kUnbounded));
    g_.define(*any_, g_.choice({g_.call(*any_object_), list("[", item(v), "]", 0, kUnbounded), str,
                                g_.terminal(reals({}, meter_)), word(true), word(false), word(nullptr)}));
    return v;
  }
  Id word(const Json& constant) { return g_.text(word_of(constant)); }
  std::string word_of(const Json& constant) const {
    if (options_.notation != Notation::python) return constant.dump();
    return constant.is_null() ? "None" : constant.get<bool>() ? "True" : "False";
  }

  // open, between min and max items, close.
  Id list(std::string_view open, Id part, std::string_view close, uint64_t min, uint64_t max) {
    Id begin = g_.sequence({bracket(open), space()}), end = g_.sequence({space(), bracket(close)});
    Id more = g_.repeat(g_.sequence({comma(), part}), min > 0 ? min - 1 : 0,
                        max == kUnbounded ? max : max - std::min<uint64_t>(max, 1));
    Id some = max == 0 ? g_.text("") : g_.sequence({part, more});
    if (min == 0) some = g_.optional(some);
    return g_.sequence({begin, some, end});
  }

  // --- schemas ---

  Id value(const SchemaAt& s) {
    if (s.schema->is_boolean()) return s.schema->get<bool>() ? any_value() : g_.choice({});
    return value(std::vector<SchemaAt>{s});
  }

  // What satisfies all of several schemas. Equal lists share a rule, which also ends the recursion of schemas that
  // refer to themselves.
  Id value(const std::vector<SchemaAt>& all) {
    if (++depth_ > 150)
      fail(ErrorCode::invalid_argument, "JSON schema: {}: nested too deeply", printable(all[0].pointer, 300));
    std::string key;
    for (const SchemaAt& s : all) {
      SchemaAt to = s;
      for (int hops = 0; hops < 64; ++hops) {
        auto next = document_.pure_reference(to);
        if (!next) break;
        to = *next;
      }
      key += fmt::format("{} ", static_cast<const void*>(to.schema));
    }
    meter_.spend(100);
    auto [it, fresh] = rules_.try_emplace(key, 0);
    if (fresh) {
      Grammar::Rule rule = g_.add_rule(all[0].pointer);
      it->second = rule;
      MergedSchema m;
      m.pointer = all[0].pointer;
      for (const SchemaAt& s : all) document_.merge_into(m, s);
      g_.define(rule, merged(m));
      --depth_;
      return g_.call(rule);
    }
    --depth_;
    return g_.call(it->second);
  }

  Id merged(const MergedSchema& m) {
    if (m.impossible) return g_.choice({});
    if (!m.groups.empty()) return variants(m);
    if (m.values) return values(m);
    if (!m.typed && m.implied == 0) return any_value();
    uint32_t types = m.types;
    if (!m.typed) types &= m.implied;
    std::vector<Id> ways;
    if (types & kObject) ways.push_back(object(m));
    if (types & kArray) ways.push_back(array(m));
    for (uint32_t type : {kString, kNumber, kInteger, kBoolean, kNull})
      if ((types & type) && !(type == kInteger && (types & kNumber)))
        ways.push_back(type == kString && elements() && (types & ~(kString | kNull)) ? quoted(told_apart(m))
                                                                                     : scalar_terminal(m, type));
    return g_.choice(ways);
  }

  // Texts that elements hold as values of other kinds, if the schema takes those.
  Dfa other_kinds() {
    constexpr std::string_view kOther = R"(\s*([-0-9{\["].*|true|false|True|False|null|None)?\s*)";
    return content(add_regex(g_, kOther), Written::plain, false);
  }
  Dfa told_apart(const MergedSchema& m) {
    return at(m.pointer, [&] {
      Dfa texts = string(m, Written::plain);
      return texts.counted() ? texts : without(texts, other_kinds());  // counting automata cannot be combined
    });
  }
  bool reads_otherwise(const Json& v) { return v.is_string() && other_kinds().matches(v.get<std::string>()); }

  // Schemas repeat themselves: what asks for the same is made once.
  Id scalar_terminal(const MergedSchema& m, uint32_t type) {
    std::string key = fmt::format("{} ", type);
    if (type == kString) {
      key += fmt::format("{} {} ", m.min_length, m.max_length);
      for (const auto& [pattern, pointer] : m.patterns) key += fmt::format("/{}:{}", pattern.size(), pattern);
      for (const std::string& format : m.formats) key += fmt::format("#{}:{}", format.size(), format);
    } else if (type == kNumber || type == kInteger) {
      for (const auto* b : {&m.range.low, &m.range.high})
        key += *b ? fmt::format("{}{}{}.{} ", (*b)->exclusive ? 'x' : 'i', (*b)->value.negative ? '-' : '+',
                                (*b)->value.whole, (*b)->value.fraction)
                  : "none ";
      key += fmt::format("{}", m.range.multiple);
    }
    auto it = scalars_.find(key);
    if (it == scalars_.end()) it = scalars_.emplace(std::move(key), scalar(m, type)).first;
    return it->second;
  }

  Id scalar(const MergedSchema& m, uint32_t type) {
    return at(m.pointer, [&]() -> Id {
      switch (type) {
        case kString:
          return quoted(string(m, written()));
        case kNumber:
          return g_.terminal(reals(m.range, meter_));
        case kInteger:
          return g_.terminal(integers(m.range, meter_));
        case kBoolean:
          return g_.terminal(
              combine(match_text(word_of(true)), match_text(word_of(false)), Combine::either, kMostStates, meter_));
        default:
          return word(nullptr);
      }
    });
  }

  Id variants(const MergedSchema& m) {
    if (!m.plain() || m.groups.size() > 1) return each_way(m, [&](const MergedSchema& one) { return merged(one); });
    const MergedSchema::Group& group = m.groups[0];
    if (group.exclusive) require_exclusive(m, group);
    std::vector<Id> ways;
    for (const SchemaAt& way : group.ways) ways.push_back(value(way));
    return g_.choice(ways);
  }
  // Each way of the first group, merged into what holds for all.
  template <class F>
  Id each_way(const MergedSchema& m, F&& of_one) {
    const MergedSchema::Group& group = m.groups[0];
    if (group.exclusive) require_exclusive(m, group);
    std::vector<Id> ways;
    for (const SchemaAt& way : group.ways) {
      if (++variants_ > kMostVariants) unsupported(group.pointer, "too many combinations");
      MergedSchema one = m;
      one.groups.erase(one.groups.begin());
      document_.merge_into(one, way);
      ways.push_back(of_one(one));
    }
    return g_.choice(ways);
  }

  static uint32_t type_of(const Json& v) {
    switch (v.type()) {
      case Json::value_t::null:
        return kNull;
      case Json::value_t::boolean:
        return kBoolean;
      case Json::value_t::number_integer:
      case Json::value_t::number_unsigned:
        return kInteger | kNumber;
      case Json::value_t::number_float:
        return kNumber | (v.get<double>() == std::floor(v.get<double>()) ? kInteger : 0u);
      case Json::value_t::string:
        return kString;
      case Json::value_t::array:
        return kArray;
      default:
        return kObject;
    }
  }

  Id values(const MergedSchema& m) {
    const bool structured = (m.implied & (kObject | kArray)) != 0;
    const bool mixed = elements() && std::any_of(m.values->begin(), m.values->end(),
                                                 [](const Json& v) { return !v.is_string() && !v.is_null(); });
    std::vector<Id> ways;
    for (const Json& v : *m.values) {
      uint32_t type = type_of(v);
      if (m.typed && !(m.types & type)) continue;
      if ((type & (kObject | kArray)) && structured && (m.implied & type))
        unsupported(m.pointer, "enum or const of objects or arrays together with other keywords");
      if ((type & m.implied & kString) && !matches_string(m, v)) continue;
      if ((type & m.implied & kNumber) && !in_range(m.range, v)) continue;
      if (!holds_mark(v) && !(mixed && reads_otherwise(v))) ways.push_back(literal(v));
    }
    return plain() ? g_.choice(std::move(ways)) : g_.terminal(one_of(std::move(ways)));
  }
  // Texts as one automaton, however many they are.
  Dfa one_of(std::vector<Id> texts) {
    return regular(g_, g_.choice(std::move(texts)), Written::plain, {.dfa_states = kMostListedStates}, meter_);
  }
  bool matches_string(const MergedSchema& m, const Json& v) { return string(m, written()).matches(spelled(v)); }
  bool in_range(const NumberRange& range, const Json& v) {
    auto d = Decimal::parse(v.dump());
    if (!d) fail(ErrorCode::unsupported, "JSON schema: the number {} beside bounds cannot be enforced", v.dump());
    return contains(range, *d);
  }

  // One of the texts that no string may hold is in it.
  bool holds_mark(const Json& v) const {
    if (v.is_structured()) return std::any_of(v.begin(), v.end(), [&](const Json& item) { return holds_mark(item); });
    if (!v.is_string()) return false;
    const std::string& text = v.get_ref<const std::string&>();
    return std::any_of(options_.never.begin(), options_.never.end(),
                       [&](std::string_view mark) { return text.find(mark) != std::string::npos; });
  }

  // A constant, written as this schema's other values are.
  Id literal(const Json& v) {
    if (v.is_string()) {
      if (elements()) return g_.text(v.get<std::string>());
      if (gemma()) return g_.sequence({options_.mark, g_.text(v.get<std::string>()), options_.mark});
      return g_.text(v.dump());
    }
    if (v.is_null() || v.is_boolean()) return word(v);
    if (!v.is_structured()) return g_.text(v.dump());
    std::vector<Id> parts{bracket(v.is_array() ? "[" : "{")};
    for (const auto& [k, part] : v.items()) {
      if (parts.size() > 1) parts.push_back(bracket(options_.whitespace ? ", " : ","));
      if (elements())
        parts.push_back(v.is_object() ? element(key(k), literal(part)) : item(literal(part)));
      else if (v.is_object())
        parts.insert(parts.end(), {key(k), g_.text(options_.whitespace ? ": " : ":"), literal(part)});
      else
        parts.push_back(literal(part));
    }
    parts.push_back(bracket(v.is_array() ? "]" : "}"));
    return g_.sequence(std::move(parts));
  }

  // --- objects ---

  struct Property {
    std::string name;
    Id pair;
    bool required;
  };

  bool pattern_matches(const std::string& pattern, const std::string& pointer, const std::string& name) {
    return at(pointer, [&] {
      auto [it, fresh] = pattern_dfas_.try_emplace(pattern);
      if (fresh) it->second = content(add_regex(g_, pattern), Written::plain, true);
      return it->second.matches(name);
    });
  }

  // The schemas that a property must satisfy; nullopt: it may not occur.
  std::vector<SchemaAt> schemas_of(const MergedSchema& m, const std::string& name) {
    std::vector<SchemaAt> out;
    for (const auto& f : m.objects) {
      const size_t before = out.size();
      for (const auto& [k, s] : f.properties)
        if (k == name) out.push_back(s);
      for (const auto& [pattern, s] : f.patterns)
        if (pattern_matches(pattern, s.pointer, name)) out.push_back(s);
      if (out.size() == before && f.additional) out.push_back(*f.additional);
    }
    return out;
  }

  static std::vector<std::string> names_of(const MergedSchema& m) {
    std::vector<std::string> names;
    std::set<std::string> seen;
    for (const auto& f : m.objects)
      for (const auto& [k, s] : f.properties)
        if (seen.insert(k).second) names.push_back(k);
    for (const std::string& r : m.required)
      if (seen.insert(r).second) names.push_back(r);
    return names;
  }

  Dfa names_allowed(const MergedSchema& m) {
    Dfa all = any_content();
    for (const SchemaAt& s : m.names) {
      MergedSchema n = document_.merge(s);
      if (n.impossible || (n.typed && !(n.types & kString))) return {};
      if (!n.groups.empty()) unsupported(s.pointer, "only enum, pattern, format and lengths can be enforced here");
      if (n.values) {
        std::vector<Id> listed;
        for (const Json& v : *n.values)
          if (v.is_string() && matches_string(n, v)) listed.push_back(g_.text(spelled(v)));
        all = combine(all, one_of(std::move(listed)), Combine::both, kMostListedStates, meter_);
        continue;
      }
      n.max_length = std::min<uint64_t>(n.max_length, n.max_length == ~uint64_t{0} ? n.max_length : kUnrolledLength);
      if (n.patterns.empty() && n.formats.empty()) n.patterns.emplace_back("", s.pointer);
      if (auto c = string_content(n, written())) all = both(all, *c);
    }
    return all;
  }

  // Pairs whose keys are not declared: one way per patternProperty, one for the rest.
  std::vector<Id> undeclared(const MergedSchema& m, const std::vector<std::string>& names,
                             const MembersForm* form = nullptr) {
    std::vector<Id> ways;
    bool any = false, patterns = false;
    for (const auto& f : m.objects) {
      any |= f.additional.has_value();
      patterns |= !f.patterns.empty();
    }
    const bool open = names.empty() && !any && !patterns;  // nothing is said about properties
    if (!any && !patterns && !open) return ways;
    Dfa rest = names_allowed(m);
    std::vector<Id> declared;
    for (const std::string& name : names) declared.push_back(g_.text(spelled(Json(name))));
    rest = combine(rest, one_of(std::move(declared)), Combine::first_only, kMostListedStates, meter_);
    if (form || elements()) rest = both(rest, bare_names());
    auto pair = [&](const Dfa& keys, const std::vector<SchemaAt>& schemas) {
      if (keys.empty()) return;
      for (const SchemaAt& s : schemas)
        if (s.schema->is_boolean() && !s.schema->get<bool>()) return;
      Id v = value_of(schemas);
      ways.push_back(form ? form->member(g_.terminal(keys), v, false) : member_of(quoted(keys), v));
    };
    if (patterns) {
      if (m.objects.size() > 1) unsupported(m.pointer, "patternProperties merged with other objects");
      const auto& f = m.objects[0];
      std::vector<Dfa> languages;
      for (const auto& [pattern, s] : f.patterns)
        languages.push_back(
            at(s.pointer, [&, &regex = pattern] { return content(add_regex(g_, regex), written(), true); }));
      for (size_t i = 0; i < languages.size(); ++i) {
        for (size_t j = 0; j < i; ++j)
          if (!both(languages[i], languages[j]).empty())
            unsupported(f.patterns[i].second.pointer, "patterns of properties that overlap");
        pair(both(rest, languages[i]), {f.patterns[i].second});
      }
      if (any) {
        for (const Dfa& l : languages) rest = without(rest, l);
        pair(rest, {*f.additional});
      }
      return ways;
    }
    std::vector<SchemaAt> schemas;
    for (const auto& f : m.objects)
      if (f.additional) schemas.push_back(*f.additional);
    pair(rest, schemas);
    return ways;
  }

  bool name_permitted(const MergedSchema& m, const std::string& name) {
    if (m.names.empty()) return true;
    return names_allowed(m).matches(spelled(Json(name)));
  }

  Id object(const MergedSchema& m, const MembersForm* form = nullptr) {
    const std::vector<std::string> names = names_of(m);
    std::vector<Property> properties;
    uint64_t needed = 0;
    for (const std::string& name : names) {
      const bool required = std::find(m.required.begin(), m.required.end(), name) != m.required.end();
      std::vector<SchemaAt> schemas = schemas_of(m, name);
      const bool forbidden =
          !name_permitted(m, name) || std::any_of(schemas.begin(), schemas.end(), [](const SchemaAt& s) {
            return s.schema->is_boolean() && !s.schema->get<bool>();
          });
      if (forbidden && required) return g_.choice({});
      if (forbidden) continue;
      if (form ? !is_bare(name) : elements() && name.find_first_of("<>/") != std::string::npos)
        unsupported(pointer_to(pointer_to(m.pointer, "properties"), name), "calls in this form cannot have this name");
      properties.push_back({name, form ? member(*form, name, schemas) : pair(name, schemas), required});
      needed += required;
    }
    std::vector<Id> ways = undeclared(m, names, form);
    uint64_t most = ways.empty() ? 0 : kUnbounded, least = 0;
    const bool optional = properties.size() > needed;
    if (m.max_properties != ~uint64_t{0}) {
      if (m.max_properties < needed) return g_.choice({});
      if (m.max_properties < properties.size())
        unsupported(pointer_to(m.pointer, "maxProperties"), "fewer than there are properties");
      most = std::min(most, m.max_properties - properties.size());
    }
    const bool some = m.min_properties == 1 && needed == 0;  // whichever it is
    if (m.min_properties > needed && !some) {
      if (optional || m.min_properties - needed > 1)
        unsupported(pointer_to(m.pointer, "minProperties"), "cannot be enforced for these properties");
      least = m.min_properties - needed;
    }
    if (least > most || (some && most == 0 && properties.empty())) return g_.choice({});
    const Id other = g_.choice(ways);
    if (form) return members(properties, other, least, most, some, form->begin, form->between, form->end);
    return members(properties, other, least, most, some, g_.sequence({bracket("{"), space()}), comma(),
                   g_.sequence({space(), bracket("}")}));
  }
  Id value_of(const std::vector<SchemaAt>& schemas) { return schemas.empty() ? any_value() : value(schemas); }
  Id pair(const std::string& name, const std::vector<SchemaAt>& schemas) {
    return member_of(key(name), value_of(schemas));
  }

  // --- members in a form of their own ---

  Id arguments(const MergedSchema& m, const MembersForm& form) {
    if (m.impossible) return g_.choice({});
    if (m.values) unsupported(m.pointer, "arguments as enum or const");
    if (m.typed && !(m.types & kObject)) unsupported(m.pointer, "arguments that are no object");
    if (m.groups.empty()) return object(m, &form);
    return each_way(m, [&](const MergedSchema& one) { return arguments(one, form); });
  }
  Id member(const MembersForm& form, const std::string& name, const std::vector<SchemaAt>& schemas) {
    if (schemas.empty() || !form.is_text || !form.is_text(name))
      return form.member(g_.text(name), value_of(schemas), false);
    MergedSchema m;
    m.pointer = schemas[0].pointer;
    for (const SchemaAt& s : schemas) document_.merge_into(m, s);
    if (form.null_is_text) return form.member(g_.text(name), bare_text(m, true, true), true);
    return g_.choice({form.member(g_.text(name), bare_text(m, true, false), true),
                      form.member(g_.text(name), bare_text(m, false, true), false)});
  }
  // The strings of a schema without quotes, and null as a word.
  Id bare_text(const MergedSchema& m, bool strings, bool nulls) {
    if (m.impossible) return g_.choice({});
    if (!m.groups.empty()) return each_way(m, [&](const MergedSchema& one) { return bare_text(one, strings, nulls); });
    std::vector<Id> ways;
    auto may_be = [&](uint32_t type) { return !m.typed || (m.types & type); };
    if (m.values) {
      const Dfa all = string(m, Written::plain);
      for (const Json& v : *m.values) {
        if (strings && v.is_string() && may_be(kString) && !holds_mark(v) && all.matches(v.get<std::string>()))
          ways.push_back(g_.text(v.get<std::string>()));
        if (nulls && v.is_null() && may_be(kNull)) ways.push_back(g_.text("null"));
      }
      return g_.choice(std::move(ways));
    }
    if (strings && may_be(kString)) ways.push_back(g_.terminal(string(m, Written::plain)));
    if (nulls && m.typed && may_be(kNull)) ways.push_back(g_.text("null"));
    return g_.choice(std::move(ways));
  }

  // Declared properties in order, then least to most others; `some`: at least one of either.
  Id members(const std::vector<Property>& properties, Id other, uint64_t least, uint64_t most, bool some, Id begin,
             Id between, Id end) {
    Id others_behind = most > 0 ? g_.repeat(g_.sequence({between, other}), least, most) : g_.text("");
    // rest[i]: what may come behind the first i properties once something is written.
    std::vector<Id> rest(properties.size() + 1);
    rest.back() = g_.sequence({others_behind, end});
    for (size_t i = properties.size(); i-- > 0;) {
      Id next = g_.sequence({between, properties[i].pair});
      Id all = g_.sequence({properties[i].required ? next : g_.optional(next), rest[i + 1]});
      Grammar::Rule r = g_.add_rule("properties");
      g_.define(r, all);
      rest[i] = g_.call(r);
    }
    std::vector<Id> without;  // any declared property
    if (most > 0)
      without.push_back(g_.sequence(
          {other,
           g_.repeat(g_.sequence({between, other}), least > 0 ? least - 1 : 0, most == kUnbounded ? most : most - 1),
           end}));
    if (least == 0 && !some) without.push_back(end);
    Id first = g_.choice(without);
    for (size_t i = properties.size(); i-- > 0;) {
      Id with = g_.sequence({properties[i].pair, rest[i + 1]});
      if (properties[i].required) {
        first = with;
        continue;
      }
      Grammar::Rule r = g_.add_rule("properties");
      g_.define(r, g_.choice({with, first}));
      first = g_.call(r);
    }
    return g_.sequence({begin, first});
  }

  // --- arrays ---

  std::vector<SchemaAt> element_of(const MergedSchema& m, size_t i) {
    std::vector<SchemaAt> out;
    for (const auto& f : m.arrays) {
      if (i < f.prefix.size())
        out.push_back(f.prefix[i]);
      else if (f.items)
        out.push_back(*f.items);
    }
    return out;
  }

  Id array(const MergedSchema& m) {
    if (m.max_items < m.min_items) return g_.choice({});
    size_t fixed = 0;
    for (const auto& f : m.arrays) fixed = std::max(fixed, f.prefix.size());
    if (m.unique && m.max_items > 1) return unique_array(m, fixed);
    std::vector<SchemaAt> behind = element_of(m, fixed);
    uint64_t most = m.max_items == ~uint64_t{0} ? kUnbounded : m.max_items;
    if (fixed > 0 && behind.empty()) most = std::min<uint64_t>(most, std::max<uint64_t>(fixed, m.min_items));
    for (const SchemaAt& s : behind)
      if (s.schema->is_boolean() && !s.schema->get<bool>()) most = std::min<uint64_t>(most, fixed);
    if (most < m.min_items) return g_.choice({});
    if (fixed == 0) return list("[", most == 0 ? g_.text("") : item(value_of(behind)), "]", m.min_items, most);
    Id tail = most > fixed
                  ? g_.repeat(g_.sequence({comma(), item(value_of(behind))}),
                              m.min_items > fixed ? m.min_items - fixed : 0, most == kUnbounded ? most : most - fixed)
                  : g_.text("");
    Id all = tail;
    for (size_t i = std::min<uint64_t>(fixed, most); i-- > 0;) {
      std::vector<Id> parts{item(value_of(element_of(m, i))), i + 1 == most ? g_.text("") : all};
      if (i > 0) parts.insert(parts.begin(), comma());
      all = g_.sequence(parts);
      if (i >= m.min_items) all = g_.optional(all);
    }
    if (most == 0) all = g_.text("");
    return g_.sequence({bracket("["), space(), all, space(), bracket("]")});
  }

  // Every order of every subset of a few values: a rule per set of values that are used.
  Id unique_array(const MergedSchema& m, size_t fixed) {
    const std::string pointer = pointer_to(m.pointer, "uniqueItems");
    std::vector<Json> values;
    if (fixed == 0 && !m.arrays.empty()) {
      MergedSchema one;
      one.pointer = m.pointer;
      for (const SchemaAt& s : element_of(m, 0)) document_.merge_into(one, s);
      if (one.values && one.groups.empty() && one.implied == 0)
        for (const Json& v : *one.values) {
          if (one.typed && !(one.types & type_of(v))) continue;
          if (std::none_of(values.begin(), values.end(), [&](const Json& w) { return same_value(v, w); }))
            values.push_back(v);
        }
    }
    if (values.empty() || values.size() > kUniqueValues) unsupported(pointer, "can be enforced for short enums only");
    const size_t sets = size_t{1} << values.size();
    std::vector<Grammar::Rule> used(sets);
    for (auto& r : used) r = g_.add_rule("unique items");
    for (size_t set = 0; set < sets; ++set) {
      const auto n = static_cast<uint64_t>(__builtin_popcountll(set));
      std::vector<Id> ways;
      if (n >= m.min_items) ways.push_back(g_.text(""));
      if (n < m.max_items)
        for (size_t i = 0; i < values.size(); ++i)
          if (!(set >> i & 1))
            ways.push_back(g_.sequence(
                {n > 0 ? comma() : g_.text(""), item(literal(values[i])), g_.call(used[set | size_t{1} << i])}));
      g_.define(used[set], g_.choice(ways));
    }
    return g_.sequence({bracket("["), space(), g_.call(used[0]), space(), bracket("]")});
  }

  // --- oneOf ---

  void require_exclusive(const MergedSchema& m, const MergedSchema::Group& group) {
    std::vector<MergedSchema> ways;
    for (const SchemaAt& s : group.ways) {
      MergedSchema one = m;
      one.groups.clear();
      document_.merge_into(one, s);
      ways.push_back(std::move(one));
    }
    for (size_t i = 0; i < ways.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        meter_.spend(100);
        if (!exclusive(ways[i], ways[j], 0))
          unsupported(group.pointer, fmt::format("the ways {} and {} may hold at once; use anyOf", j, i));
      }
  }

  // The types that are written for a schema; those that satisfy it may be more, as keywords do not bind other types.
  static uint32_t written(const MergedSchema& m) {
    return m.typed || m.values || m.implied == 0 ? satisfying(m) : widened(m.implied);
  }
  static uint32_t satisfying(const MergedSchema& m) {
    uint32_t types = m.typed ? m.types : uint32_t{kEveryType};
    if (m.values) {
      uint32_t of_values = 0;
      for (const Json& v : *m.values) of_values |= type_of(v);
      types &= of_values;
    }
    return widened(types);
  }
  static uint32_t widened(uint32_t types) { return types & kInteger ? types | kNumber : types; }

  bool exclusive(const MergedSchema& a, const MergedSchema& b, int depth) {
    if (a.impossible || b.impossible) return true;
    const uint32_t shared = (written(a) & satisfying(b)) | (written(b) & satisfying(a));
    if (shared == 0) return true;
    if (a.values && b.values)
      return std::none_of(a.values->begin(), a.values->end(), [&](const Json& v) {
        return std::any_of(b.values->begin(), b.values->end(), [&](const Json& w) { return same_value(v, w); });
      });
    if (shared != kObject || !a.groups.empty() || !b.groups.empty()) return false;
    if (excluded(a, b) && excluded(b, a)) return true;
    if (depth >= 4) return false;
    for (const std::string& name : a.required) {
      if (std::find(b.required.begin(), b.required.end(), name) == b.required.end()) continue;
      MergedSchema pa, pb;
      for (const SchemaAt& s : schemas_of(a, name)) document_.merge_into(pa, s);
      for (const SchemaAt& s : schemas_of(b, name)) document_.merge_into(pb, s);
      if (exclusive(pa, pb, depth + 1)) return true;
    }
    return false;
  }

  // Whether no object written for `a` satisfies `b`.
  bool excluded(const MergedSchema& a, const MergedSchema& b) {
    const std::vector<std::string> names = names_of(a);
    const bool closed = undeclared(a, names).empty();
    for (const std::string& r : b.required)
      if (closed && std::find(names.begin(), names.end(), r) == names.end()) return true;
    for (const std::string& r : a.required)
      for (const SchemaAt& s : schemas_of(b, r))
        if (s.schema->is_boolean() && !s.schema->get<bool>()) return true;
    return false;
  }

  Grammar& g_;
  Meter meter_;
  SchemaDocument document_;
  JsonOptions options_;
  std::optional<Id> space_;
  std::optional<Grammar::Rule> any_, any_object_;
  std::unordered_map<std::string, Grammar::Rule> rules_;
  std::unordered_map<std::string, Id> scalars_;
  std::unordered_map<std::string, Dfa> pattern_dfas_;
  size_t variants_ = 0;
  int depth_ = 0;
};

}  // namespace

Grammar json_schema_grammar(const Json& schema, const JsonOptions& options) {
  Grammar g;
  g.set_root(add_json_schema(g, schema, options, "#"));
  return g;
}

Grammar json_object_grammar(const JsonOptions& options) {
  Grammar g;
  static const Json kAny = true;
  g.set_root(SchemaBuilder(g, kAny, options, "#").any_object());
  return g;
}

Grammar::Id add_json_schema(Grammar& grammar, const Json& schema, const JsonOptions& options, std::string_view where) {
  return SchemaBuilder(grammar, schema, options, where).root();
}

Grammar::Id add_members(Grammar& grammar, const Json& schema, const MembersForm& form, const JsonOptions& options,
                        std::string_view where) {
  return SchemaBuilder(grammar, schema, options, where).members_of_root(form);
}

}  // namespace tenon::text::grammar
