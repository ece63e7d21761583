#include "models/family.h"

#include "base/error.h"

namespace tenon::models {

using graph::Symbol;

Step::Step(Builder& builder, bool hidden_states) : builder_(builder), hidden_states_(hidden_states) {
  tokens = builder.input("tokens", {DType::i32, {Symbol::rows}});
  positions = builder.input("positions", {DType::i32, {Symbol::rows}});
  output_rows_ = builder.input("output_rows", {DType::i32, {Symbol::outputs}});
}

Value Step::rope_table(const graph::RopeSpec& spec) {
  for (auto& [known, value] : tables_)
    if (known == spec) return value;
  Value v = builder_.apply(graph::RopeTable{spec}, {positions});
  tables_.emplace_back(spec, v);
  return v;
}

int32_t Step::kv(const graph::KvState& state) { return builder_.state(state); }

Value Step::select_outputs(Value x) { return builder_.apply(graph::SelectRows{}, {x, output_rows_}); }

void Step::hidden(int64_t index, Value x) {
  if (hidden_states_) builder_.output("hidden." + std::to_string(index), x);
}

void Step::final_hidden(Value selected) {
  if (hidden_states_) builder_.output("final", selected);
}

const Family& family_of(const Config& config) {
  std::string type = config.string("model_type");
  std::string known;
  for (const Family* f : all_families())
    for (const std::string& t : f->model_types) {
      if (t == type) return *f;
      known += (known.empty() ? "" : ", ") + t;
    }
  fail(ErrorCode::unsupported, "{}: model type '{}' is not supported yet (supported: {})", config.source(),
       printable(type), known);
}

}  // namespace tenon::models
