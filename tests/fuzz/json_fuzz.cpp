// Any bytes as JSON and as a config.
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "formats/config.h"
#include "models/family.h"

namespace {

// No tensors at all: the network can only be refused, but its config is read.
class Nothing final : public tenon::graph::WeightSource {
 public:
  std::optional<tenon::graph::TensorType> find(std::string_view) const override { return std::nullopt; }
  tenon::graph::TensorType require(std::string_view name) const override {
    tenon::fail(tenon::ErrorCode::not_found, "no tensor {}", name);
  }
  std::vector<float> values(std::string_view) const override { return {}; }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    tenon::formats::Config c(tenon::parse_json({reinterpret_cast<const char*>(data), size}, "fuzz"), "fuzz");
    tenon::models::family_of(c).load(c, Nothing());
  } catch (const tenon::Error&) {
  }
  return 0;
}
