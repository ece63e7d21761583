// A conversation on the terminal.
#pragma once
#include <string>

#include "cli/flags.h"

namespace tenon::cli {

struct ChatOptions {
  std::string model, system, template_file;
  int64_t max_tokens = -1;
  RunFlags run;
  SamplingFlags sampling;
};

int chat(const ChatOptions& options);

}  // namespace tenon::cli
