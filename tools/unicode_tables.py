#!/usr/bin/env python3
"""Writes src/text/unicode_tables.cpp: Unicode as the reference tokenizers see it.

    python -m venv venv && venv/bin/pip install tokenizers==0.23.3 regex==2025.11.3
    venv/bin/python tools/unicode_tables.py src/text/unicode_tables.cpp

Every value is probed from the package `tokenizers` (its normalizers, pre-tokenizers and regular expressions), because its
parts follow different versions of Unicode; grapheme breaks come from the package `regex`, which spells them as properties,
in the version that has the same Unicode (17).
"""
import sys
import unicodedata

import regex
from tokenizers import Regex, normalizers, pre_tokenizers

LIMIT = 0x110000
MARK = "\ue000"
CODES = [c for c in range(LIMIT) if not 0xD800 <= c < 0xE000]
ALL = "".join(map(chr, CODES))

CATEGORIES = "Cn Cc Cf Co Cs Ll Lm Lo Lt Lu Mc Me Mn Nd Nl No Pc Pd Pe Pf Pi Po Ps Sc Sk Sm So Zl Zp Zs".split()
SCRIPTS = """Common Inherited Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali Bhaiksuki
Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian Chakma Cham Cherokee Chorasmian Coptic Cuneiform
Cypriot Cypro_Minoan Cyrillic Deseret Devanagari Dives_Akuru Dogra Duployan Egyptian_Hieroglyphs Elbasan Elymaic Ethiopic Georgian
Glagolitic Gothic Grantha Greek Gujarati Gunjala_Gondi Gurmukhi Han Hangul Hanifi_Rohingya Hanunoo Hatran Hebrew Hiragana
Imperial_Aramaic Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kayah_Li Kharoshthi
Khitan_Small_Script Khmer Khojki Khudawadi Lao Latin Lepcha Limbu Linear_A Linear_B Lisu Lycian Lydian Mahajani Makasar Malayalam
Mandaic Manichaean Marchen Masaram_Gondi Medefaidrin Meetei_Mayek Mende_Kikakui Meroitic_Cursive Meroitic_Hieroglyphs Miao Modi
Mongolian Mro Multani Myanmar Nabataean Nandinagari New_Tai_Lue Newa Nko Nushu Nyiakeng_Puachue_Hmong Ogham Ol_Chiki Old_Hungarian
Old_Italic Old_North_Arabian Old_Permic Old_Persian Old_Sogdian Old_South_Arabian Old_Turkic Old_Uyghur Oriya Osage Osmanya
Pahawh_Hmong Palmyrene Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi Rejang Runic Samaritan Saurashtra Sharada Shavian Siddham
SignWriting Sinhala Sogdian Sora_Sompeng Soyombo Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Takri Tamil
Tangsa Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Toto Ugaritic Vai Vithkuqi Wancho Warang_Citi Yezidi Yi Zanabazar_Square
Kawi Nag_Mundari Garay Gurung_Khema Kirat_Rai Ol_Onal Sunuwar Todhri Tulu_Tigalari""".split()
BREAKS = "Other CR LF Control Extend ZWJ Regional_Indicator Prepend SpacingMark L V T LV LVT".split()


def matched(pattern):
    """Code points that the one-character pattern matches."""
    out = normalizers.Replace(Regex(pattern), MARK).normalize_str(ALL)
    assert len(out) == len(ALL), pattern
    return {c for c, a, b in zip(CODES, ALL, out) if a != b} | ({ord(MARK)} if probe_mark(pattern) else set())


def probe_mark(pattern):
    return normalizers.Replace(Regex(pattern), "x").normalize_str(MARK) == "x"


def known(pattern):
    try:
        Regex(pattern)
        return True
    except Exception:
        return False


def per_code_point(normalizer, before="", after=""):
    """{code point: text} where the normalizer changes before + c + after."""
    out = {}
    for c in CODES:
        s = before + chr(c) + after
        t = normalizer.normalize_str(s)
        if t != s:
            out[c] = t
    return out


def enum_table(names, pattern_of):
    table = [0] * LIMIT
    for i, name in enumerate(names):
        pattern = pattern_of(name)
        if i and known(pattern):
            for c in matched(pattern):
                table[c] = i
    return table


def combining_classes(nfd):
    """unicodedata's class where the reference orders by it, 0 where the reference (older) does not know the mark."""
    low, high = "\u0334", "\u0345"  # classes 1 and 240
    table = [0] * LIMIT
    for c in CODES:
        k = unicodedata.combining(chr(c))
        if not k:
            continue
        s = "a" + high + chr(c) if k < 240 else "a" + chr(c) + low
        if nfd.normalize_str(s) != s or len(nfd.normalize_str(chr(c))) > 1:
            table[c] = k
    return table


