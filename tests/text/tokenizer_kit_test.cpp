// The tokenizers against the reference libraries: every row of the committed cases, and of the full kit where it is
// present.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/json.h"
#include "support/kit.h"
#include "text/decode_stream.h"
#include "text/tokenizer.h"

namespace tenon::text {
namespace {

namespace fs = std::filesystem;

std::vector<Json> rows_of(const fs::path& file) {
  std::vector<Json> rows;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) rows.push_back(Json::parse(line));
  return rows;
}

// Counts failures and keeps the first few for the message.
struct Report {
  int rows = 0, wrong = 0;
  std::string first;
  void fail(const std::string& what) {
    if (++wrong <= 5) first += "\n    " + what.substr(0, 400);
  }
};

std::string show(const Json& j) { return j.dump(-1, ' ', true, Json::error_handler_t::replace); }

void check_encoding(const Tokenizer& t, const Json& row, const EncodeOptions& options, Report& r) {
  std::string text = row["text"];
  std::optional<std::string> pair;
  if (row.contains("pair") && !row["pair"].is_null()) pair = row["pair"].get<std::string>();
  const bool refused = row.contains("error") && !row["error"].is_null();
  Encoding e;
  try {
    e = t.encode(text, options, pair ? std::optional<std::string_view>(*pair) : std::nullopt);
  } catch (const Error& error) {
    if (!refused) r.fail(std::string("encoding threw ") + error.what() + ": " + show(row["text"]));
    return;
  }
  if (refused) return r.fail("accepted what the reference refuses: " + show(row));
  if (Json(e.ids) != row["ids"])
    return r.fail("ids of " + show(row["text"]) + show(options.parse_special) + " are " + show(e.ids) + ", wanted " +
                  show(row["ids"]));
  if (row.contains("type_ids") && Json(e.type_ids) != row["type_ids"])
    r.fail("type ids of " + show(row["text"]) + " are " + show(e.type_ids) + ", wanted " + show(row["type_ids"]));
}

void check_decoding(const Tokenizer& t, const Json& row, Report& r) {
  if (row.contains("error") && !row["error"].is_null()) return;
  std::vector<int32_t> ids = row["ids"];
  for (auto [key, skip] : {std::pair{"decoded", false}, {"decoded_skip_special", true}}) {
    if (!row.contains(key)) continue;
    std::string got = t.decode(ids, skip);
    if (got != row[key].get<std::string>())
      r.fail(std::string(key) + " of " + show(row["ids"]) + " is " + show(got) + ", wanted " + show(row[key]));
  }
  if (row.contains("tokens") && row["tokens"].is_array()) {
    Json tokens = Json::array();
    for (int32_t id : ids) tokens.push_back(t.token(id));
    if (tokens != row["tokens"]) r.fail("tokens " + show(tokens) + ", wanted " + show(row["tokens"]));
  }
}

// Rows with a `kind` are about the file's own truncation and padding.
void check_cases(const Tokenizer& t, const fs::path& file, Report& r) {
  for (const Json& row : rows_of(file)) {
    EncodeOptions options;
    if (row.contains("kind")) {
      std::string kind = row["kind"];
      if (kind != "single" && kind != "pair" && kind != "as_configured") continue;
      options.add_special_tokens = row.value("add_special_tokens", true);
      options.as_configured = kind == "as_configured" || file.filename() == "cases.jsonl";
    } else {
      options.add_special_tokens = row.value("add_special_tokens", false);
    }
    options.parse_special = row.value("parse_special", true);
    ++r.rows;
    check_encoding(t, row, options, r);
    check_decoding(t, row, r);
  }
}

void check_stream(const std::shared_ptr<const Tokenizer>& t, const fs::path& file, Report& r) {
  for (const Json& row : rows_of(file)) {
    ++r.rows;
    DecodeStream stream(t, row.value("skip_special_tokens", false));
    std::string all, allowed;
    bool early = false;
    Json pieces = Json::array();
    for (size_t i = 0; i < row["ids"].size(); ++i) {
      pieces.push_back(stream.push(row["ids"][i]));
      all += pieces.back().get<std::string>();
      if (row["pieces"].is_array()) {
        allowed += row["pieces"][i].get<std::string>();
        early = early || all.size() > allowed.size();
      }
    }
    all += stream.finish();
    if (all != row["full"].get<std::string>())
      r.fail("stream " + show(row["ids"]) + " gives " + show(all) + ", wanted " + show(row["full"]));
    else if (early)
      r.fail("stream shows text early: " + show(pieces) + ", wanted " + show(row["pieces"]));
  }
}

void check_folder(const fs::path& folder) {
  for (const char* name : {"tokenizer.json", "tokenizer.model", "tekken.json", "vocab.gguf", "tiktoken"}) {
    fs::path vocabulary = folder / name;
    if (std::string_view(name) == "tiktoken")
      for (const auto& entry : fs::directory_iterator(folder))
        if (entry.path().extension() == ".tiktoken") vocabulary = entry.path();
    if (!fs::exists(vocabulary)) continue;
    SCOPED_TRACE(vocabulary.string());
    std::shared_ptr<const Tokenizer> t;
    try {
      t = Tokenizer::load(vocabulary);
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
      continue;
    }
    const bool second_form =
        std::string_view(name) == "tokenizer.model" && fs::exists(folder / "cases_sentencepiece.jsonl");
    for (const char* cases : {"cases.jsonl", "cases_sentencepiece.jsonl", "pairs_padding.jsonl", "stream.jsonl"}) {
      if (!fs::exists(folder / cases)) continue;
      const bool sentencepiece = std::string_view(cases) == "cases_sentencepiece.jsonl";
      if (second_form != sentencepiece && (sentencepiece || second_form)) continue;
      Report r;
      if (std::string_view(cases) == "stream.jsonl")
        check_stream(t, folder / cases, r);
      else
        check_cases(*t, folder / cases, r);
      EXPECT_EQ(r.wrong, 0) << folder.filename() << "/" << name << " " << cases << ": " << r.wrong << " of " << r.rows
                            << r.first;
      std::printf("%-40s %-16s %-28s %d of %d\n", folder.filename().c_str(), name, cases, r.rows - r.wrong, r.rows);
    }
  }
}

void check_all(const fs::path& root, bool synthetic) {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(root))
    if (entry.is_directory()) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  for (const fs::path& f : folders)
    if (!synthetic || fs::exists(f / "cases.jsonl")) check_folder(f);
}

TEST(TokenizerKit, Vocabularies) {
  auto root = test::kit("tokenizers");
  if (!root) GTEST_SKIP() << "the kit is not here";
  check_all(*root, false);
}

TEST(TokenizerKit, Synthetic) {
  auto root = test::kit("tokenizers/synthetic");
  if (!root) GTEST_SKIP() << "the kit is not here";
  check_all(*root, true);
}

TEST(TokenizerKit, Committed) { check_all(test::golden("tokenizers"), true); }

}  // namespace
}  // namespace tenon::text
