// 16 bytes of each of 16 rows, as four vectors of one dword a row.
TENON_INLINE void transpose_rows(const std::byte* rows, int64_t stride, __m512i (&out)[4]) {
  auto four = [&](const std::byte* p) TENON_LAMBDA {  // rows i, 4 + i, 8 + i, 12 + i
    auto at = [&](int r) TENON_LAMBDA { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + r * stride)); };
    __m512i v = _mm512_castsi128_si512(at(0));
    v = _mm512_inserti32x4(v, at(4), 1);
    v = _mm512_inserti32x4(v, at(8), 2);
    return _mm512_inserti32x4(v, at(12), 3);
  };
  __m512i v0 = four(rows), v1 = four(rows + stride), v2 = four(rows + 2 * stride), v3 = four(rows + 3 * stride);
  __m512i a = _mm512_unpacklo_epi32(v0, v1), b = _mm512_unpackhi_epi32(v0, v1);
  __m512i c = _mm512_unpacklo_epi32(v2, v3), d = _mm512_unpackhi_epi32(v2, v3);
  out[0] = _mm512_unpacklo_epi64(a, c);
  out[1] = _mm512_unpackhi_epi64(a, c);
  out[2] = _mm512_unpacklo_epi64(b, d);
  out[3] = _mm512_unpackhi_epi64(b, d);
}
