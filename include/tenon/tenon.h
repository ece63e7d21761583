// tenon: load a model as it was published and run it.
//
//   #include <tenon/tenon.h>
//   tenon::TextModel model("SmolLM2-135M-Instruct.Q4_1.gguf");
//   tenon::Answer a = model.chat("Why is the sky blue?", {.max_tokens = 100}, [](std::string_view piece) {
//     std::cout << piece << std::flush;
//     return true;  // false ends the answer
//   });
//
// Everything may throw tenon::Error (error.h) while loading or for bad arguments. A TextModel is used by one thread at
// a time.
#pragma once
#include "tenon/error.h"
#include "tenon/generate.h"
#include "tenon/model.h"
