// The handlers, by API.
#pragma once
#include "server/app.h"

namespace tenon::server {

struct Route {
  const char* method;
  const char* path;
  App::Handler handler;
  ErrorForm form = openai_error;
  bool open = false;  // needs no key
};

extern const std::vector<Route> kOpenAiRoutes, kResponseRoutes, kRerankRoutes, kAnthropicRoutes, kOllamaRoutes,
    kToolRoutes;

}  // namespace tenon::server
