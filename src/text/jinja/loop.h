// The `loop` variable of a running `for`.
#pragma once
#include <functional>

#include "text/jinja/args.h"
#include "text/jinja/special.h"

namespace tenon::text::jinja {

class Loop : public Special {
 public:
  using Filter = std::function<bool(const Value&)>;
  using Recurse = std::function<Value(const Value& iterable, int depth)>;

  // `filter` runs as late as it can: when an element is wanted.
  void start(std::vector<Value> items, Filter filter, Recurse recurse, int depth);
  bool advance();  // to the next element; false: there is none
  const Value& current() const { return current_; }
  void finish();

  std::optional<Value> attribute(Meter& meter, std::string_view name) override;
  std::string text() const override;
  Value call(Evaluator& evaluator, const Args& args) override;
  Value cycle(const Args& args) const;
  Value changed(Meter& meter, const Args& args);

  bool escaped = false;  // a variable may outlive the loop

 private:
  bool peek();
  Integer count_all();

  std::vector<Value> items_;
  std::vector<Value> ahead_;  // passed the filter, not yet current
  size_t next_ = 0, next_ahead_ = 0;
  Filter filter_;
  Recurse recurse_;
  Value previous_, current_;
  Integer index_ = -1;
  int depth_ = 0;
  bool running_ = false;
  std::optional<Value> last_changed_;
};

}  // namespace tenon::text::jinja
