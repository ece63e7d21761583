#include "text/jinja/loop.h"

#include "text/jinja/operators.h"

namespace tenon::text::jinja {

void Loop::start(std::vector<Value> items, Filter filter, Recurse recurse, int depth) {
  items_ = std::move(items);
  ahead_.clear();
  next_ = next_ahead_ = 0;
  filter_ = std::move(filter);
  recurse_ = std::move(recurse);
  previous_ = Value();
  current_ = Value();
  index_ = -1;
  depth_ = depth;
  running_ = true;
  last_changed_.reset();
}

bool Loop::peek() {
  if (next_ahead_ < ahead_.size()) return true;
  if (!filter_) return next_ < items_.size();
  ahead_.clear();
  next_ahead_ = 0;
  while (next_ < items_.size()) {
    const Value& v = items_[next_++];
    if (!filter_(v)) continue;
    ahead_.push_back(v);
    return true;
  }
  return false;
}

bool Loop::advance() {
  if (!peek()) return false;
  previous_ = std::move(current_);
  current_ = filter_ ? ahead_[next_ahead_++] : items_[next_++];
  ++index_;
  return true;
}

void Loop::finish() {
  running_ = false;
  filter_ = nullptr;
  recurse_ = nullptr;
  items_.clear();
  ahead_.clear();
  next_ = next_ahead_ = 0;
  previous_ = current_ = Value();
}

Integer Loop::count_all() {
  if (!filter_) return static_cast<Integer>(items_.size());
  std::vector<Value> rest;
  for (; next_ < items_.size(); ++next_)
    if (filter_(items_[next_])) rest.push_back(items_[next_]);
  ahead_.erase(ahead_.begin(), ahead_.begin() + static_cast<ptrdiff_t>(next_ahead_));
  next_ahead_ = 0;
  ahead_.insert(ahead_.end(), rest.begin(), rest.end());
  return index_ + 1 + static_cast<Integer>(ahead_.size());
}

std::optional<Value> Loop::attribute(Meter& meter, std::string_view name) {
  if (name == "index") return Value::of(index_ + 1);
  if (name == "index0") return Value::of(index_);
  if (name == "first") return Value::of(index_ == 0);
  if (name == "last") return Value::of(!peek());
  if (name == "length") return Value::of(count_all());
  if (name == "revindex") return Value::of(count_all() - index_);
  if (name == "revindex0") return Value::of(count_all() - index_ - 1);
  if (name == "depth") return Value::of(depth_ + 1);
  if (name == "depth0") return Value::of(depth_);
  if (name == "previtem") return index_ > 0 ? previous_ : Value::undefined();
  if (name == "nextitem") return !peek() ? Value::undefined() : filter_ ? ahead_[next_ahead_] : items_[next_];
  if (name == "cycle" || name == "changed")
    return Value::object(
        Kind::bound_method,
        make<BoundMethod>(meter, Value::object(Kind::loop, this), make_string(meter, std::string(name), false)).get());
  return std::nullopt;
}

std::string Loop::text() const {
  return fmt::format("<LoopContext {}/{}>", static_cast<int64_t>(index_ + 1), items_.size());
}

Value Loop::call(Evaluator&, const Args& args) {
  Bound a(args, "loop", {"iterable"}, 1);
  if (!running_) raise("this loop has ended");
  if (!recurse_) raise("The loop must have the 'recursive' marker to be called recursively.");
  return recurse_(a[0], depth_ + 1);
}

Value Loop::cycle(const Args& args) const {
  if (args.positional.empty()) raise("no items for cycling given");
  return args.positional[static_cast<size_t>(index_ < 0 ? 0 : index_) % args.positional.size()];
}

Value Loop::changed(Meter& meter, const Args& args) {
  Value now = make_tuple(meter, args.positional);
  if (last_changed_ && equal(*last_changed_, now)) return Value::of(false);
  last_changed_ = now;
  return Value::of(true);
}

}  // namespace tenon::text::jinja
