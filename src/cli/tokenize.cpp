// tenon tokenize: text -> tokens -> ids -> count, and back.
#include <cstdio>
#include <iostream>

#include "base/error.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/process.h"
#include "text/decode_stream.h"
#include "text/tokenizer.h"

namespace tenon::cli {
namespace {

struct Options {
  std::string model, text, file, ids, compare;
  bool jsonl = false, json = false, special = false;
};

std::vector<int32_t> ids_of(const Json& v, const text::Tokenizer& t) {
  std::vector<int32_t> ids;
  for (const Json& id : v) {
    if (!id.is_number_integer()) fail(ErrorCode::invalid_argument, "ids must be integers");
    auto n = id.get<int64_t>();
    if (n < 0 || n >= t.vocab_size())
      fail(ErrorCode::invalid_argument, "id {} is outside the vocabulary of {}", n, t.vocab_size());
    ids.push_back(static_cast<int32_t>(n));
  }
  return ids;
}

Json encode_row(const Json& row, const text::Tokenizer& t) {
  text::EncodeOptions options;
  options.add_special_tokens = row.value("add_special_tokens", false);
  options.parse_special = row.value("parse_special", true);
  options.as_configured = row.value("as_configured", false);
  std::string input = row.at("text"), pair = row.value("pair", "");
  text::Encoding e =
      t.encode(input, options, row.contains("pair") ? std::optional<std::string_view>(pair) : std::nullopt);
  Json tokens = Json::array();
  for (int32_t id : e.ids) tokens.push_back(t.token(id));
  return {{"ids", e.ids}, {"tokens", tokens}, {"type_ids", e.type_ids}};
}

Json answer(const Json& row, const std::shared_ptr<const text::Tokenizer>& t) {
  bool skip = row.value("skip_special_tokens", false);
  if (row.contains("text")) return encode_row(row, *t);
  if (row.contains("ids")) return {{"text", t->decode(ids_of(row["ids"], *t), skip)}};
  if (row.contains("stream")) {
    text::DecodeStream stream(t, skip);
    Json pieces = Json::array();
    for (int32_t id : ids_of(row["stream"], *t)) pieces.push_back(stream.push(id));
    return {{"pieces", pieces}, {"tail", stream.finish()}};
  }
  fail(ErrorCode::invalid_argument, "a row needs text, ids or stream");
}

int rows(const std::shared_ptr<const text::Tokenizer>& t) {
  std::string line;
  while (std::getline(std::cin, line)) {
    Json out;
    try {
      out = answer(parse_json(line, "standard input"), t);
    } catch (const Error& e) {
      out = {{"error", e.what()}};
    } catch (const nlohmann::json::exception& e) {
      out = {{"error", e.what()}};
    }
    std::cout << out.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  }
  return 0;
}

// Pieces on alternating backgrounds on a terminal, between bars elsewhere; line breaks made visible.
void show(const text::Tokenizer& t, const std::vector<int32_t>& ids, size_t bytes) {
  bool colour = stdout_is_terminal();
  for (size_t i = 0; i < ids.size(); ++i) {
    std::string piece = t.decode({&ids[i], 1}), shown;
    for (char c : piece) shown += c == '\n' ? "\\n\n" : std::string(1, c);
    if (colour)
      std::printf("\x1b[%sm%s\x1b[0m", t.is_special(ids[i]) ? "7;33" : i % 2 ? "48;5;24" : "48;5;60", shown.c_str());
    else
      std::printf("%s|", shown.c_str());
  }
  std::printf("\n\n");
  for (size_t i = 0; i < ids.size(); ++i) std::printf("%s%d", i ? " " : "", ids[i]);
  std::printf("\n\n%zu tokens, %zu bytes, %.2f bytes per token\n", ids.size(), bytes,
              ids.empty() ? 0.0 : static_cast<double>(bytes) / static_cast<double>(ids.size()));
}

// Two tokenizers' counts, and the first stretch of text that they cut differently.
void compare(const text::Tokenizer& a, const text::Tokenizer& b, const Options& o) {
  text::EncodeOptions options{.add_special_tokens = o.special, .parse_special = true};
  auto show_one = [&](const char* name, const text::Tokenizer& t) {
    auto ids = t.encode(o.text, options).ids;
    std::printf("%s (vocabulary of %d)\n", name, t.vocab_size());
    show(t, ids, o.text.size());
    return ids;
  };
  const auto x = show_one(o.model.c_str(), a);
  std::puts("");
  const auto y = show_one(o.compare.c_str(), b);
  std::printf("\n%+lld tokens (%+.1f %%)", static_cast<long long>(y.size()) - static_cast<long long>(x.size()),
              x.empty() ? 0 : 100.0 * (static_cast<double>(y.size()) / static_cast<double>(x.size()) - 1));
  if (x == y && a.vocab_size() == b.vocab_size()) {
    std::puts("; the same ids");
    return;
  }
  std::string left;
  for (size_t i = 0, k = 0; i < x.size() && k < y.size(); ++i, ++k) {
    const std::string p = a.decode({&x[i], 1}), q = b.decode({&y[k], 1});
    if (p == q) {
      left += p;
      continue;
    }
    std::printf("; cut differently from byte %zu on: |%s| and |%s|\n", left.size(), p.c_str(), q.c_str());
    return;
  }
  std::puts("; the same pieces");
}

int tokenize(Options o, bool has_text) {
  auto t = text::Tokenizer::load(o.model);
  if (o.jsonl) return rows(t);
  if (!o.ids.empty()) {
    std::vector<int32_t> ids = parse_ids(o.ids);
    for (int32_t id : ids)
      if (id >= t->vocab_size())
        fail(ErrorCode::invalid_argument, "id {} is outside the vocabulary of {}", id, t->vocab_size());
    std::printf("%s\n", t->decode(ids).c_str());
    return 0;
  }
  if (!o.file.empty())
    o.text = read_file(o.file, 1 << 30);
  else if (!has_text)
    o.text.assign(std::istreambuf_iterator<char>(std::cin), {});
  if (!o.compare.empty()) return compare(*t, *text::Tokenizer::load(o.compare), o), 0;
  text::Encoding e = t->encode(o.text, {.add_special_tokens = o.special, .parse_special = true});
  if (o.json) {
    Json tokens = Json::array();
    for (int32_t id : e.ids) tokens.push_back(t->token(id));
    std::cout << Json{{"ids", e.ids}, {"tokens", tokens}, {"count", e.ids.size()}}.dump(-1, ' ', false,
                                                                                        Json::error_handler_t::replace)
              << "\n";
  } else {
    show(*t, e.ids, o.text.size());
  }
  return 0;
}

std::function<int()> declare(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("model", o->model, "model directory, .gguf file or tokenizer file")->required();
  app.add_option("text", o->text, "the text; default: standard input");
  app.add_option("--file", o->file, "read the text from a file");
  app.add_option("--ids", o->ids, "decode these ids instead: 1,2,3");
  app.add_option("--compare", o->compare, "another tokenizer: counts and cuts side by side");
  app.add_flag("--special", o->special, "add the tokenizer's own special tokens (BOS, EOS)");
  app.add_flag("--json", o->json, "for machines");
  app.add_flag("--jsonl", o->jsonl,
               "answer JSON rows from standard input: {\"text\"...}, {\"ids\"...} or {\"stream\"...}");
  CLI::App* a = &app;
  return [o, a] { return tokenize(*o, a->count("text") > 0); };
}

}  // namespace

extern const Command tokenize_command{"tokenize", "Text to tokens and ids, and back",
                                      "  tenon tokenize model.gguf \"Hello, world\"\n"
                                      "  tenon tokenize model/ --file book.txt --json\n"
                                      "  tenon tokenize model/ --ids 19556,28,905\n"
                                      "  tenon tokenize model.gguf \"straight ahead\" --compare other/tokenizer.json\n",
                                      declare};

}  // namespace tenon::cli
