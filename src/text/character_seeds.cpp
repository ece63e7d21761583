#include "text/character_seeds.h"

#include <algorithm>
#include <bit>

namespace tenon::text {
namespace {

constexpr size_t kCodePoints = 1 << 16;

bool continues(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

// Bytes of the character that starts with `lead`; a stray continuation byte counts as one.
size_t length_from(char lead) {
  auto b = static_cast<uint8_t>(lead);
  return b < 0xC0 ? 1 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
}

bool all_continue(std::string_view s) { return std::all_of(s.begin(), s.end(), continues); }

bool cut_short(std::string_view s) { return s.size() < length_from(s[0]) && all_continue(s.substr(1)); }

std::string_view last_character(std::string_view s) {
  size_t at = s.size() - 1;
  while (at > 0 && continues(s[at])) --at;
  return s.substr(at);
}

bool in_order(const Vocabulary& vocabulary, const MergeTable& merges) {
  std::vector<uint32_t> made(static_cast<size_t>(vocabulary.size()), 0);  // the last rank that makes a token, plus one
  merges.each(
      [&](uint32_t, uint32_t, uint32_t rank, uint32_t merged) { made[merged] = std::max(made[merged], rank + 1); });
  bool good = true;
  merges.each([&](uint32_t left, uint32_t right, uint32_t rank, uint32_t) {
    good = good && rank >= made[left] && rank >= made[right];
  });
  return good;
}

}  // namespace

CharacterSeeds::CharacterSeeds(const MergeTable& merges, const std::array<int32_t, 256>& byte_ids)
    : merges_(merges), byte_ids_(byte_ids), seeds_(std::make_unique<std::atomic<uint64_t>[]>(kCodePoints)) {}

std::unique_ptr<CharacterSeeds> CharacterSeeds::make(const Vocabulary& vocabulary, const MergeTable& merges,
                                                     const std::array<int32_t, 256>& byte_ids) {
  if (std::any_of(byte_ids.begin(), byte_ids.end(), [](int32_t id) { return id < 0; })) return nullptr;
  if (!in_order(vocabulary, merges)) return nullptr;
  std::unique_ptr<CharacterSeeds> seeds(new CharacterSeeds(merges, byte_ids));
  seeds->find_crossings(vocabulary);
  seeds->find_joins(vocabulary);
  return seeds;
}

// Merges over the border of two characters whose left token lies within one, or whose right token is the start of one.
void CharacterSeeds::find_crossings(const Vocabulary& vocabulary) {
  std::vector<uint8_t> part(static_cast<size_t>(vocabulary.size()));
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    std::string_view b = vocabulary.bytes(id);
    if (!b.empty()) part[static_cast<size_t>(id)] = all_continue(b) || cut_short(b);
  }
  merges_.each([&](uint32_t left, uint32_t right, uint32_t, uint32_t) {
    if (!part[left] && !part[right]) return;
    std::string_view x = vocabulary.bytes_unchecked(left), y = vocabulary.bytes_unchecked(right);
    if (continues(y[0])) return;  // within a character
    if (!all_continue(x)) {
      if (!part[right]) return;
      x = last_character(x);
    }
    crossings_.push_back({std::string(x), std::string(y.substr(0, length_from(y[0])))});
  });
  crossings_.shrink_to_fit();
}

namespace {

// Of a whole character of up to three bytes; kNoCode for others.
constexpr uint32_t kNoCode = ~0u;
inline uint32_t code_of(std::string_view c) {
  auto b = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(c[i])); };
  auto tail = [&](size_t i) { return (b(i) & 0xC0) == 0x80; };
  const size_t n = length_from(c[0]);
  if (c.size() < n || n > 3) return kNoCode;
  if (n == 1) return b(0) < 0x80 ? b(0) : kNoCode;
  if (!tail(1) || !tail(n - 1)) return kNoCode;
  const uint32_t code =
      n == 2 ? (b(0) & 0x1F) << 6 | (b(1) & 0x3F) : (b(0) & 0x0F) << 12 | (b(1) & 0x3F) << 6 | (b(2) & 0x3F);
  return code < (n == 2 ? 0x80u : 0x800u) ? kNoCode : code;  // too long a spelling
}

}  // namespace

void CharacterSeeds::find_joins(const Vocabulary& vocabulary) {
  auto n = static_cast<size_t>(vocabulary.size());
  std::vector<uint32_t> first(n, kNoCode), last(n, kNoCode);
  for (size_t id = 0; id < n; ++id) {
    std::string_view b = vocabulary.bytes_unchecked(static_cast<uint32_t>(id));
    if (b.empty()) continue;
    first[id] = code_of(b.substr(0, length_from(b[0])));
    last[id] = code_of(last_character(b));
  }
  joins_.assign((size_t{1} << kJoinBits) / 64, 0);
  merges_.each([&](uint32_t left, uint32_t right, uint32_t, uint32_t) {
    if (last[left] == kNoCode || first[right] == kNoCode) return;
    const size_t bit = join_bit(last[left], first[right]);
    joins_[bit / 64] |= uint64_t{1} << (bit % 64);
  });
}

