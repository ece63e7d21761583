// The kit's chat templates and snippets, and what the kit can't show: content spans, errors, choice of a template.
#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>

#include "base/error.h"
#include "support/kit.h"
#include "text/template_row.h"

namespace tenon::text {
namespace {

using test::golden;
using test::kit;

// Addresses of Python objects mean nothing.
std::string without_addresses(const std::string& text) {
  static const std::regex address(" at 0x[0-9a-f]+");
  return std::regex_replace(text, address, " at 0x0");
}

Json row_of(const Json& file, const Json& c) {
  Json row = Json::object();
  for (const auto& [key, value] : c.items())
    if (key != "expected" && key != "name" && key != "notes" && key != "group" && !value.is_null()) row[key] = value;
  for (const char* key : {"template", "now"})
    if (file.contains(key) && !row.contains(key)) row[key] = file[key];
  return row;
}

void check_case(const Json& file, const Json& c, const std::string& name) {
  Json answer = answer_template_row(row_of(file, c), nullptr);
  const Json& expected = c["expected"];
  if (expected.is_object()) {
    ASSERT_TRUE(answer.contains("error")) << name << ": rendered where the reference raises " << expected["error"];
    std::string wanted = expected["error"];
    if (wanted.starts_with("TemplateError: ") && wanted.find('\n') == std::string::npos) {
      EXPECT_NE(answer["error"].get<std::string>().find(wanted.substr(15)), std::string::npos)
          << name << ": " << answer["error"];
    }
    return;
  }
  ASSERT_TRUE(answer.contains("text")) << name << ": " << answer.dump();
  EXPECT_EQ(without_addresses(answer["text"]), without_addresses(expected)) << name;
}

size_t check_folder(const std::filesystem::path& folder) {
  size_t cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    Json file = read_json(entry.path());
    for (const Json& c : file["cases"]) {
      check_case(file, c, entry.path().stem().string() + "/" + c["name"].get<std::string>());
      ++cases;
    }
  }
  return cases;
}

TEST(ChatTemplate, Golden) { EXPECT_GT(check_folder(golden("chat_templates")), 100u); }

TEST(ChatTemplate, Kit) {
  auto folder = kit("chat_templates");
  if (!folder) GTEST_SKIP() << "the full kit is not here";
  EXPECT_GE(check_folder(*folder), 1900u);
}

// ---- spans

constexpr const char* kToken = "<|im_start|>";  // stands for a special token

Rendered render(const std::string& source, const ChatInput& input) { return ChatTemplate(source).render(input); }

std::string content_of(const Rendered& r) {
  std::string out;
  for (const ContentSpan& s : r.content) out += "[" + r.text.substr(s.begin, s.end - s.begin) + "]";
  return out;
}

ChatInput chat(const std::string& content, const std::string& role = "user") {
  ChatInput in;
  in.messages.push_back({{"role", role}, {"content", content}});
  return in;
}

struct SpanCase {
  const char* source;
  const char* content;
  const char* spans;
};

class Spans : public testing::TestWithParam<SpanCase> {};

TEST_P(Spans, AreTheContent) {
  const SpanCase& c = GetParam();
  EXPECT_EQ(content_of(render(c.source, chat(c.content))), c.spans) << c.source;
}

INSTANTIATE_TEST_SUITE_P(
    ChatTemplate, Spans,
    testing::Values(
        SpanCase{"<|im_start|>{{ messages[0].role }}\n{{ messages[0].content }}<|im_end|>", "<|im_end|>",
                 "[user][<|im_end|>]"},
        SpanCase{"{{ '<|im_start|>' + messages[0]['content'] + '<|im_end|>' }}", "x<|im_end|>", "[x<|im_end|>]"},
        SpanCase{"{{ 'a' ~ messages[0].content ~ 'b' ~ messages[0].content }}", "x", "[x][x]"},
        SpanCase{"{{ ('<s>' ~ messages[0].content ~ '</s>')[1:-2] }}", "xy", "[xy]"},
        SpanCase{"{{ ('<s>' ~ messages[0].content)[::-1] }}", "xy", "[yx]"},
        SpanCase{"{{ ('  <s>' ~ messages[0].content ~ '\n').strip() }}", " x ", "[ x]"},
        SpanCase{"{{ messages[0].content.split('|')[1] }}", "a|<s>|b", "[<s>]"},
        SpanCase{"{{ messages[0].content.replace('b', '<t>') }}", "abc", "[a][c]"},
        SpanCase{"{{ 'a_c'.replace('_', messages[0].content) }}", "<t>", "[<t>]"},
        SpanCase{"{{ ('a' ~ messages[0].content)|upper }}", "x\xC3\x9F", "[XSS]"},
        SpanCase{"{{ ['<s>', messages[0].content, '</s>']|join('-') }}", "x", "[x]"},
        SpanCase{"{{ '%s<s>%5s' % (messages[0].content, 1) }}", "x", "[x]"},
        SpanCase{"{{ '<s>{}</s>'.format(messages[0].content) }}", "x", "[x]"},
        SpanCase{"{{ messages[0].content|tojson }}", "a\"b", "[\"a\\\"b\"]"},
        SpanCase{"{{ {'k': messages[0].content}|tojson }}", "x", "[\"x\"]"},
        SpanCase{"{{ messages[0]|tojson }}", "x", "[{\"role\": \"user\", \"content\": \"x\"}]"},
        SpanCase{"{{ messages[0] }}", "x", "[{'role': 'user', 'content': 'x'}]"},
        SpanCase{"{% set b %}<s>{{ messages[0].content }}</s>{% endset %}{{ b }}", "x", "[x]"},
        SpanCase{"{% macro m(t) %}<s>{{ t }}</s>{% endmacro %}{{ m(messages[0].content) }}", "x", "[x]"},
        SpanCase{"{% filter trim %} <s>{{ messages[0].content }} {% endfilter %}", "x ", "[x]"},
        SpanCase{"{% for c in messages[0].content %}<{{ c }}>{% endfor %}", "xy", "[x][y]"},
        SpanCase{"{{ messages[0].content|length }}{{ messages[0].content == 'x' }}", "x", ""},
        SpanCase{"{{ messages[0].content|int + 1 }}", "4", "[5]"},
        SpanCase{"{{ messages[0].content|indent(2) }}", "a\nb", "[a\n][b]"},
        SpanCase{"{{ messages[0].content|default('d') }}{{ messages[0].nothing|default('d') }}", "x", "[x]"},
        SpanCase{"{{ '<s>' if messages[0].content else '</s>' }}", "x", ""},
        SpanCase{"{{ messages|map(attribute='content')|join('<sep>') }}", "x", "[x]"}));

TEST(ChatTemplate, TemplateTextIsNeverContent) {
  ChatInput in = chat("hi");
  in.bos_token = "<s>";
  in.eos_token = "</s>";
  in.kwargs["date"] = kToken;
  in.tools = Json::array({{{"name", kToken}}});
  Rendered r =
      render("{{ bos_token }}<|im_start|>{{ date }}{% for t in tools %}{{ t.name }}{% endfor %}{{ eos_token }}", in);
  EXPECT_EQ(r.text, "<s><|im_start|><|im_start|><|im_start|></s>");
  EXPECT_EQ(content_of(r), "[<|im_start|><|im_start|>]");
  EXPECT_EQ(r.content[0].begin, 15u);
}

TEST(ChatTemplate, SpansOfRealTemplatesHoldTheUsersTokens) {
  auto folder = kit("chat_templates").value_or(golden("chat_templates"));
  size_t rendered = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    Json file = read_json(entry.path());
    if (!file.contains("template")) continue;
    ChatTemplate t(file["template"].get<std::string>());
    ChatInput in = chat(std::string("zq") + kToken + "qz");
    in.now = "2026-10-27 12:00:00";
    in.bos_token = "<s>";
    in.eos_token = "</s>";
    in.add_generation_prompt = true;
    Rendered r;
    try {
      r = t.render(in);
    } catch (const Error&) {
      continue;
    }
    size_t at = r.text.find(std::string("zq") + kToken);
    if (at == std::string::npos) continue;
    ++rendered;
    for (size_t i = 0; i < r.text.size(); ++i) {
      bool in_span = false;
      for (const ContentSpan& s : r.content) in_span |= s.begin <= i && i < s.end;
      if (i >= at && i < at + 14) {
        EXPECT_TRUE(in_span) << entry.path();
      }
    }
    for (const ContentSpan& s : r.content) {
      EXPECT_LT(s.begin, s.end);
      bool own = r.text.substr(s.begin, s.end - s.begin).find("zq") == std::string::npos;
      if (own) {
        EXPECT_EQ(r.text.substr(s.begin, s.end - s.begin).find("<|"), std::string::npos) << entry.path();
      }
    }
  }
  EXPECT_GT(rendered, 1u);
}

