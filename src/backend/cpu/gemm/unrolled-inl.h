// What a function and a lambda need to be inlined into a loop over vectors.
#define TENON_INLINE inline __attribute__((always_inline))
#define TENON_LAMBDA __attribute__((always_inline))

// f(0), ..., f(n - 1), unrolled, so that arrays indexed by it stay in registers.
template <class F, int... I>
TENON_INLINE void unrolled(std::integer_sequence<int, I...>, F f) {
  (f(I), ...);
}
template <int n, class F>
TENON_INLINE void unrolled(F f) {
  unrolled(std::make_integer_sequence<int, n>{}, f);
}
