// Text generation.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/model.h"

namespace tenon {

struct GenerateOptions {
  int64_t max_tokens = 0;  // 0: until an end token or a full context
  // Unset: generation_config.json's values, else temperature 1 and nothing more. Temperature 0 is greedy.
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int64_t> top_k;
  uint64_t seed = 0;
  std::vector<std::string> stop;  // the answer ends before any of these
};

struct Message {
  std::string role, content;
};

struct Answer {
  std::string text;
  std::vector<int32_t> tokens;
  std::string finish_reason;  // "stop", "length", "cancelled"
};

using PieceSink = std::function<bool(std::string_view piece)>;  // false ends the answer

class TextModel {
 public:
  // A Hugging Face directory, a .gguf or .safetensors file. Throws Error{does_not_fit} before any weight is touched.
  explicit TextModel(const std::string& path, const LoadOptions& options = {});
  ~TextModel();
  TextModel(TextModel&&) noexcept;
  TextModel& operator=(TextModel&&) noexcept;

  Answer chat(const std::vector<Message>& messages, const GenerateOptions& options = {}, const PieceSink& sink = {});
  Answer chat(const std::string& message, const GenerateOptions& options = {}, const PieceSink& sink = {});
  Answer complete(const std::string& text, const GenerateOptions& options = {}, const PieceSink& sink = {});
  Answer complete(const std::vector<int32_t>& tokens, const GenerateOptions& options = {}, const PieceSink& sink = {});

  std::vector<int32_t> tokenize(const std::string& text, bool add_special_tokens = false) const;
  std::string detokenize(const std::vector<int32_t>& tokens) const;
  int64_t context() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon
