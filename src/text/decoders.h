// Decoders: token strings -> text, one token after the other, so that decoding a whole and streaming are the same code.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/pattern.h"
#include "text/split.h"

namespace tenon::text {

struct ByteLevelDecoder {};
struct WordPieceDecoder {
  std::string prefix = "##";
  bool cleanup = true;
};
struct MetaspaceDecoder {
  std::string mark = "\xE2\x96\x81";
  PrependScheme scheme = PrependScheme::always;
};
struct SuffixDecoder {  // the end of a word becomes a space, that of the text nothing
  std::string suffix = "</w>";
};
struct CtcDecoder {
  std::string pad_token = "<pad>", delimiter = "|";
  bool cleanup = true;
};
struct ByteFallbackDecoder {};
struct FuseDecoder {};
struct StripDecoder {
  char32_t content = U' ';
  size_t start = 0, stop = 0;
};
struct ReplaceDecoder {
  Pattern pattern;
  std::string by;
};
struct PieceDecoder {        // SentencePiece's pieces as llama.cpp writes them
  bool space_prefix = true;  // the first token, skipped or not, loses a space at its start
};
struct SentencePieceDecoder {                 // as the library itself decodes
  std::string unk_surface, unknown;           // what the unknown piece looks like; its spelling
  std::vector<std::string> control;           // sorted; they decode to nothing
  bool strip_first = true, strip_all = true;  // the first space, all spaces at the start
  bool as_suffix = false;                     // at the end instead
};
struct JoinDecoder {  // no decoder: tokens with spaces between them
};
using Decoder =
    std::variant<ByteLevelDecoder, WordPieceDecoder, MetaspaceDecoder, SuffixDecoder, CtcDecoder, ByteFallbackDecoder,
                 FuseDecoder, StripDecoder, ReplaceDecoder, PieceDecoder, SentencePieceDecoder, JoinDecoder>;

// A chain at work on one sequence of tokens.
class DecoderRun {
 public:
  explicit DecoderRun(const std::vector<Decoder>& steps);
  ~DecoderRun();
  DecoderRun(DecoderRun&&) noexcept;
  // Appends to `out` the text that is certain once `token` (as the vocabulary spells it) has come.
  void push(std::string_view token, std::string& out);
  void skip();  // a token came that is not shown
  void finish(std::string& out);

  class Step;

 private:
  std::vector<std::unique_ptr<Step>> steps_;
  std::string broken_;  // an incomplete character at the end of what came so far
};

}  // namespace tenon::text