size_t CharacterSeeds::memory_bytes() const {
  return sizeof(*this) + joins_.capacity() * sizeof(joins_[0]) + kCodePoints * sizeof(seeds_[0]) +
         crossings_.capacity() * sizeof(Crossing);
}

uint64_t CharacterSeeds::learn(std::string_view character) const {
  uint32_t ids[3] = {};
  uint64_t seed = kKnown;
  size_t n = 0;
  for (char c : character) ids[n++] = static_cast<uint32_t>(byte_ids_[static_cast<uint8_t>(c)]);
  while (n > 1) {
    uint64_t first = merges_.find(ids[0], ids[1]);
    uint64_t second = n > 2 ? merges_.find(ids[1], ids[2]) : MergeTable::kNoMerge;
    if (std::min(first, second) == MergeTable::kNoMerge) break;
    if (second < first)
      ids[1] = static_cast<uint32_t>(second);
    else
      ids[0] = static_cast<uint32_t>(first), ids[1] = ids[2];
    --n;
  }
  if (n == 1) seed |= kOneToken | ids[0];
  for (const Crossing& c : crossings_) {
    if (character.ends_with(c.left)) seed |= group_of(c.left) << kLeftShift;
    if (character.starts_with(c.right)) seed |= group_of(c.left) << kRightShift;
  }
  return seed;
}

// Many crossings start with a space; it has a group of its own.
uint64_t CharacterSeeds::group_of(std::string_view left) {
  return left == " " ? 1 : uint64_t{2} << hash_bytes(left.data(), left.size()) % (kGroups - 1);
}

bool CharacterSeeds::crossed(std::string_view left, std::string_view right) const {
  return std::any_of(crossings_.begin(), crossings_.end(), [&](const Crossing& c) {
    return left.back() == c.left.back() && right[0] == c.right[0] && left.ends_with(c.left) &&
           right.starts_with(c.right);
  });
}

inline bool CharacterSeeds::next(std::string_view text, Character& c) const {
  c.at = text.data();
  c.bytes = static_cast<uint32_t>(std::min(length_from(text[0]), text.size()));
  c.code = code_of({c.at, c.bytes});
  c.seed = 0;
  if (c.code == kNoCode) return false;
  std::atomic<uint64_t>& place = seeds_[c.code];
  c.seed = place.load(std::memory_order_relaxed);
  if (!(c.seed & kKnown)) place.store(c.seed = learn({c.at, c.bytes}), std::memory_order_relaxed);
  return true;
}

inline bool CharacterSeeds::may_cross(const Character& left, const Character& right) const {
  constexpr uint64_t kMask = (1u << kGroups) - 1;
  return (left.seed >> kLeftShift & right.seed >> kRightShift & kMask) != 0 &&
         crossed({left.at, left.bytes}, {right.at, right.bytes});
}

bool CharacterSeeds::split(std::string_view piece, std::vector<uint32_t>& ids) const {
  // Below U+0800 characters are short, and crossings common.
  if (std::none_of(piece.begin(), piece.end(), [](char c) { return static_cast<uint8_t>(c) >= 0xE0; })) return false;
  ids.clear();
  Character before{nullptr, 0, 0, 0}, c;
  for (; !piece.empty(); piece.remove_prefix(c.bytes), before = c) {
    if (!next(piece, c) || !(c.seed & kOneToken) || may_cross(before, c)) return false;
    ids.push_back(static_cast<uint32_t>(c.seed & kId));
  }
  return true;
}

size_t CharacterSeeds::segments(std::string_view& piece, Segment (&out)[kMostSegments]) const {
  // First all characters, then all borders, then the segments: there is little to mispredict before the last.
  Character c[kMostSegments];
  size_t n = 0, bytes = 0;
  bool known = true;
  for (; n < kMostSegments && bytes < piece.size() && known; bytes += c[n++].bytes)
    known = next(piece.substr(bytes), c[n]);
  uint64_t joined = 0;
  for (size_t i = 1; i < n; ++i) {
    const size_t bit = join_bit(c[i - 1].code, c[i].code);
    uint64_t join = joins_[bit / 64] >> (bit % 64) & 1;
    if (may_cross(c[i - 1], c[i])) join = 1;
    joined |= join << i;
  }
  if (!known) joined |= uint64_t{1} << (n - 1);
  const bool ends = known && bytes == piece.size();
  size_t segments = 0;
  for (size_t i = 0; i < n;) {
    const size_t first = i++;
    i += static_cast<size_t>(std::countr_one(i < n ? joined >> i : 0));
    const char *begin = c[first].at, *end = i < n ? c[i].at : piece.data() + bytes;
    if (i == n && !ends) {
      // How this one ends is not known yet, or what lies in it has no seed: then it is all that is left.
      if (known && first > 0) return piece.remove_prefix(static_cast<size_t>(begin - piece.data())), segments;
      end = piece.data() + piece.size();
    }
    const bool token = (c[first].seed & kOneToken) && end == begin + c[first].bytes;
    out[segments++] = {static_cast<uint32_t>(end - begin), token ? static_cast<int32_t>(c[first].seed & kId) : -1};
  }
  piece = {};
  return segments;
}

}  // namespace tenon::text