def compositions(nfc, nfd):
    pairs = {}
    for c in CODES:
        s, d = chr(c), nfd.normalize_str(chr(c))
        if d == s or nfc.normalize_str(s) != s or 0xAC00 <= c < 0xD7A4:
            continue
        first = nfc.normalize_str(d[:-1])
        assert len(first) == 1 and nfc.normalize_str(first + d[-1]) == s, hex(c)
        pairs[(ord(first), ord(d[-1]))] = c
    return pairs


def fold_classes():
    """{code point: smallest code point that (?i:) treats as the same character}."""
    cased = [c for c in CODES if chr(c).lower() != chr(c) or chr(c).upper() != chr(c) or chr(c).casefold() != chr(c)]
    text = "".join(map(chr, cased))
    out = {}
    for c in cased:
        if c in out:
            continue
        got = normalizers.Replace(Regex("(?i:[" + chr(c) + "])"), MARK).normalize_str(text)
        if len(got) != len(text):
            continue
        same = sorted(d for d, g in zip(cased, got) if g == MARK)
        for d in same:
            out.setdefault(d, same[0])
    return {c: r for c, r in out.items() if c != r}


def reference_scripts(guess):
    """The table of the UnicodeScripts pre-tokenizer: 0 joins everything, else an index into SCRIPTS plus 1."""
    p = pre_tokenizers.UnicodeScripts()
    joined = lambda s: len(p.pre_tokenize_str(s)) == 1
    groups = {}  # index of script -> a code point known to have it
    table = [0] * LIMIT
    for c in CODES:
        s = chr(c)
        if joined("A" + s) and joined("\u03a9" + s):
            continue
        g = guess[c]
        if g in groups and joined(chr(groups[g]) + s):
            table[c] = g + 1
            continue
        for other, rep in groups.items():
            if joined(chr(rep) + s):
                table[c] = other + 1
                break
        else:
            while g in groups:
                g += 200  # a script the regular expressions do not know by this code point
            assert g < 255, hex(c)
            groups[g] = c
            table[c] = g + 1
    return table


def split_off(pre_tokenizer):
    """Code points the pre-tokenizer separates from a neighbouring letter."""
    return {c for c in CODES if len(pre_tokenizer.pre_tokenize_str("a" + chr(c))) != 1 or
            pre_tokenizer.pre_tokenize_str("a" + chr(c))[0][0] != "a" + chr(c)}


def two_stage(values, block):
    blocks, index, stage1 = {}, [], []
    for at in range(0, LIMIT, block):
        key = tuple(values[at:at + block])
        if key not in blocks:
            blocks[key] = len(blocks)
            index.extend(key)
        stage1.append(blocks[key])
    return stage1, index


def array(out, ctype, name, values, width=116):
    out.append(f"const {ctype} {name}[] = {{")
    line = "    "
    for v in values:
        item = f"{v}, "
        if len(line) + len(item) > width:
            out.append(line.rstrip())
            line = "    "
        line += item
    out.extend([line.rstrip(), "};", ""])


def mapping(out, name, table):
    keys = sorted(table)
    offsets, data = [0], []
    for k in keys:
        data.extend(map(ord, table[k]))
        offsets.append(len(data))
    array(out, "uint32_t", f"k{name}Keys", keys)
    array(out, "uint16_t", f"k{name}Offsets", offsets)
    array(out, "uint32_t", f"k{name}Data", data)
    assert len(data) < 65536
    out.append(f"const MappingTable k{name} = {{k{name}Keys, k{name}Offsets, k{name}Data, {len(keys)}}};\n")


