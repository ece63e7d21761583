// Ollama's API.
#include "server/routes.h"

namespace tenon::server {

const std::vector<Route> kOllamaRoutes;

}  // namespace tenon::server
