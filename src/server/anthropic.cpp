// Anthropic's Messages API.
#include "server/routes.h"

namespace tenon::server {

const std::vector<Route> kAnthropicRoutes;

}  // namespace tenon::server
