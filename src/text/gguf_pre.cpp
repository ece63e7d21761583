#include "text/gguf_pre.h"

#include <algorithm>
#include <iterator>

namespace tenon::text {
namespace {

// clang-format off
constexpr std::string_view kLlama3 =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n])re"
    R"re(+|\s+(?!\S)|\s+)re";
constexpr std::string_view kThreeDigits =
    R"re(\p{N}{1,3})re";
constexpr std::string_view kDigit =
    R"re(\p{N})re";
constexpr std::string_view kCjk =
    R"re([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)re";
constexpr std::string_view kDeepSeek3 =
    R"re([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+)re"
    R"re([\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr std::string_view kGpt2 =
    R"re('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)re";
constexpr std::string_view kQwen2 =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+)re"
    R"re((?!\S)|\s+)re";
constexpr std::string_view kO200k =
    R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll)re"
    R"re(|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|)re"
    R"re('m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr std::string_view kLines =
    R"re([^\n]+|[\n]+)re";

struct Named {
  std::string_view names;  // with spaces between them
  GgufPre pre;
};

const Named kPre[] = {
    {"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     {.patterns = {kLlama3}, .ignore_merges = true, .add_bos = true}},
    {"dbrx smaug-bpe glm4 chatglm-bpe",
     {.patterns = {kLlama3}}},
    {"minicpm5",
     {.patterns = {kThreeDigits,
      R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s)re"
    R"re(+(?!\S)|\s+)re"}, .ignore_merges = true}},
    {"jais-2",
     {.patterns = {R"re('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\)re"
    R"re(S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})re"}}},
    {"deepseek-llm",
     {.patterns = {R"re([\r\n])re",
      R"re(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF)re"
    R"re(}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3)re"
    R"re(A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\)re"
    R"re(x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00})re"
    R"re(-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D)re"
    R"re(}\x{1F5F}-\x{3CE}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{3B9}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0})re"
    R"re(-\x{390}\x{1FD6}-\x{38A}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-)re"
    R"re(\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{3A9}\x{2128}K-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-)re"
    R"re(\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE})re"
    R"re(\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E)re"
    R"re(}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1)re"
    R"re(044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF})re"
    R"re(\x{1E900}-\x{1E943}]+)re",
      R"re(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)re",
      R"re(\s+$)re",
      R"re([\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+)re",
      R"re(\p{N}+)re"}}},
    {"deepseek-coder",
     {.patterns = {R"re([\r\n])re",
      R"re(\s?\p{L}+)re",
      R"re(\s?\p{P}+)re",
      R"re([\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+)re",
      kDigit}}},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4",
     {.patterns = {kThreeDigits,
      kCjk,
      kDeepSeek3}}},
    {"spark2_5",
     {.patterns = {kThreeDigits,
      kCjk,
      R"re([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+)re"
    R"re(|[\r\n]|\s+(?!\S)|\s+)re",
      kDigit}}},
    {"youtu",
     {.patterns = {R"re([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF)re"
    R"re(1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{30)re"
    R"re(40}-\x{309F}\x{30A0}-\x{30FF}]+)re",
      R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll)re"
    R"re(|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|)re"
    R"re('m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"}, .ignore_merges = true}},
    {"falcon",
     {.patterns = {R"re([\p{P}\$\+<=>\^~\|`]+)re",
      kGpt2,
      R"re([0-9][0-9][0-9])re"}}},
    {"starcoder refact command-r smollm codeshell exaone minerva-7b mellum2",
     {.patterns = {kDigit,
      kGpt2}}},
    {"gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert jais trillion granite-docling exaone4",
     {.patterns = {kGpt2}}},
    {"mpt olmo",
     {.patterns = {kGpt2}, .nfc = true}},
    {"jina-v1-en jina-v2-code roberta-bpe",
     {.patterns = {kGpt2}, .add_sep = true}},
    {"qwen2 stablelm2",
     {.patterns = {kQwen2}, .nfc = true}},
    {"deepseek-r1-qwen kormo f2llmv2 hunyuan solar-open megrez grok-2",
     {.patterns = {kQwen2}}},
    {"qwen35",
     {.patterns = {R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s)re"
    R"re(*[\r\n]+|\s+(?!\S)|\s+)re"}, .nfc = true}},
    {"poro-chat bloom gpt3-finnish",
     {.patterns = {R"re( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{0964}\x{06D4}\x{060C})]+)re"}}},
    {"viking",
     {.patterns = {R"re( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{0964}\x{06D4}\x{060C})]+)re",
      kDigit}}},
    {"tekken",
     {.patterns = {R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{L)re"
    R"re(u}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s)re"
    R"re(+(?!\S)|\s+)re"}, .ignore_merges = true, .add_bos = true}},
    {"chameleon",
     {.patterns = {R"re(<sentinel:[0-9]+>)re",
      R"re((IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z)re",
      R"re(([\t\n]|    |  ))re",
      kDigit,
      R"re([\p{P}!-/:-@\[-`{-~])re",
      kGpt2}, .add_bos = true}},
    {"gpt-4o llama4 kanana2 talkie minimax-m2",
     {.patterns = {kO200k}}},
    {"granite-embed-multi-97m",
     {.patterns = {kO200k}, .ignore_merges = true}},
    {"tiny_aya cohere2moe",
     {.patterns = {R"re(\d{1,3}(?=(?:\d{3})*\b))re",
      kO200k}}},
    {"kimi-k2",
     {.patterns = {R"re([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[)re"
    R"re(^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han})re"
    R"re(]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+)re"
    R"re([\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"}}},
    {"superbpe",
     {.patterns = {R"re(\p{N}+)re",
      R"re((?=(\d{3})+(?!\d)))re"}}},
    {"bailingmoe bailingmoe2 llada-moe",
     {.patterns = {R"re('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S))re"
    R"re(|\s+)re"}}},
    {"seed-coder",
     {.patterns = {R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+)re"
    R"re((?!\S)|\s+)re"}}},
    {"ufakzeka",
     {.patterns = {R"re([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"}}},
    {"afmoe",
     {.patterns = {R"re(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))re",
      R"re([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-\x{FF)re"
    R"re(9F}\x{2F00}-\x{2FDF}\x{0E00}-\x{0E7F}\x{0E80}-\x{0EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{)re"
    R"re(AA7F}\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+)re",
      kDeepSeek3}}},
    {"laguna",
     {.patterns = {kLines,
      kQwen2}}},
    {"exaone-moe",
     {.patterns = {R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p)re"
    R"re({N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)re"}}},
    {"gemma4 granite-embed-multi-311m",
     {.patterns = {kLines}, .add_bos = true, .bytes = false, .lines = true}},
    {"sarvam-moe",
     {.patterns = {kLines}, .bytes = false}},
    {"whitespace",
     {.patterns = {R"re(\S+)re"}, .bytes = false}},
    {"default",
     {.patterns = {R"re([\p{P}\$\+<=>\^~\|]+)re",
      kGpt2,
      R"re(\p{N}+)re",
      R"re([0-9][0-9][0-9])re"}}},
};
// clang-format on

bool has_name(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    size_t end = std::min(names.find(' '), names.size());
    if (names.substr(0, end) == name) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

}  // namespace

const GgufPre* find_gguf_pre(std::string_view name) {
  auto it = std::find_if(std::begin(kPre), std::end(kPre), [&](const Named& n) { return has_name(n.names, name); });
  return it == std::end(kPre) ? nullptr : &it->pre;
}

}  // namespace tenon::text
