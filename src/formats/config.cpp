#include "formats/config.h"

#include <cmath>
#include <limits>

#include "base/error.h"

namespace tenon::formats {
namespace {

std::optional<int64_t> as_integer(const Json& v) {
  if (v.is_number_unsigned()) {
    auto u = v.get<uint64_t>();
    if (u > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(u);
  }
  if (v.is_number_integer()) return v.get<int64_t>();
  if (v.is_number_float()) {
    double d = v.get<double>();
    if (d == std::floor(d) && std::abs(d) < 9e15) return static_cast<int64_t>(d);
  }
  return std::nullopt;
}

// Numbers that JSON cannot spell are written {"__float__": "Infinity"} by transformers 5.
std::optional<double> as_real(const Json& v) {
  if (v.is_number()) return v.get<double>();
  if (v.is_object() && v.size() == 1 && v.contains("__float__") && v["__float__"].is_string()) {
    const auto& s = v["__float__"].get_ref<const std::string&>();
    if (s == "Infinity") return std::numeric_limits<double>::infinity();
    if (s == "-Infinity") return -std::numeric_limits<double>::infinity();
    if (s == "NaN") return std::numeric_limits<double>::quiet_NaN();
  }
  return std::nullopt;
}

}  // namespace

Config::Config(Json json, std::string source, Dialect dialect)
    : json_(std::move(json)), source_(std::move(source)), dialect_(dialect) {
  if (!json_.is_object()) fail(ErrorCode::invalid_file, "{}: not a JSON object", source_);
}

Config Config::from_file(const std::filesystem::path& path) { return Config(read_json(path), path.string()); }

const Json* Config::find(std::string_view key) const {
  auto it = json_.find(key);
  return it == json_.end() || it->is_null() ? nullptr : &*it;
}

bool Config::has(std::string_view key) const { return find(key) != nullptr; }

std::optional<int64_t> Config::maybe_integer(std::string_view key) const {
  const Json* v = find(key);
  if (!v) return std::nullopt;
  auto n = as_integer(*v);
  if (!n) fail(ErrorCode::invalid_file, "{}: {} is {}, wanted an integer", source_, key, printable(v->dump(), 40));
  return n;
}

int64_t Config::integer(std::string_view key) const {
  auto n = maybe_integer(key);
  if (!n) fail(ErrorCode::invalid_file, "{}: {} is missing", source_, key);
  return *n;
}

int64_t Config::integer_or(std::string_view key, int64_t fallback) const {
  return maybe_integer(key).value_or(fallback);
}

std::optional<double> Config::maybe_real(std::string_view key) const {
  const Json* v = find(key);
  if (!v) return std::nullopt;
  auto d = as_real(*v);
  if (!d) fail(ErrorCode::invalid_file, "{}: {} is {}, wanted a number", source_, key, printable(v->dump(), 40));
  return d;
}

double Config::real(std::string_view key) const {
  auto d = maybe_real(key);
  if (!d) fail(ErrorCode::invalid_file, "{}: {} is missing", source_, key);
  return *d;
}

double Config::real_or(std::string_view key, double fallback) const { return maybe_real(key).value_or(fallback); }

bool Config::flag_or(std::string_view key, bool fallback) const {
  const Json* v = find(key);
  if (!v) return fallback;
  if (!v->is_boolean())
    fail(ErrorCode::invalid_file, "{}: {} is {}, wanted true or false", source_, key, printable(v->dump(), 40));
  return v->get<bool>();
}

std::string Config::string(std::string_view key) const {
  const Json* v = find(key);
  if (!v) fail(ErrorCode::invalid_file, "{}: {} is missing", source_, key);
  if (!v->is_string())
    fail(ErrorCode::invalid_file, "{}: {} is {}, wanted a string", source_, key, printable(v->dump(), 40));
  return v->get<std::string>();
}

std::string Config::string_or(std::string_view key, std::string fallback) const {
  return find(key) ? string(key) : std::move(fallback);
}

std::vector<double> Config::reals(std::string_view key) const {
  const Json* v = find(key);
  if (!v || !v->is_array()) fail(ErrorCode::invalid_file, "{}: {} is missing or not a list", source_, key);
  std::vector<double> out;
  for (const Json& item : *v) {
    auto d = as_real(item);
    if (!d) fail(ErrorCode::invalid_file, "{}: {} holds {}, wanted numbers", source_, key, printable(item.dump(), 40));
    out.push_back(*d);
  }
  return out;
}

std::optional<Config> Config::object(std::string_view key) const {
  const Json* v = find(key);
  if (!v) return std::nullopt;
  if (!v->is_object()) fail(ErrorCode::invalid_file, "{}: {} is not an object", source_, key);
  return Config(*v, source_ + ": " + std::string(key), dialect_);
}

}  // namespace tenon::formats
