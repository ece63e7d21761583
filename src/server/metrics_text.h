// Prometheus' text form (version 0.0.4).
#pragma once
#include <initializer_list>
#include <string>
#include <utility>

#include "base/metrics.h"

namespace tenon::server {

class MetricsText {
 public:
  using Labels = std::initializer_list<std::pair<const char*, std::string>>;
  // Names a metric; values of it follow.
  void metric(const char* name, const char* type, const char* help);
  void value(Labels labels, double v);
  void histogram(const Labels& labels, const Histogram& h);
  const std::string& text() const { return text_; }

 private:
  void sample(const std::string& suffix, const std::string& labels, double v);
  std::string name_, text_;
};

}  // namespace tenon::server
