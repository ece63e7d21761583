#include "text/tool_grammar.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/regular.h"
#include "text/tool_bodies.h"

namespace tenon::text {
namespace {

using grammar::CharRanges;
using grammar::Grammar;
using Id = Grammar::Id;

constexpr uint64_t kSteps = 10'000'000;
constexpr uint64_t kMostCalls = 16;
constexpr std::string_view kStart = "<|start|>assistant", kFinal = "<|channel|>final<|message|>",
                           kCommentary = "<|channel|>commentary<|message|>";

class Builder {
 public:
  Builder(const ToolFormat& format, const Json& tools, const ToolGrammarOptions& options,
          const grammar::TokenTrie& trie)
      : format_(format), tools_(tools), options_(options), trie_(trie) {}

  Grammar behind_reasoning(Grammar grammar) {
    g_ = std::move(grammar);
    const Id answer = g_.root();
    g_.set_root(g_.sequence({reasoning(), mark(format_.messages ? kFinal : ""), answer}));
    return std::move(g_);
  }

  Grammar run(std::optional<Grammar> answer) {
    const bool automatic = options_.choice.kind == ToolChoice::Kind::automatic;
    if (answer) g_ = std::move(*answer);
    const Id said = g_.root();
    Id calls = all_calls();
    if (format_.messages) {
      const Id final = g_.sequence({mark(kFinal), answer ? said : message_text()});
      g_.set_root(g_.sequence({reasoning(), automatic ? g_.choice({calls, final}) : calls}));
      return std::move(g_);
    }
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

  // Harmony's messages: what is thought and what is said on the way; each ends, and the next one has a header.
  Id reasoning() {
    if (format_.messages) {
      const Id said = g_.sequence({message_text(), mark(format_.think_end), mark(kStart)});
      const Id message = g_.sequence({g_.choice({mark(format_.think_begin), mark(kCommentary)}), said});
      return g_.sequence({options_.reasoning_open ? said : g_.sequence({}), g_.repeat(message, 0)});
    }
    if (format_.think_end.empty()) return g_.sequence({});
    const Id inside = g_.sequence({text_without({format_.think_end}), mark(format_.think_end), space()});
    if (options_.reasoning_open) return inside;
    return g_.optional(g_.sequence({mark(format_.think_begin), inside}));
  }

  Id message_text() {
    return text_without({"<|start|>", "<|channel|>", "<|message|>", format_.think_end, format_.end, " to=functions."});
  }

  // --- one call, between its marks ---

  Id call(const Json& tool, const std::string& where) {
    const Json& f = function_of(tool);
    const std::string name = f["name"];
    Json schema = f.value("parameters", Json());
    if (!schema.is_object() || schema.empty()) schema = {{"type", "object"}, {"properties", Json::object()}};
    if (!schema.contains("type")) schema["type"] = "object";
    grammar::JsonOptions json;
    if (format_.body != ToolFormat::Body::json)
      for (std::string_view m : {format_.end, argument_end(format_)})
        if (!m.empty()) json.never.push_back(m);
    switch (format_.body) {
      case ToolFormat::Body::json:
        return json_call(name, grammar::add_json_schema(g_, schema, json, where));
      case ToolFormat::Body::parameters:
        return parameters_call(name, schema, json, where);
      case ToolFormat::Body::arg_keys:
        return arg_keys_call(name, schema, json, where);
      case ToolFormat::Body::invoke:
        return invoke_call(name, schema, json, where);
      case ToolFormat::Body::gemma:
        json.notation = grammar::Notation::gemma;
        json.whitespace = false;
        json.quote = mark(argument_end(format_));
        return g_.sequence({g_.text("call:" + name), grammar::add_json_schema(g_, schema, json, where)});
      case ToolFormat::Body::python: {
        json.notation = grammar::Notation::python;
        const grammar::MembersForm form{g_.text("("), g_.text(", "), g_.text(")"),
                                        [&](Id key, Id value, bool) {
                                          return g_.sequence({key, g_.text("="), value});
                                        },
                                        nullptr};
        return g_.sequence({g_.text(name), grammar::add_members(g_, schema, form, json, where)});
      }
      case ToolFormat::Body::none:
        break;
    }
    fail(ErrorCode::internal, "no form of calls");
  }

  Id json_call(const std::string& name, Id arguments) {
    if (format_.messages) {
      const Id json = g_.sequence({mark("<|channel|>commentary "), g_.optional(mark("<|constrain|>")),
                                   mark("json<|message|>"), arguments, g_.optional(mark(format_.end))});
      const Id header = g_.sequence({mark("<|channel|>commentary to=functions."), g_.text(name),
                                     mark(format_.before_arguments), arguments, g_.optional(mark(format_.end))});
      return g_.choice({header, g_.sequence({mark(" to=functions."), g_.text(name), json})});
    }
    if (format_.arguments_key.empty())
      return g_.sequence({mark(format_.before_name), g_.text(name), mark(format_.before_arguments), arguments,
                          mark(format_.after_arguments)});
    const std::string head =
        fmt::format("{{\"{}\": {}, \"{}\": ", format_.name_key, Json(name).dump(), format_.arguments_key);
    return g_.sequence({g_.text(head), arguments, g_.text("}")});
  }

  // Members one behind another; which values are bare text is the parser's decision.
  grammar::MembersForm members_form(const Json& schema, std::string_view begin, std::string_view between) {
    return {g_.text(begin), g_.text(between), g_.text(""), nullptr,
            [&schema](std::string_view name) { return bare_text(schema, name).text; }};
  }

  Id parameters_call(const std::string& name, const Json& schema, const grammar::JsonOptions& json,
                     const std::string& where) {
    if (!format_.before_arguments.empty()) return json_call(name, grammar::add_json_schema(g_, schema, json, where));
    grammar::MembersForm form = members_form(schema, "\n", "");
    form.member = [&](Id key, Id value, bool) {
      return g_.sequence({mark("<parameter="), key, g_.text(">"), g_.text(format_.around_value), value,
                          g_.text(format_.around_value), mark("</parameter>"), g_.text("\n")});
    };
    return g_.sequence({g_.text(name), g_.text(">"), grammar::add_members(g_, schema, form, json, where)});
  }

  Id arg_keys_call(const std::string& name, const Json& schema, const grammar::JsonOptions& json,
                   const std::string& where) {
    grammar::MembersForm form = members_form(schema, "", "");
    const Id line = g_.optional(g_.text("\n"));
    form.member = [&](Id key, Id value, bool) {
      return g_.sequence(
          {line, mark("<arg_key>"), key, mark("</arg_key>"), line, mark("<arg_value>"), value, mark("</arg_value>")});
    };
    return g_.sequence({g_.text(name), grammar::add_members(g_, schema, form, json, where), line});
  }

  Id invoke_call(const std::string& name, const Json& schema, const grammar::JsonOptions& json,
                 const std::string& where) {
    grammar::MembersForm form = members_form(schema, "\n", "");
    const std::string_view end = argument_end(format_);
    const std::string begin = "<" + std::string(end.substr(2, end.size() - 3)) + " name=\"";
    form.member = [&, says_type = format_.says_type](Id key, Id value, bool text) {
      const std::string_view type = !says_type ? "\">" : text ? "\" string=\"true\">" : "\" string=\"false\">";
      return g_.sequence({mark(begin), key, g_.text(type), value, mark(end), g_.text("\n")});
    };
    if (format_.says_type)
      form.is_text = [&schema](std::string_view parameter) {
        const BareText t = bare_text(schema, parameter);
        return t.text && !t.null;
      };
    return g_.sequence({g_.text(name), g_.text("\">"), grammar::add_members(g_, schema, form, json, where)});
  }

  // --- all calls ---

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
    if (format_.messages) return one;
    const uint64_t more = options_.parallel ? kMostCalls - 1 : 0;
    const Id begin = format_.begin.empty() || format_.bare ? g_.sequence({}) : mark(format_.begin.front());
    const Id end = mark(format_.end);
    if (format_.list)
      return in_section(g_.sequence(
          {begin, g_.text("["), one, g_.repeat(g_.sequence({g_.text(", "), one}), 0, more), g_.text("]"), end}));
    // Line breaks are where the templates have them.
    const Id line = g_.optional(g_.text("\n"));
    const bool lines = !format_.arguments_key.empty() && !format_.bare;
    Id marked = lines ? g_.sequence({begin, line, one, line, end}) : g_.sequence({begin, one, end});
    if (format_.wrap)
      marked = g_.sequence({g_.optional(g_.sequence({mark(format_.dropped[0]), line})), marked,
                            g_.optional(g_.sequence({line, mark(format_.dropped[1])}))});
    const Id between = format_.bare ? g_.text("; ") : line;
    return in_section(g_.sequence({marked, g_.repeat(g_.sequence({between, marked}), 0, more)}));
  }

