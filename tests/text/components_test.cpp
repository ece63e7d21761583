// Normalizers, pre-tokenizers and decoders one by one against the reference.
#include "text/components.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "base/error.h"
#include "support/kit.h"

namespace tenon::text {
namespace {

std::string show(const Json& j) { return j.dump(-1, ' ', true, Json::error_handler_t::replace); }

Json run_component(const std::string& room, const Json& config, const Json& input) {
  if (room == "normalizers") {
    std::string buffer;
    return std::string(normalize(parse_normalizers(config, "test"), input.get<std::string>(), buffer));
  }
  if (room == "pre_tokenizers") return split_pieces(parse_splitters(config, "test"), input.get<std::string>());
  std::vector<Decoder> steps = parse_decoders(config, "test");
  DecoderRun run(steps);
  std::string out;
  for (const Json& token : input) run.push(token.get<std::string>(), out);
  run.finish(out);
  return out;
}

void check_components(const std::filesystem::path& file) {
  std::map<std::string, Json> configs;
  std::map<std::string, std::pair<int, int>> counts;  // wrong, rows
  std::ifstream in(file);
  std::string first;
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) continue;
    Json row = Json::parse(line);
    if (row.contains("config")) {
      configs[row["name"]] = row["config"];
      continue;
    }
    std::string name = row["use"];
    Json got;
    try {
      got = run_component(file.stem(), configs.at(name), row["input"]);
    } catch (const Error& e) {
      got = std::string("threw ") + e.what();
    }
    ++counts[name].second;
    if (got == row["output"] || counts[name].first++ > 1) continue;
    first += "\n  " + name + ": " + show(row["input"]).substr(0, 150) + "\n    gives  " + show(got).substr(0, 300) +
             "\n    wanted " + show(row["output"]).substr(0, 300);
  }
  EXPECT_FALSE(counts.empty());
  int wrong = 0, rows = 0;
  for (const auto& [name, count] : counts) wrong += count.first, rows += count.second;
  EXPECT_EQ(wrong, 0) << file << ": " << wrong << " of " << rows << first;
}

TEST(Components, Committed) {
  for (const char* name : {"normalizers", "pre_tokenizers", "decoders"})
    check_components(test::golden(std::string("tokenizers/components/") + name + ".jsonl"));
}

TEST(Components, Kit) {
  for (const char* name : {"normalizers", "pre_tokenizers", "decoders"}) {
    auto file = test::kit(std::string("tokenizers/components/") + name + ".jsonl");
    if (!file) GTEST_SKIP() << "the kit is not here";
    check_components(*file);
  }
}

}  // namespace
}  // namespace tenon::text
