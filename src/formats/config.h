// A model's hyperparameters under Hugging Face's names, from config.json or from GGUF metadata (gguf_config.cpp).
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace tenon::formats {

class Gguf;

// Where GGUF writes the same network down differently; models turn these into op attributes.
struct Dialect {
  bool rope_interleaved = false;       // q and k rows are permuted so that rotary pairs are neighbours
  bool norms_stored_plus_one = false;  // Gemma's norm weights already have the 1 added
  bool matrices_in_out = true;         // Conv1D weights are [in, out], as transformers stores GPT-2
};

class Config {
 public:
  // `source` names the file in messages. Throws Error{invalid_file} when `json` is no object.
  Config(Json json, std::string source, Dialect dialect = {});
  static Config from_file(const std::filesystem::path& path);
  static Config from_gguf(const Gguf& gguf);  // throws Error{unsupported} for an architecture without a table

  // Typed reads; a missing or null field is absent, a field of another type or out of range throws Error naming it.
  int64_t integer(std::string_view key) const;
  int64_t integer_or(std::string_view key, int64_t fallback) const;
  std::optional<int64_t> maybe_integer(std::string_view key) const;
  double real(std::string_view key) const;
  double real_or(std::string_view key, double fallback) const;
  std::optional<double> maybe_real(std::string_view key) const;
  bool flag_or(std::string_view key, bool fallback) const;
  std::string string(std::string_view key) const;
  std::string string_or(std::string_view key, std::string fallback) const;
  std::vector<double> reals(std::string_view key) const;  // a list of numbers
  // An object inside, as a Config of its own; nullopt when absent.
  std::optional<Config> object(std::string_view key) const;
  bool has(std::string_view key) const;

  const Json& json() const { return json_; }
  const std::string& source() const { return source_; }
  const Dialect& dialect() const { return dialect_; }

 private:
  const Json* find(std::string_view key) const;
  Json json_;
  std::string source_;
  Dialect dialect_;
};

// A Hugging Face tensor name as this GGUF architecture spells it; nullopt when it has none.
std::optional<std::string> gguf_name(std::string_view architecture, std::string_view hugging_face_name);

}  // namespace tenon::formats
