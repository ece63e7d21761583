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
    g_.set_root(g_.sequence({reasoning(), format_.messages ? g_.sequence({mark(kFinal), answer}) : content(answer)}));
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
              : answer       ? g_.choice({g_.sequence({space(), calls}), content(said)})
              : format_.bare ? g_.choice({g_.sequence({space(), calls}), text_that_begins_otherwise()})
                             : g_.sequence({content(text_without(format_.begin)), g_.optional(calls)});
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

  // The same with a number for "{}".
  Id numbered(std::string_view text) {
    const size_t at = text.find("{}");
    if (at == std::string_view::npos) return mark(text);
    CharRanges digits;
    digits.add('0', '9');
    return g_.sequence({mark(text.substr(0, at)), g_.repeat(g_.chars(digits), 1, 2), mark(text.substr(at + 2))});
  }
  // A mark that an answer may end with: a model's end token is not part of its text.
  Id closing(std::string_view text) {
    const std::string spelling = grammar::special_spelling(text);
    const auto& ends = trie_.end_ids();
    return std::any_of(ends.begin(), ends.end(), [&](int32_t t) { return trie_.spelling(t) == spelling; })
               ? g_.sequence({})
               : mark(text);
  }
  // What the model says, perhaps between marks.
  Id content(Id said) {
    std::vector<Id> ways{said};
    for (size_t i = 0; i + 1 < format_.around_content.size(); i += 2)
      ways.push_back(g_.sequence(
          {mark(format_.around_content[i]), said, g_.optional(closing(format_.around_content[i + 1])), space()}));
    return g_.choice(std::move(ways));
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
    const Id inside = g_.sequence(
        {text_without({format_.think_end}), mark(format_.think_end), space(), g_.optional(mark(format_.after_think))});
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
      for (std::string_view m : {format_.end, format_.value_end})
        if (!m.empty()) json.never.push_back(m);
    switch (format_.body) {
      case ToolFormat::Body::json:
        return json_call(name, grammar::add_json_schema(g_, schema, json, where));
      case ToolFormat::Body::tagged:
        return tagged_call(name, schema, json, where);
      case ToolFormat::Body::elements:
        json.notation = grammar::Notation::elements;
        json.whitespace = false;
        json.mark = mark(format_.value_end);
        return g_.sequence(
            {g_.text(name), mark(format_.before_arguments), grammar::add_json_schema(g_, schema, json, where)});
      case ToolFormat::Body::gemma:
        json.notation = grammar::Notation::gemma;
        json.whitespace = false;
        json.mark = mark(format_.value_end);
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
                                   mark("json<|message|>"), arguments, g_.optional(closing(format_.end))});
      const Id header = g_.sequence({mark("<|channel|>commentary to=functions."), g_.text(name),
                                     mark(format_.before_arguments), arguments, g_.optional(closing(format_.end))});
      return g_.choice({header, g_.sequence({mark(" to=functions."), g_.text(name), json})});
    }
    if (format_.arguments_key.empty()) {
      CharRanges of_ids = set("0123456789");
      of_ids.add('a', 'z');
      const Id id = format_.id_before_name ? g_.repeat(g_.chars(of_ids), 10, 10) : g_.sequence({});
      return g_.sequence({id, mark(format_.before_name), g_.text(name), numbered(format_.before_arguments), arguments,
                          mark(format_.after_arguments)});
    }
    const std::string head =
        fmt::format("{{\"{}\": {}, \"{}\": ", format_.name_key, Json(name).dump(), format_.arguments_key);
    return g_.sequence({g_.text(head), arguments, g_.text("}")});
  }

  // Arguments one behind another; which values are bare text is the parser's decision.
  Id tagged_call(const std::string& name, const Json& schema, const grammar::JsonOptions& json,
                 const std::string& where) {
    const Id none = g_.sequence({}), line = this->line();
    std::vector<Id> others;
    for (std::string_view a : format_.other_attributes) others.push_back(mark(a));
    const Id other = others.empty() ? none : g_.choice(others);
    grammar::MembersForm form{none,
                              none,
                              none,
                              nullptr,
                              [&schema](std::string_view parameter) { return bare_text(schema, parameter).text; },
                              format_.text_attribute.empty()};
    form.member = [&](Id key, Id value, bool text) {
      const Id around = g_.text(format_.around_value);
      return g_.sequence({line, mark(format_.key_begin), key, mark(format_.key_end),
                          text ? mark(format_.text_attribute) : other,
                          format_.value_begin.starts_with('<') ? line : none, mark(format_.value_begin), around, value,
                          around, mark(format_.value_end)});
    };
    return g_.sequence(
        {g_.text(name), numbered(format_.before_arguments), grammar::add_members(g_, schema, form, json, where), line});
  }

  // --- all calls ---

  Id all_calls() {
    std::vector<Id> any;
    for (size_t i = 0; i < tools_.size(); ++i) {
      if (options_.choice.kind == ToolChoice::Kind::named && function_of(tools_[i])["name"] != options_.choice.name)
        continue;
      const Id c = call(tools_[i], fmt::format("tools[{}].function.parameters#", i));
      any.push_back(format_.list || format_.messages ? c
                                                     : marked(c, function_of(tools_[i])["name"].get<std::string>()));
    }
    if (any.empty())
      fail(ErrorCode::invalid_argument, "tool_choice names '{}', which is no tool of the request",
           printable(options_.choice.name));
    const Grammar::Rule rule = g_.add_rule("call");
    g_.define(rule, g_.choice(any));
    const Id one = g_.call(rule);
    if (format_.single) return one;
    const uint64_t more = options_.parallel ? kMostCalls - 1 : 0;
    if (format_.list)
      return in_section(
          g_.sequence({begin_mark(), g_.text("["), one, g_.repeat(g_.sequence({g_.text(", "), one}), 0, more),
                       g_.text("]"), mark(format_.end)}));
    const Id between = format_.bare        ? g_.text("; ")
                       : format_.recipient ? mark(std::string(format_.think_end) + std::string(format_.after_think))
                                           : line();
    return in_section(g_.sequence({one, g_.repeat(g_.sequence({between, one}), 0, more)}));
  }

  // Line breaks are where the templates have them.
  Id line() { return format_.one_line ? g_.sequence({}) : g_.optional(g_.text("\n")); }
  Id begin_mark() { return format_.begin.empty() || format_.bare ? g_.sequence({}) : mark(format_.begin.front()); }

  // A call between its marks.
  Id marked(Id call, const std::string& name) {
    const bool lines = !format_.arguments_key.empty() && !format_.bare;
    Id out = lines ? g_.sequence({begin_mark(), line(), call, line(), mark(format_.end)})
                   : g_.sequence({begin_mark(), call, mark(format_.end)});
    if (format_.each_call)
      out = g_.sequence({g_.optional(g_.sequence({mark(format_.around_calls[0]), line()})), out,
                         g_.optional(g_.sequence({line(), mark(format_.around_calls[1])}))});
    if (format_.recipient) out = g_.sequence({mark(" to="), g_.text(name), mark("<|message|>"), out});
    return out;
  }

  Id in_section(Id calls) {
    if (format_.each_call || format_.around_calls.empty()) return calls;
    std::vector<Id> ways;
    for (size_t i = 0; i + 1 < format_.around_calls.size(); i += 2)
      ways.push_back(
          g_.sequence({mark(format_.around_calls[i]), line(), calls, line(), closing(format_.around_calls[i + 1])}));
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
