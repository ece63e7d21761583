// The explicit list of families.
#include "models/family.h"

namespace tenon::models {

extern const Family llama, gemma, phi3, gpt2;

std::span<const Family* const> all_families() {
  static const Family* const list[] = {&llama, &gemma, &phi3, &gpt2};
  return list;
}

}  // namespace tenon::models
