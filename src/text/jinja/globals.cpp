#include "text/jinja/globals.h"

#include <algorithm>

#include "text/jinja/eval.h"
#include "text/jinja/operators.h"
#include "text/jinja/special.h"

namespace tenon::text::jinja {
namespace {

class Cycler : public Special {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}
  std::optional<Value> attribute(Meter& meter, std::string_view name) override;
  Value call(Evaluator&, const Args&) override { raise("'Cycler' object is not callable"); }
  Value next() {
    Value v = items_[at_];
    at_ = (at_ + 1) % items_.size();
    return v;
  }
  Value reset() {
    at_ = 0;
    return Value::none();
  }
  void set_methods(Special& next, Special& reset) {
    next_ = &next;
    reset_ = &reset;
  }

 private:
  std::vector<Value> items_;
  size_t at_ = 0;
  Special *next_ = nullptr, *reset_ = nullptr;
};

class CyclerMethod : public Special {
 public:
  CyclerMethod(Cycler& cycler, Value (Cycler::*method)()) : cycler_(cycler), method_(method) {}
  Value call(Evaluator&, const Args& args) override {
    Bound none(args, "cycler", {});
    return (cycler_.*method_)();
  }

 private:
  Cycler& cycler_;
  Value (Cycler::*method_)();
};

std::optional<Value> Cycler::attribute(Meter&, std::string_view name) {
  if (name == "current") return items_[at_];
  if (name == "next") return Value::object(Kind::cycler, next_);
  if (name == "reset") return Value::object(Kind::cycler, reset_);
  return std::nullopt;
}

class Joiner : public Special {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  Value call(Evaluator& evaluator, const Args& args) override {
    Bound none(args, "joiner", {});
    if (std::exchange(used_, true)) return separator_;
    return make_string(evaluator.meter(), "", false);
  }

 private:
  Value separator_;
  bool used_ = false;
};

Value raise_exception(Evaluator& evaluator, const Args& args) {
  Bound a(args, "raise_exception", {"message"}, 1);
  Value text = to_text(evaluator.meter(), a[0]);
  raise("{}", text.str().view());
}

Value strftime_now(Evaluator& evaluator, const Args& args) {
  Bound a(args, "strftime_now", {"format"}, 1);
  std::string format;
  std::string_view given = a.string(0).view();
  if (given.size() > 1000) raise("strftime_now(): the format is too long");
  for (size_t i = 0; i < given.size(); ++i) {  // what Python adds to C's, and the time zone that a naive clock lacks
    char next = given[i] == '%' && i + 1 < given.size() ? given[i + 1] : '\0';
    if (next == 'f')
      format += "000000";
    else if (next == '%')
      format += "%%";
    else if (next != 'z' && next != 'Z') {
      format.push_back(given[i]);
      continue;
    }
    ++i;
  }
  // a blank keeps the result from being empty, which strftime reports like a small buffer
  std::string with_blank = format + " ";
  std::string out(4096 + 64 * format.size(), '\0');
  size_t n = std::strftime(out.data(), out.size(), with_blank.c_str(), &evaluator.now());
  out.resize(n > 0 ? n - 1 : 0);
  return make_string(evaluator.meter(), std::move(out), !a.string(0).marks().none());
}

Value range(Evaluator& evaluator, const Args& args) {
  Bound a(args, "range", {"start", "stop", "step"}, 1);
  bool one = !a.has(1);
  Integer start = one ? 0 : a.integer(0, 0), stop = a.integer(one ? 0 : 1, 0), step = a.integer(2, 1);
  if (step == 0) raise("range() arg 3 must not be zero");
  auto r = make<Range>(evaluator.meter(), start, stop, step);
  if (r->size > kMaxRange) raise("range too big: the sandbox allows {} elements", kMaxRange);
  return Value::object(Kind::range, r.get());
}

// dict(mapping or pairs, **more), also for namespace().
Ref<Dict> dict_of(Evaluator& evaluator, const Args& args) {
  Meter& meter = evaluator.meter();
  Ref<Dict> out = make<Dict>(meter);
  if (args.positional.size() > 1) raise("dict expected at most 1 argument, got {}", args.positional.size());
  if (!args.positional.empty()) {
    const Value& from = args.positional[0];
    if (from.is(Kind::dict)) {
      for (const auto& [key, value] : from.dict().items) out->set(key, value);
    } else {
      for (const Value& pair : elements(meter, from)) {
        std::vector<Value> parts = elements(meter, pair);
        if (parts.size() != 2) raise("a dict's element has length {}; 2 is required", parts.size());
        out->set(parts[0], parts[1]);
      }
    }
  }
  for (const auto& [key, value] : args.named) out->set(key, value);
  return out;
}

Value dict(Evaluator& evaluator, const Args& args) {
  bool content = !args.positional.empty() && args.positional[0].content();
  return to_value(dict_of(evaluator, args), content);
}

Value name_space(Evaluator& evaluator, const Args& args) {
  auto space = std::make_unique<Namespace>();
  Ref<Dict> names = dict_of(evaluator, args);
  for (const auto& [key, value] : names->items) {
    if (!key.is(Kind::string)) raise("a namespace's names must be strings");
    space->items.emplace_back(key, value);
  }
  return Value::object(Kind::name_space, &evaluator.own(std::move(space)));
}

Value cycler(Evaluator& evaluator, const Args& args) {
  if (args.positional.empty()) raise("at least one item has to be provided");
  Cycler& c = evaluator.own(std::make_unique<Cycler>(args.positional));
  c.set_methods(evaluator.own(std::make_unique<CyclerMethod>(c, &Cycler::next)),
                evaluator.own(std::make_unique<CyclerMethod>(c, &Cycler::reset)));
  return Value::object(Kind::cycler, &c);
}

Value joiner(Evaluator& evaluator, const Args& args) {
  Bound a(args, "joiner", {"sep"});
  Value separator = a.has(0) ? a[0] : make_string(evaluator.meter(), ", ", false);
  return Value::object(Kind::joiner, &evaluator.own(std::make_unique<Joiner>(separator)));
}

Value lipsum(Evaluator&, const Args&) { raise("lipsum() makes random text, which a prompt must not have"); }

struct Global {
  std::string_view name;
  Value (*run)(Evaluator&, const Args&);
};

constexpr Global kGlobals[] = {
    {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
    {"range", range},
    {"dict", dict},
    {"namespace", name_space},
    {"cycler", cycler},
    {"joiner", joiner},
    {"lipsum", lipsum},
};

}  // namespace

const std::vector<std::string_view>& global_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> out;
    for (const Global& g : kGlobals) out.push_back(g.name);
    return out;
  }();
  return names;
}

Value call_global(Evaluator& evaluator, uint8_t id, const Args& args) { return kGlobals[id].run(evaluator, args); }

}  // namespace tenon::text::jinja
