#!/usr/bin/env python3
"""Writes src/text/jinja/char_tables.cpp: characters as Python's str methods see them.

    python3 tools/jinja_char_tables.py src/text/jinja/char_tables.cpp
"""
import sys
import unicodedata

CODES = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
# Word_Break values MidLetter, MidNumLet and Single_Quote, which Case_Ignorable adds to the categories.
MIDDLE = {0x27, 0x2E, 0x3A, 0xB7, 0x387, 0x55F, 0x5F4, 0x2018, 0x2019, 0x2024, 0x2027, 0xFE13, 0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A}


def ranges(has):
    out = []
    for c in range(0x110000):
        if 0xD800 <= c < 0xE000 or not has(c):
            continue
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def mapping(f):
    return [(c, [ord(x) for x in f(chr(c))]) for c in CODES if f(chr(c)) != chr(c)]


def lines(items, width=118):
    row = ""
    for item in items:
        if len(row) + len(item) + 1 > width:
            yield row
            row = ""
        row += item
    yield row


SETS = {
    "kAlpha": str.isalpha, "kDecimal": str.isdecimal, "kDigit": str.isdigit, "kNumeric": str.isnumeric,
    "kLower": str.islower, "kUpper": str.isupper, "kTitle": lambda c: unicodedata.category(c) == "Lt",
    "kUnprintable": lambda c: not c.isprintable(),
    "kCaseIgnorable": lambda c: unicodedata.category(c) in ("Mn", "Me", "Cf", "Lm", "Sk") or ord(c) in MIDDLE,
}
MAPS = {"kToUpper": str.upper, "kToLower": str.lower, "kToTitle": str.title, "kToFold": str.casefold}

with open(sys.argv[1], "w") as f:
    print("// Written by tools/jinja_char_tables.py (Unicode %s); do not edit." % unicodedata.unidata_version, file=f)
    print('#include "text/jinja/chars.h"\n\n// clang-format off\nnamespace tenon::text::jinja {\nnamespace {', file=f)
    for name, has in SETS.items():
        print(f"\nconstexpr CharRange {name}Ranges[] = {{", file=f)
        for row in lines("{%d,%d}," % tuple(r) for r in ranges(lambda c: has(chr(c)))):
            print(row, file=f)
        print("};", file=f)
    for name, to in MAPS.items():
        print(f"\nconstexpr CharMapping {name}Mappings[] = {{", file=f)
        for row in lines("{%d,{%s}}," % (c, ",".join(map(str, t))) for c, t in mapping(to)):
            print(row, file=f)
        print("};", file=f)
    print("\n}  // namespace\n", file=f)
    for name in SETS:
        print(f"const CharSet {name} = {{{name}Ranges, std::size({name}Ranges)}};", file=f)
    for name in MAPS:
        print(f"const CharMap {name} = {{{name}Mappings, std::size({name}Mappings)}};", file=f)
    print("\n}  // namespace tenon::text::jinja", file=f)
