// SentencePiece's BPE: neighbours join to whatever piece of the vocabulary has the best score, leftmost first.
#pragma once
#include "text/model.h"
#include "text/string_finder.h"
#include "text/vocabulary.h"

namespace tenon::text {

// SentencePiece's piece types, which GGUF took over.
enum class PieceType : uint8_t {
  undefined = 0,
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

struct PieceTable {
  std::vector<float> scores;     // by id
  std::vector<PieceType> types;  // by id
  int32_t unk_id = 0;
  bool byte_fallback = false;

  PieceType type(int32_t id) const { return types[static_cast<size_t>(id)]; }
  float score(int32_t id) const { return scores[static_cast<size_t>(id)]; }
  // Pieces that text may turn into.
  bool usable(int32_t id) const {
    PieceType t = type(id);
    return t == PieceType::normal || t == PieceType::user_defined || t == PieceType::unused;
  }
  // The user-defined pieces, which are never cut or joined.
  StringFinder user_defined(const Vocabulary& vocabulary) const;
  size_t memory_bytes() const { return scores.capacity() * sizeof(float) + types.capacity(); }
};

// Writes the ids of text without a piece: its byte tokens, or the unknown token (once for a run).
class UnknownWriter {
 public:
  UnknownWriter(const PieceTable& table, const Vocabulary& vocabulary);
  void append(std::string_view text, std::vector<int32_t>& out, bool after_unknown) const;
  bool as_bytes() const { return bytes_; }

 private:
  int32_t unk_id_;
  bool bytes_;
  std::vector<int32_t> byte_ids_;
};

class ScoreBpe final : public TokenModel {
 public:
  ScoreBpe(PieceTable table, std::shared_ptr<const Vocabulary> vocabulary);
  void encode(std::string_view piece, std::vector<int32_t>& out, ModelScratch& scratch) const override;
  std::string name() const override { return "BPE"; }
  size_t memory_bytes() const override { return sizeof(*this) + table_.memory_bytes(); }

 private:
  struct Run;
  PieceTable table_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  UnknownWriter unknown_;
  StringFinder user_defined_;
  bool has_unused_ = false;
};

}  // namespace tenon::text