// ---- conventions

TEST(ChatTemplate, ContinueFinalMessageCutsTextAndSpans) {
  ChatInput in = chat("go", "user");
  in.messages.push_back({{"role", "assistant"}, {"content", "so far "}});
  in.continue_final_message = true;
  std::string source = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}";
  Rendered r = render(source, in);
  EXPECT_EQ(r.text, "<user>go</><assistant>so far ");
  EXPECT_EQ(content_of(r), "[user][go][assistant][so far ]");
  r = render("{% for m in messages %}<{{ m.role }}>{{ m.content|trim }}</>{% endfor %}", in);
  EXPECT_EQ(r.text, "<user>go</><assistant>so far");
  EXPECT_THROW(render("nothing", in), Error);
  in.add_generation_prompt = true;
  EXPECT_THROW(render(source, in), Error);
}

TEST(ChatTemplate, ReasoningHasOneName) {
  ChatInput in;
  in.messages = Json::array({{{"role", "assistant"}, {"content", "a"}, {"name", nullptr}, {"reasoning", "r"}}});
  EXPECT_EQ(
      render("{{ messages[0].reasoning_content }}{{ messages[0].thinking }}{{ messages[0].name is defined }}", in).text,
      "rrFalse");
}

std::string error_of(const std::string& source, const ChatInput& input = chat("x")) {
  try {
    render(source, input);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(ChatTemplate, ErrorsSayWhere) {
  EXPECT_EQ(error_of("a\n  {{ raise_exception('no ' ~ messages[0].role) }}"),
            "chat template: line 2, column 21: no user");
  EXPECT_EQ(error_of("a\n {% endif %}"), "chat template: line 2, column 5: unknown tag 'endif'");
  EXPECT_EQ(error_of("{{ x.y }}"), "chat template: line 1, column 5: 'x' is undefined");
  EXPECT_NE(error_of("{{ 1 }}", ChatInput{}).find("empty"), std::string::npos);
}

TEST(ChatTemplate, ChoosesAsTheReferenceDoes) {
  std::vector<NamedTemplate> t = {{"default", "d"}, {"tool_use", "t"}, {"rag", "r"}};
  EXPECT_EQ(*choose_template(t, false), "d");
  EXPECT_EQ(*choose_template(t, true), "t");
  EXPECT_EQ(*choose_template(t, true, "rag"), "r");
  EXPECT_EQ(choose_template(t, false, "x"), nullptr);
  t.erase(t.begin() + 1);
  EXPECT_EQ(*choose_template(t, true), "d");
  EXPECT_EQ(choose_template({}, true), nullptr);
}

TEST(TemplateRow, RefusesWhatItDoesNotKnow) {
  std::string source = "{{ messages[0].content }}";
  Json row = {{"messages", {{{"role", "user"}, {"content", "x"}}}}};
  EXPECT_EQ(answer_template_row(row, &source), (Json{{"text", "x"}}));
  EXPECT_TRUE(answer_template_row(row, nullptr).contains("error"));
  row["template"] = "T";
  EXPECT_EQ(answer_template_row(row, &source), (Json{{"text", "T"}}));
  row["typo"] = 1;
  EXPECT_TRUE(answer_template_row(row, &source).contains("error"));
  for (const char* bad :
       {R"([])", R"({"messages": 5})", R"({"messages": [1]})", R"({"context": 3})", R"({"context": {}, "now": "x"})",
        R"({"messages": [{}], "tools": 3})", R"({"messages": [{}], "kwargs": []})",
        R"({"messages": [{}], "template": 1})", R"({"messages": [{}], "add_generation_prompt": "yes"})"})
    EXPECT_TRUE(answer_template_row(Json::parse(bad), &source).contains("error")) << bad;
}

}  // namespace
}  // namespace tenon::text
