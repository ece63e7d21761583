#include "text/rank_bpe.h"

namespace tenon::text {
namespace {

// Longer tokens would make the number of cuts quadratic in the file; none of the published ones comes near.
constexpr size_t kLongestToken = 4096;

template <class F>
void each_cut(const Vocabulary& v, F&& f) {
  for (int32_t id = 0; id < v.size(); ++id) {
    std::string_view token = v.bytes(id);
    if (token.size() > kLongestToken || v.find(token) != id) continue;
    for (size_t cut = 1; cut < token.size(); ++cut) {
      int32_t left = v.find(token.substr(0, cut));
      int32_t right = left < 0 ? -1 : v.find(token.substr(cut));
      if (right >= 0) f(static_cast<uint32_t>(left), static_cast<uint32_t>(right), static_cast<uint32_t>(id));
    }
  }
}

}  // namespace

std::unique_ptr<TokenModel> make_rank_bpe(const std::shared_ptr<const Vocabulary>& vocabulary) {
  struct Merge {
    uint32_t left, right, id;
  };
  std::vector<Merge> merges;
  each_cut(*vocabulary, [&](uint32_t left, uint32_t right, uint32_t id) { merges.push_back({left, right, id}); });
  MergeTable table;
  table.reserve(merges.size());
  for (const Merge& m : merges) table.add(m.left, m.right, m.id, m.id);
  BpeOptions options;
  options.ignore_merges = true;
  return std::make_unique<Bpe>(options, vocabulary, std::move(table));
}

}  // namespace tenon::text
