// Opens a region compiled for one ISA level: define TENON_TARGET ("avx2,fma,f16c") or nothing for the baseline, then
// include. All other headers come before it, so that no inline function of theirs is emitted with instructions the
// machine may lack.
#if defined(TENON_TARGET)
#define TENON_PRAGMA_TEXT(x) _Pragma(#x)
#define TENON_PRAGMA(x) TENON_PRAGMA_TEXT(x)
#if defined(__clang__)
TENON_PRAGMA(clang attribute push(__attribute__((target(TENON_TARGET))), apply_to = function))
#else
TENON_PRAGMA(GCC push_options)
TENON_PRAGMA(GCC target(TENON_TARGET))
#endif
#endif