def main():
    nfc, nfd, nfkc, nfkd = normalizers.NFC(), normalizers.NFD(), normalizers.NFKC(), normalizers.NFKD()
    category = enum_table(CATEGORIES, lambda n: r"\p{%s}" % n)
    script = enum_table(SCRIPTS, lambda n: r"\p{%s}" % n)
    space, word = matched(r"\s"), matched(r"\w")
    posix = {n: matched(f"[[:{n}:]]") for n in ("alpha", "punct", "graph", "print", "upper", "lower")}
    joined_words = {c for c in CODES if len(pre_tokenizers.Whitespace().pre_tokenize_str('a' + chr(c))) == 1 and
                    pre_tokenizers.Whitespace().pre_tokenize_str('a' + chr(c))[0][0] == 'a' + chr(c)}
    white = split_off(pre_tokenizers.WhitespaceSplit())
    numeric = split_off(pre_tokenizers.Digits())
    punct = split_off(pre_tokenizers.Punctuation())
    accent = set(per_code_point(normalizers.StripAccents()))
    clean = per_code_point(normalizers.BertNormalizer(True, False, False, False), "a", "a")
    drop = {c for c, t in clean.items() if t == "aa"}
    blank = {c for c, t in clean.items() if t == "a a"}
    cjk = set(per_code_point(normalizers.BertNormalizer(False, True, False, False)))
    lower = per_code_point(normalizers.Lowercase())
    bert_accent = {c for c, t in per_code_point(normalizers.BertNormalizer(False, False, True, False)).items() if not t}
    canonical = {c: t for c, t in per_code_point(nfd).items() if not 0xAC00 <= c < 0xD7A4}
    compatible = {c: t for c, t in per_code_point(nfkd).items() if not 0xAC00 <= c < 0xD7A4}
    composed = set(per_code_point(nfc))
    compat_composed = set(per_code_point(nfkc))
    ccc = combining_classes(nfd)
    pairs = compositions(nfc, nfd)
    second = {b for _, b in pairs} | set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    fold = fold_classes()
    breaks = [0] * LIMIT
    for i, name in enumerate(BREAKS):
        if i:
            for m in regex.finditer(r"\p{GCB=%s}" % name, ALL):
                breaks[ord(m.group())] = i
    pictographic = {ord(m.group()) for m in regex.finditer(r"\p{Extended_Pictographic}", ALL)}
    reference_script = reference_scripts(script)

    flag_sets = [white, numeric, punct, drop, blank, cjk, accent, word, posix["alpha"], posix["punct"], posix["graph"], posix["print"],
                 composed | second | {c for c in range(LIMIT) if ccc[c]},
                 compat_composed | second | {c for c in range(LIMIT) if ccc[c]},
                 pictographic, bert_accent - set(canonical), joined_words, posix["upper"], posix["lower"]]
    flags = [0] * LIMIT
    for bit, members in enumerate(flag_sets):
        for c in members:
            flags[c] |= 1 << bit
    records, record_of = [], {}
    index = []
    for c in range(LIMIT):
        r = (category[c], script[c], reference_script[c], ccc[c], breaks[c], flags[c])
        if r not in record_of:
            record_of[r] = len(records)
            records.append(r)
        index.append(record_of[r])
    L, N, M = ({i for i, n in enumerate(CATEGORIES) if n[0] == k} for k in "LNM")
    of = lambda *names: {CATEGORIES.index(n) for n in names}
    scan = [(category[c] in L) | (category[c] in N) << 1 | (c in space) << 2 | (category[c] in M) << 3 |
            (category[c] in of("Lu", "Lt")) << 4 | (category[c] in of("Ll")) << 5 | (category[c] in of("Lm", "Lo")) << 6 |
            (category[c] in of("Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So")) << 7 for c in range(LIMIT)]

    out = ["// Generated by tools/unicode_tables.py (tokenizers 0.23.3, regex); do not edit.",
           '#include "text/unicode_tables.h"', "", "namespace tenon::text::unicode_tables {", "", "// clang-format off", ""]
    array(out, "CharRecord", "kRecords", ["{%s}" % ",".join(map(str, r)) for r in records])
    stage1, stage2 = two_stage(index, 128)
    array(out, "uint16_t", "kRecordStage1", stage1)
    array(out, "uint16_t", "kRecordStage2", stage2)
    stage1, stage2 = two_stage(scan, 128)
    assert len(stage2) // 128 < 256
    array(out, "uint8_t", "kScanStage1", stage1)
    array(out, "uint8_t", "kScanStage2", stage2)
    mapping(out, "Canonical", canonical)
    mapping(out, "Compatible", {c: t for c, t in compatible.items() if canonical.get(c) != t})
    mapping(out, "Lower", lower)
    mapping(out, "Fold", {c: chr(r) for c, r in fold.items()})
    keys = sorted(pairs)
    array(out, "CharPair", "kPairs", ["{%d,%d,%d}" % (a, b, pairs[(a, b)]) for a, b in keys])
    out.append(f"const uint32_t kPairCount = {len(keys)};\n")
    array(out, "char* const", "kCategoryNames", [f'"{n}"' for n in CATEGORIES])
    array(out, "char* const", "kScriptNames", [f'"{n}"' for n in SCRIPTS])
    out.append(f"const uint32_t kScriptCount = {len(SCRIPTS)};")
    out.extend(["", "// clang-format on", "", "}  // namespace tenon::text::unicode_tables", ""])
    with open(sys.argv[1], "w", encoding="utf-8") as f:
        f.write("\n".join(out))
    print(len(records), "records;", len(stage2) // 128, "scan blocks;", len(pairs), "pairs;", len(fold), "folds;",
          "space:", sorted(map(hex, space)), "rust space - \\s:", sorted(map(hex, white ^ space)))


main()
