// Post-processors: special tokens round one or two sequences; truncation and padding.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "text/tokenizer.h"

namespace tenon::text {

struct TemplatePiece {
  enum Kind : uint8_t { first, second, special } kind = first;
  int32_t type_id = 0;
  std::vector<int32_t> ids;  // of special
};
struct TemplateRule {
  std::vector<TemplatePiece> single, pair;
};
struct ClsSepRule {  // BertProcessing
  int32_t cls = 0, sep = 0;
};
struct RobertaRule {
  int32_t cls = 0, sep = 0;
};
using PostProcessor = std::variant<TemplateRule, ClsSepRule, RobertaRule>;

enum class Side { left, right };
struct Truncation {
  enum class Strategy { longest_first, only_first, only_second } strategy = Strategy::longest_first;
  size_t max_length = 512, stride = 0;
  Side side = Side::right;
};
struct Padding {
  std::optional<size_t> length;  // nullopt: as long as the longest of a batch, which here is the one
  size_t multiple_of = 0;        // 0: any
  Side side = Side::right;
  int32_t id = 0, type_id = 0;
};

// How many tokens the steps add.
size_t added_count(const std::vector<PostProcessor>& steps, bool pair);
// Throws Error{invalid_argument} where the reference refuses.
void truncate(const Truncation& rule, size_t max_length, Encoding& first, Encoding* second);
Encoding post_process(const std::vector<PostProcessor>& steps, Encoding first, std::optional<Encoding> second,
                      bool add_special_tokens);
void pad(const Padding& rule, Encoding& e);

}  // namespace tenon::text
