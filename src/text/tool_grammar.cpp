#include "text/tool_grammar.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/regular.h"

namespace tenon::text {
namespace {

using grammar::CharRanges;
using grammar::Grammar;
using Id = Grammar::Id;

constexpr uint64_t kSteps = 10'000'000;
constexpr uint64_t kMostCalls = 16;

class Builder {
 public:
  Builder(const ToolFormat& format, const Json& tools, const ToolGrammarOptions& options,
          const grammar::TokenTrie& trie)
      : format_(format), tools_(tools), options_(options), trie_(trie) {}

  Grammar behind_reasoning(Grammar grammar) {
    g_ = std::move(grammar);
    g_.set_root(g_.sequence({reasoning(), g_.root()}));
    return std::move(g_);
  }

  Grammar run(std::optional<Grammar> answer) {
    const bool automatic = options_.choice.kind == ToolChoice::Kind::automatic;
    if (answer) g_ = std::move(*answer);
    const Id said = g_.root();
    Id calls = all_calls();
    // An answer in a bare form is a call from its first brace on, or text.
    Id body = !automatic     ? g_.sequence({space(), calls})
              : answer       ? g_.choice({g_.sequence({space(), calls}), said})
              : format_.bare ? g_.choice({g_.sequence({space(), calls}), text_that_begins_otherwise()})
                             : g_.sequence({text_without(format_.begin), g_.optional(calls)});
    g_.set_root(g_.sequence({reasoning(), body}));
    return std::move(g_);
  }

 private:
  // Text in which special tokens stand for themselves.
  Id mark(std::string_view text) {
    std::vector<Id> parts;
    std::string plain;
    auto flush = [&] {
      if (!plain.empty()) parts.push_back(g_.text(std::exchange(plain, {})));
    };
    while (!text.empty()) {
      size_t n = text.size();
      while (n > 0 && !trie_.has_special(text.substr(0, n))) --n;
      if (n > 0) {
        flush();
        parts.push_back(g_.special_token(text.substr(0, n)));
      } else {
        plain += text.front();
      }
      text.remove_prefix(std::max<size_t>(n, 1));
    }
    flush();
    return g_.sequence(std::move(parts));
  }

  static CharRanges set(std::string_view characters) {
    CharRanges out;
    for (char c : characters) out.add(static_cast<char32_t>(c), static_cast<char32_t>(c));
    return out;
  }
  Id space() { return g_.repeat(g_.chars(set(" \n")), 0, 4); }
  Id any_text() { return g_.repeat(g_.chars(CharRanges::all()), 0); }

  // No mark of `marks` is in it; marks that are special tokens never are.
  Id text_without(const std::vector<std::string_view>& marks) {
    Grammar scratch;
    std::vector<Id> plain;
    for (std::string_view m : marks)
      if (!trie_.has_special(m)) plain.push_back(scratch.text(m));
    if (plain.empty()) return any_text();
    const Id found = scratch.choice(plain);
    const Id any = scratch.repeat(scratch.chars(CharRanges::all()), 0);
    grammar::Meter meter(kSteps);
    const grammar::RegularLimits limits;
    grammar::Dfa all = grammar::regular(scratch, any, grammar::Spelling::plain, limits, meter);
    grammar::Dfa with = grammar::regular_search(scratch, found, grammar::Spelling::plain, limits, meter);
    return g_.terminal(grammar::combine(all, with, grammar::Combine::first_only, limits.dfa_states, meter));
  }

  Id text_that_begins_otherwise() {
    return g_.optional(g_.sequence({space(), g_.chars(set(" \n{").complement()), any_text()}));
  }

  Id reasoning() {
    if (format_.think_end.empty()) return g_.sequence({});
    const Id inside = g_.sequence({text_without({format_.think_end}), mark(format_.think_end), space()});
    if (options_.reasoning_open) return inside;
    return g_.optional(g_.sequence({mark(format_.think_begin), inside}));
  }

  Id call(const Json& tool, const std::string& where) {
    const Json& f = function_of(tool);
    const std::string name = f["name"];
    Json schema = f.value("parameters", Json());
    if (!schema.is_object() || schema.empty()) schema = {{"type", "object"}, {"properties", Json::object()}};
    if (!schema.contains("type")) schema["type"] = "object";
    const Id arguments = grammar::add_json_schema(g_, schema, {}, where);
    if (format_.arguments_key.empty())
      return g_.sequence({mark(format_.before_name), g_.text(name), mark(format_.before_arguments), arguments,
                          mark(format_.after_arguments)});
    const std::string head =
        fmt::format("{{\"{}\": {}, \"{}\": ", format_.name_key, Json(name).dump(), format_.arguments_key);
    return g_.sequence({g_.text(head), arguments, g_.text("}")});
  }

  Id all_calls() {
    std::vector<Id> any;
    for (size_t i = 0; i < tools_.size(); ++i) {
      if (options_.choice.kind == ToolChoice::Kind::named && function_of(tools_[i])["name"] != options_.choice.name)
        continue;
      any.push_back(call(tools_[i], fmt::format("tools[{}].function.parameters#", i)));
    }
    if (any.empty())
      fail(ErrorCode::invalid_argument, "tool_choice names '{}', which is no tool of the request",
           printable(options_.choice.name));
    const Grammar::Rule rule = g_.add_rule("call");
    g_.define(rule, g_.choice(any));
    const Id one = g_.call(rule);
    const uint64_t more = options_.parallel ? kMostCalls - 1 : 0;
    const Id begin = format_.begin.empty() || format_.bare ? g_.sequence({}) : mark(format_.begin.front());
    const Id end = mark(format_.end);
    Id all;
    if (format_.list) {
      all = g_.sequence(
          {begin, g_.text("["), one, g_.repeat(g_.sequence({g_.text(", "), one}), 0, more), g_.text("]"), end});
    } else {
      // Line breaks are where the templates have them.
      const Id line = g_.optional(g_.text("\n"));
      const Id marked = format_.arguments_key.empty() || format_.bare ? g_.sequence({begin, one, end})
                                                                      : g_.sequence({begin, line, one, line, end});
      const Id between = g_.text(format_.bare ? "; " : "\n");
      const Id next = format_.bare ? g_.sequence({between, marked}) : g_.sequence({g_.optional(between), marked});
      all = g_.sequence({marked, g_.repeat(next, 0, more)});
    }
    return format_.section ? g_.sequence({mark(format_.dropped[0]), all, mark(format_.dropped[1])}) : all;
  }

  const ToolFormat& format_;
  const Json tools_;
  const ToolGrammarOptions options_;
  const grammar::TokenTrie& trie_;
  Grammar g_;
};

}  // namespace

bool has_tool_grammar(const ToolFormat& f) { return f.body == ToolFormat::Body::json && f.name != "harmony"; }

grammar::Grammar tool_grammar(const ToolFormat& format, const Json& tools, const ToolGrammarOptions& options,
                              const grammar::TokenTrie& trie, std::optional<Grammar> answer) {
  if (!has_tool_grammar(format)) fail(ErrorCode::unsupported, "calls in the form '{}' cannot be forced", format.name);
  return Builder(format, tools, options, trie).run(std::move(answer));
}

grammar::Grammar after_reasoning(grammar::Grammar grammar, const ToolFormat& format, bool reasoning_open,
                                 const grammar::TokenTrie& trie) {
  return Builder(format, nullptr, {.reasoning_open = reasoning_open}, trie).behind_reasoning(std::move(grammar));
}

}  // namespace tenon::text
