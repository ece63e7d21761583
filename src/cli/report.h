// The life of one run: times by phase, memory by moment and category against the plan.
#pragma once
#include <string>

#include "cli/process.h"
#include "pipelines/text.h"

namespace tenon::cli {

struct RunReport {
  pipelines::TextPipeline& pipeline;
  const pipelines::GenerateRequest& request;
  const pipelines::GenerateResult& result;
  const MemoryLog& memory;
  double first_token;  // seconds since the process started

  Json timings() const;
  Json memory_json() const;
  std::string text() const;
};

}  // namespace tenon::cli
