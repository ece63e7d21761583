#!/usr/bin/env python3
"""Writes src/tensor/quant/iq_grids.cpp from the tables of the gguf package (PyPI, 0.19.0). Run from the project's root."""
from gguf import quants as q

HEAD = """// Codebooks of the IQ types: each entry packs its 8 (or 4) code indices, lowest element in the lowest bits.
// The values are ggml's published tables (MIT), as the gguf package lists them; written by tools/iq_grids.py.
#include "tensor/quant/iq_grids.h"

namespace tenon::quant {

"""
GRIDS = (("kIq2xxs", q.IQ2_XXS, 2), ("kIq2xs", q.IQ2_XS, 2), ("kIq2s", q.IQ2_S, 2), ("kIq3xxs", q.IQ3_XXS, 3), ("kIq3s", q.IQ3_S, 3), ("kIq1s", q.IQ1_S, 2))

with open("src/tensor/quant/iq_grids.cpp", "w") as out:
    out.write(HEAD)
    for name, cls, bits in GRIDS:
        cls.init_grid()
        index = {v: i for i, v in enumerate(cls.grid_map)}
        packed = [sum(index[int(x)] << (bits * j) for j, x in enumerate(row)) for row in cls.grid.reshape(cls.grid_shape)]
        out.write(f"const uint16_t {name}[{len(packed)}] = {{\n")
        for i in range(0, len(packed), 16):
            out.write("    " + ", ".join(f"0x{v:04x}" for v in packed[i : i + 16]) + ",\n")
        out.write("};\n\n")
    out.write("}  // namespace tenon::quant\n")
