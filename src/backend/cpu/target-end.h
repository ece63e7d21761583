// Closes the region that target-begin.h opened.
#if defined(TENON_TARGET)
#if defined(__clang__)
TENON_PRAGMA(clang attribute pop)
#else
TENON_PRAGMA(GCC pop_options)
#endif
#undef TENON_PRAGMA
#undef TENON_PRAGMA_TEXT
#endif
