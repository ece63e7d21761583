#include "backend/cpu/probe.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tenon::cpu {
namespace {

uint64_t read_plain(const std::byte* data, int64_t bytes) noexcept {
  auto p = reinterpret_cast<const uint64_t*>(data);
  uint64_t a = 0, b = 0, c = 0, d = 0;
  for (int64_t i = 0; i < bytes / 8; i += 4) a += p[i], b += p[i + 1], c += p[i + 2], d += p[i + 3];
  return a + b + c + d;
}

int64_t fma_plain(int64_t rounds) noexcept {
  float acc[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  for (int64_t i = 0; i < rounds; ++i)
    for (float& a : acc) a = a * 0.999f + 0.001f;
  volatile float sink = acc[0] + acc[1] + acc[2] + acc[3] + acc[4] + acc[5] + acc[6] + acc[7];
  (void)sink;
  return rounds * 16;
}

#if defined(__x86_64__)

// Two streams a page apart and a prefetch some KB ahead: one stream alone leaves the memory controller idle.
__attribute__((target("avx512f"))) uint64_t read_avx512(const std::byte* data, int64_t bytes) noexcept {
  __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
  for (int64_t i = 0; i < bytes; i += 256) {
    _mm_prefetch(reinterpret_cast<const char*>(data) + i + 4096, _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(data) + i + 4224, _MM_HINT_T0);
    a = _mm512_xor_si512(a, _mm512_loadu_si512(data + i));
    b = _mm512_xor_si512(b, _mm512_loadu_si512(data + i + 64));
    c = _mm512_xor_si512(c, _mm512_loadu_si512(data + i + 128));
    d = _mm512_xor_si512(d, _mm512_loadu_si512(data + i + 192));
  }
  return static_cast<uint64_t>(
      _mm512_reduce_add_epi64(_mm512_xor_si512(_mm512_xor_si512(a, b), _mm512_xor_si512(c, d))));
}

__attribute__((target("avx2"))) uint64_t read_avx2(const std::byte* data, int64_t bytes) noexcept {
  __m256i a = _mm256_setzero_si256(), b = a;
  for (int64_t i = 0; i < bytes; i += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(data) + i + 4096, _MM_HINT_T0);
    a = _mm256_xor_si256(a, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + i)));
    b = _mm256_xor_si256(b, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + i + 32)));
  }
  return static_cast<uint64_t>(_mm256_extract_epi64(_mm256_xor_si256(a, b), 0));
}

constexpr int kChains = 12;  // enough independent sums to hide the latency of two units

__attribute__((target("avx512f"))) int64_t fma_avx512(int64_t rounds) noexcept {
  __m512 acc[kChains], x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(0.001f);
  for (auto& a : acc) a = y;
  for (int64_t i = 0; i < rounds; ++i)
    for (auto& a : acc) a = _mm512_fmadd_ps(a, x, y);
  for (int k = 1; k < kChains; ++k) acc[0] = _mm512_add_ps(acc[0], acc[k]);
  volatile float sink = _mm512_reduce_add_ps(acc[0]);
  (void)sink;
  return rounds * kChains * 32;
}

__attribute__((target("avx2,fma"))) int64_t fma_avx2(int64_t rounds) noexcept {
  __m256 acc[kChains], x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
  for (auto& a : acc) a = y;
  for (int64_t i = 0; i < rounds; ++i)
    for (auto& a : acc) a = _mm256_fmadd_ps(a, x, y);
  for (int k = 1; k < kChains; ++k) acc[0] = _mm256_add_ps(acc[0], acc[k]);
  volatile float sink = _mm256_cvtss_f32(acc[0]);
  (void)sink;
  return rounds * kChains * 16;
}

#endif

}  // namespace

uint64_t read_all(const std::byte* data, int64_t bytes) noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return read_avx512(data, bytes);
  if (__builtin_cpu_supports("avx2")) return read_avx2(data, bytes);
#endif
  return read_plain(data, bytes);
}

int64_t multiply_add_rounds(int64_t rounds) noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return fma_avx512(rounds);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return fma_avx2(rounds);
#endif
  return fma_plain(rounds);
}

}  // namespace tenon::cpu
