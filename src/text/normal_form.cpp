#include "text/normal_form.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "text/unicode.h"

namespace tenon::text {
namespace {

// Hangul syllables are computed (Unicode standard, 3.12).
constexpr char32_t kSBase = 0xAC00, kLBase = 0x1100, kVBase = 0x1161, kTBase = 0x11A7;
constexpr char32_t kLCount = 19, kVCount = 21, kTCount = 28, kNCount = kVCount * kTCount, kSCount = kLCount * kNCount;

bool compatible(NormalForm f) { return f == NormalForm::nfkc || f == NormalForm::nfkd; }
bool composes(NormalForm f) { return f == NormalForm::nfc || f == NormalForm::nfkc; }

void decompose(char32_t c, bool compat, std::u32string& out) {
  if (c < 0x80) {
    out.push_back(c);
  } else if (c >= kSBase && c < kSBase + kSCount) {
    char32_t s = c - kSBase;
    out.push_back(kLBase + s / kNCount);
    out.push_back(kVBase + s % kNCount / kTCount);
    if (s % kTCount) out.push_back(kTBase + s % kTCount);
  } else {
    Mapped m = compat ? find_mapping(unicode_tables::kCompatible, c) : Mapped{nullptr, 0};
    if (!m.count) m = find_mapping(unicode_tables::kCanonical, c);
    if (!m.count) out.push_back(c);
    for (uint32_t i = 0; i < m.count; ++i) out.push_back(m.data[i]);
  }
}

// Runs of marks are put in order of their class, keeping the order of equal ones.
void reorder(std::u32string& s) {
  auto klass = [](char32_t c) { return c < 0x300 ? uint8_t{0} : char_record(c).combining; };
  for (size_t i = 0; i < s.size();) {
    if (klass(s[i]) == 0) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < s.size() && klass(s[end]) != 0) ++end;
    std::stable_sort(s.begin() + static_cast<std::ptrdiff_t>(i), s.begin() + static_cast<std::ptrdiff_t>(end),
                     [&](char32_t a, char32_t b) { return klass(a) < klass(b); });
    i = end;
  }
}

char32_t composed(char32_t a, char32_t b) {
  if (a >= kLBase && a < kLBase + kLCount && b >= kVBase && b < kVBase + kVCount)
    return kSBase + ((a - kLBase) * kVCount + (b - kVBase)) * kTCount;
  if (a >= kSBase && a < kSBase + kSCount && (a - kSBase) % kTCount == 0 && b > kTBase && b < kTBase + kTCount)
    return a + (b - kTBase);
  using unicode_tables::kPairs;
  const auto* end = kPairs + unicode_tables::kPairCount;
  const auto* it = std::lower_bound(
      kPairs, end, std::pair<uint32_t, uint32_t>(a, b),
      [](const auto& p, const auto& key) { return std::pair<uint32_t, uint32_t>(p.first, p.second) < key; });
  return it != end && it->first == a && it->second == b ? it->composed : 0;
}

void compose(std::u32string& s) {
  constexpr size_t kNoStarter = ~size_t{0};
  size_t starter = kNoStarter, to = 0;
  uint8_t last = 0;  // class of the character before, when something stands between it and the starter
  for (char32_t c : s) {
    uint8_t klass = char_record(c).combining;
    if (starter != kNoStarter && (starter + 1 == to || last < klass)) {
      if (char32_t joined = composed(s[starter], c)) {
        s[starter] = joined;
        continue;
      }
    }
    if (klass == 0) starter = to;
    last = klass;
    s[to++] = c;
  }
  s.resize(to);
}

bool active(char32_t c, NormalForm form) {
  switch (form) {
    case NormalForm::nfc:
      return has_flag(c, kNfcActive);
    case NormalForm::nfkc:
      return has_flag(c, kNfkcActive);
    default:
      return true;
  }
}

void transform(std::string_view text, NormalForm form, std::string& out) {
  std::u32string s;
  for (size_t at = 0; at < text.size();) {
    CodePoint c = decode_utf8(text.data() + at);
    decompose(c.value, compatible(form), s);
    at += c.bytes;
  }
  reorder(s);
  if (composes(form)) compose(s);
  for (char32_t c : s) append_utf8(out, c);
}

size_t end_of_ascii(std::string_view text, size_t at) {
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t w;
    std::memcpy(&w, text.data() + at, 8);
    if (w & 0x8080808080808080) break;
  }
  while (at < text.size() && static_cast<uint8_t>(text[at]) < 0x80) ++at;
  return at;
}

// Where the first character that may change stands; the text's size when there is none.
size_t first_active(std::string_view text, size_t at, NormalForm form) {
  while (at < text.size()) {
    auto lead = static_cast<uint8_t>(text[at]);
    if (lead < 0x80) {
      at = end_of_ascii(text, at);
      continue;
    }
    if (starts_ideograph(text.data() + at)) {
      at += 3;
      continue;
    }
    CodePoint c = decode_utf8(text.data() + at);
    if (active(c.value, form)) return at;
    at += c.bytes;
  }
  return at;
}

size_t end_of_active(std::string_view text, size_t at, NormalForm form) {
  while (at < text.size()) {
    CodePoint c = decode_utf8(text.data() + at);
    if (c.value < 0x80 || !active(c.value, form)) return at;
    at += c.bytes;
  }
  return at;
}

}  // namespace

// Only stretches of active characters, with the character before them, can change: an inactive one is a starter that
// joins with nothing before it.
bool to_normal_form(std::string_view text, NormalForm form, std::string& out) {
  size_t at = first_active(text, 0, form);
  if (at == text.size()) return false;
  std::string result;
  result.reserve(text.size() + text.size() / 8);
  for (size_t done = 0; done < text.size();) {
    size_t begin = at;
    if (begin > done) begin -= decode_utf8_before(text.data() + begin).bytes;
    size_t end = end_of_active(text, at, form);
    result.append(text, done, begin - done);
    transform(text.substr(begin, end - begin), form, result);
    done = end;
    at = first_active(text, end, form);
    if (at == text.size()) {
      result.append(text, done);
      break;
    }
  }
  out = std::move(result);
  return true;
}

}  // namespace tenon::text
