#include "models/parts/rope.h"

#include <cmath>
#include <numbers>

#include "base/error.h"

namespace tenon::models {
namespace {

using graph::RopeSpec;

// In float32, as torch computes them.
std::vector<float> frequencies(double theta, int64_t rotary) {
  std::vector<float> f;
  for (int64_t i = 0; i < rotary; i += 2)
    f.push_back(1.0f / std::pow(static_cast<float>(theta), static_cast<float>(i) / static_cast<float>(rotary)));
  return f;
}

// The config's rope fields whichever way they are spelled.
struct Fields {
  std::string type = "default";
  Config params;  // factor and friends
  double theta;
  double partial;
};

Fields read_fields(const Config& c, std::string_view layer_type) {
  auto type_of = [](const Config& p) { return p.string_or("rope_type", p.string_or("type", "default")); };
  double theta = c.real_or("rope_theta", 10000.0), partial = c.real_or("partial_rotary_factor", 1.0);
  if (auto p = c.object("rope_parameters")) {
    if (!layer_type.empty())
      if (auto nested = p->object(layer_type)) p = nested;
    return {type_of(*p), *p, p->real_or("rope_theta", theta), p->real_or("partial_rotary_factor", partial)};
  }
  if (auto p = c.object("rope_scaling")) return {type_of(*p), *p, theta, partial};
  return {"default", Config(Json::object(), c.source()), theta, partial};
}

// "Extending context is hard... positional interpolation" (Chen et al. 2023).
void linear(const Fields& f, RopeSpec& spec) {
  auto factor = static_cast<float>(f.params.real("factor"));
  for (float& v : spec.inv_freq) v /= factor;
}

// Llama 3.1's piecewise scaling by wavelength.
void llama3(const Fields& f, RopeSpec& spec) {
  double factor = f.params.real("factor"), low = f.params.real("low_freq_factor"),
         high = f.params.real("high_freq_factor");
  double old_context = f.params.real("original_max_position_embeddings");
  for (float& v : spec.inv_freq) {
    double wavelength = 2 * std::numbers::pi / v;
    if (wavelength > old_context / low) {
      v = static_cast<float>(v / factor);
    } else if (wavelength >= old_context / high) {
      double smooth = (old_context / wavelength - low) / (high - low);
      v = static_cast<float>((1 - smooth) * v / factor + smooth * v);
    }
  }
}

double yarn_mscale(double scale, double mscale = 1) { return scale <= 1 ? 1 : 0.1 * mscale * std::log(scale) + 1; }

// YaRN (Peng et al. 2023).
void yarn(const Fields& f, const Config& c, RopeSpec& spec) {
  double factor = f.params.real("factor");
  auto mscale = f.params.maybe_real("mscale"), mscale_all = f.params.maybe_real("mscale_all_dim");
  auto attention = f.params.maybe_real("attention_factor");
  if (!attention)
    attention = mscale && mscale_all && *mscale != 0 && *mscale_all != 0
                    ? yarn_mscale(factor, *mscale) / yarn_mscale(factor, *mscale_all)
                    : yarn_mscale(factor);
  spec.scale = static_cast<float>(*attention);
  double original = f.params.real_or("original_max_position_embeddings", c.real_or("max_position_embeddings", 0));
  auto dim = static_cast<double>(spec.rotary);
  auto correction = [&](double rotations) {
    return dim * std::log(original / (rotations * 2 * std::numbers::pi)) / (2 * std::log(f.theta));
  };
  double low = correction(f.params.real_or("beta_fast", 32)), high = correction(f.params.real_or("beta_slow", 1));
  if (f.params.flag_or("truncate", true)) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < spec.inv_freq.size(); ++i) {
    double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    auto extrapolation = static_cast<float>(1 - ramp);
    float v = spec.inv_freq[i];
    spec.inv_freq[i] = v / static_cast<float>(factor) * (1 - extrapolation) + v * extrapolation;
  }
}

std::vector<float> divided(const std::vector<float>& inv_freq, const std::vector<double>& divisors, const Config& c) {
  if (divisors.size() != inv_freq.size())
    fail(ErrorCode::invalid_file, "{}: {} rope factors, wanted {}", c.source(), divisors.size(), inv_freq.size());
  std::vector<float> out;
  for (size_t i = 0; i < inv_freq.size(); ++i) out.push_back(inv_freq[i] / static_cast<float>(divisors[i]));
  return out;
}

std::vector<double> tensor_values(const graph::WeightSource& weights, const char* name) {
  auto v = weights.values(name);
  return {v.begin(), v.end()};
}

// LongRoPE (Ding et al. 2024), as Phi-3 uses it.
void longrope(const Fields& f, const Config& c, const graph::WeightSource& weights, RopeSpec& spec) {
  bool stored = weights.find("rope_factors_long.weight").has_value();
  auto list = [&](const char* key, const char* tensor) {
    return stored ? tensor_values(weights, tensor) : f.params.reals(key);
  };
  auto shorter = list("short_factor", "rope_factors_short.weight"),
       longer = list("long_factor", "rope_factors_long.weight");
  std::vector<float> base = spec.inv_freq;
  spec.kind = RopeSpec::Kind::longrope;
  spec.inv_freq = divided(base, shorter, c);
  spec.long_inv_freq = divided(base, longer, c);
  auto max_positions = static_cast<double>(c.integer("max_position_embeddings"));
  auto original = c.maybe_integer("original_max_position_embeddings");
  double factor;
  if (original) {
    factor = max_positions / static_cast<double>(*original);
  } else {
    factor = f.params.real("factor");
    original = f.params.integer_or("original_max_position_embeddings", c.integer("max_position_embeddings"));
  }
  spec.original_length = *original;
  double attention = factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(*original)));
  spec.scale = static_cast<float>(f.params.real_or("attention_factor", attention));
}

}  // namespace

RopeSpec plain_rope(double theta, int64_t rotary) {
  RopeSpec spec;
  spec.rotary = rotary;
  spec.inv_freq = frequencies(theta, rotary);
  return spec;
}

RopeSpec rope_spec(const Config& c, const graph::WeightSource& weights, int64_t head_dim, std::string_view layer_type) {
  Fields f = read_fields(c, layer_type);
  auto rotary = static_cast<int64_t>(static_cast<double>(head_dim) * f.partial);
  rotary = c.integer_or("rope_dimension_count", rotary);
  if (rotary <= 0 || rotary % 2 || rotary > head_dim)
    fail(ErrorCode::invalid_file, "{}: {} rotary dimensions of heads of {}", c.source(), rotary, head_dim);
  RopeSpec spec = plain_rope(f.theta, rotary);
  if (f.type == "linear") {
    linear(f, spec);
  } else if (f.type == "llama3") {
    llama3(f, spec);
  } else if (f.type == "yarn") {
    yarn(f, c, spec);
  } else if (f.type == "dynamic") {
    spec.kind = RopeSpec::Kind::dynamic;
    spec.theta = f.theta;
    spec.factor = f.params.real("factor");
    spec.original_length = c.integer("max_position_embeddings");
  } else if (f.type == "longrope" || f.type == "su" || weights.find("rope_factors_long.weight")) {
    longrope(f, c, weights, spec);
  } else if (f.type != "default" && f.type != "none") {
    fail(ErrorCode::unsupported, "{}: rope type '{}' is not supported", c.source(), printable(f.type));
  }
  if (weights.find("rope_freqs.weight"))
    spec.inv_freq = divided(spec.inv_freq, tensor_values(weights, "rope_freqs.weight"), c);
  return spec;
}

}  // namespace tenon::models
