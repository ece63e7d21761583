#include <tenon/tenon.h>

#include <iostream>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  tenon::MemoryNeeds needs = tenon::plan(argv[1]);
  tenon::TextModel model(argv[1]);
  tenon::Answer a = model.complete(std::string("The harbour"), {.max_tokens = 8, .temperature = 0});
  std::cout << needs.total << " bytes planned; " << a.tokens.size() << " tokens: " << a.text << "\n";
  try {
    tenon::TextModel missing("no-such-model");
  } catch (const tenon::Error& e) {
    return a.tokens.size() == 8 && needs.fits && e.code() == tenon::ErrorCode::not_found ? 0 : 1;
  }
  return 1;
}