  // Between the first two marks that are dropped, or the next two.
  Id in_section(Id calls) {
    if (!format_.section) return calls;
    const Id line = g_.optional(g_.text("\n"));
    std::vector<Id> ways;
    for (size_t i = 0; i + 1 < format_.dropped.size(); i += 2)
      ways.push_back(g_.sequence({mark(format_.dropped[i]), line, calls, line, mark(format_.dropped[i + 1])}));
    return g_.choice(ways);
  }

  const ToolFormat& format_;
  const Json tools_;
  const ToolGrammarOptions options_;
  const grammar::TokenTrie& trie_;
  Grammar g_;
};

}  // namespace

grammar::Grammar tool_grammar(const ToolFormat& format, const Json& tools, const ToolGrammarOptions& options,
                              const grammar::TokenTrie& trie, std::optional<Grammar> answer) {
  if (format.body == ToolFormat::Body::none)
    fail(ErrorCode::unsupported, "calls in the form '{}' cannot be forced", format.name);
  return Builder(format, tools, options, trie).run(std::move(answer));
}

grammar::Grammar after_reasoning(grammar::Grammar grammar, const ToolFormat& format, bool reasoning_open,
                                 const grammar::TokenTrie& trie) {
  return Builder(format, nullptr, {.reasoning_open = reasoning_open}, trie).behind_reasoning(std::move(grammar));
}

}  // namespace tenon::text
