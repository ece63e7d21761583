#include "runtime/engine.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "tensor/quant.h"

namespace tenon::runtime {

using backend::Operand;
using graph::as;

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Operand weight_operand(const graph::Node& node, DType dtype, std::byte* data) {
  const auto& shape = node.type.shape;
  Operand o;
  o.dtype = dtype;
  o.data = data;
  o.rows = shape.size() > 1 ? shape[0].size : 1;
  o.last = shape.back().size;
  o.features = graph::elements(node.type, {}) / o.rows;
  return o;
}

// Weights are read-only; Operand carries values too, so it has a mutable pointer.
std::byte* mapped_bytes(const formats::Checkpoint& checkpoint, const formats::TensorInfo& tensor) {
  return const_cast<std::byte*>(checkpoint.bytes(tensor).data());
}

}  // namespace

Engine::Engine(std::shared_ptr<const models::Model> model, Layout layout, std::shared_ptr<ThreadPool> threads)
    : model_(std::move(model)), layout_(std::move(layout)), threads_(std::move(threads)) {
  auto start = std::chrono::steady_clock::now();
  const RunOptions& o = layout_.options;
  if (!threads_) threads_ = std::make_shared<ThreadPool>(o.threads);
  weights_ = Region(layout_.own.weights, "weights");
  state_ = Region(layout_.own.state, "KV state");
  activations_ = Region(layout_.own.activations, "activations");
  io_ = Region(layout_.own.io, "step inputs");
  scratch_ = Region(layout_.scratch_bytes, "scratch");
  executor_ = std::make_unique<backend::Executor>(layout_.graph, layout_.activations, backend::device_named(o.device));
  executor_->set_arena(activations_.data());
  logits_node_ = executor_->graph().output("logits");

  const auto n = static_cast<size_t>(o.max_sequences);
  Cutter io(io_);
  tokens_ = io.take_array<int32_t>(max_rows());
  positions_ = io.take_array<int32_t>(max_rows());
  adapters_ = io.take_array<int32_t>(max_rows());
  output_rows_ = io.take_array<int32_t>(max_rows());
  sampler_memory_ = {reinterpret_cast<uint64_t*>(io.take(cut_size(sampler_entries(vocab()) * 8))),
                     static_cast<size_t>(sampler_entries(vocab()))};
  executor_->set_input("tokens", reinterpret_cast<std::byte*>(tokens_.data()));
  executor_->set_input("positions", reinterpret_cast<std::byte*>(positions_.data()));

  executor_->set_input("adapters", reinterpret_cast<std::byte*>(adapters_.data()));

  lengths_.assign(n, 0);
  rows_.reserve(n);
  for (const KvGroup& g : layout_.groups) {
    pools_.emplace_back(g.blocks, o.max_sequences, g.ring);
    attend_.emplace_back().reserve(n);
  }
  if (o.prefix_cache) {
    std::vector<int64_t> windows;
    for (const KvGroup& g : layout_.groups) windows.push_back(g.window);
    prefixes_ = std::make_unique<PrefixTree>(pools_, std::move(windows), o.max_sequences, o.context);
  }
  Cutter state(state_);
  std::vector<std::byte*> group_memory;
  for (const KvGroup& g : layout_.groups) group_memory.push_back(state.take(kv_group_bytes(g)));
  for (size_t i = 0; i < layout_.kv_shapes.size(); ++i) {
    const KvGroup& g = layout_.groups[layout_.group_of_state[i]];
    backend::KvView view;
    view.shape = layout_.kv_shapes[i];
    view.pool = std::exchange(group_memory[layout_.group_of_state[i]],
                              group_memory[layout_.group_of_state[i]] + cpu::kv_block_bytes(view.shape));
    view.shape.block_stride = g.block_bytes;
    view.window = g.window;
    states_.push_back(view);
  }
  for (const graph::Node& node : executor_->graph().nodes)
    if (auto t = as<graph::RopeTable>(node.op); t && t->spec.kind != graph::RopeSpec::Kind::plain)
      (t->spec.kind == graph::RopeSpec::Kind::longrope ? rope_boundary_ : dynamic_rope_) = t->spec.original_length;
  step_.threads = threads_.get();
  step_.scratch = scratch_.data();
  step_.states = states_;
  step_.f32_activations = o.compute_f32;
  times_.map = seconds_since(start);

  start = std::chrono::steady_clock::now();
  place_weights();
  if (o.prefault)
    for (Region* r : {&state_, &activations_, &io_, &scratch_}) r->touch();
  times_.place = seconds_since(start);
}

Engine::~Engine() = default;

void Engine::place_weights() {
  const graph::Graph& g = executor_->graph();
  Cutter memory(weights_);
  for (const WeightPlan& w : layout_.weights) weight_memory_.push_back(w.bytes ? memory.take(w.bytes) : nullptr);
  for (const WeightPlan& w : layout_.weights) {
    switch (w.kind) {
      case WeightPlan::Kind::vector_f32:
        place_vector(w);
        break;
      case WeightPlan::Kind::converted:
        place_converted(w);
        break;
      case WeightPlan::Kind::adapters: {
        std::byte* place = weight_memory_[static_cast<size_t>(&w - layout_.weights.data())];
        model_->adapted().fill(as<graph::Weight>(g.nodes[w.node].op)->name,
                               {reinterpret_cast<float*>(place), w.bytes / sizeof(float)});
        executor_->set_weight(w.node, weight_operand(g.nodes[w.node], DType::f32, place));
        break;
      }
      case WeightPlan::Kind::mapped:
      case WeightPlan::Kind::panels: {
        Operand o = weight_operand(g.nodes[w.node], w.dtype,
                                   w.packed ? nullptr : mapped_bytes(model_->checkpoint(), *w.tensor));
        o.reader = w.packed;
        executor_->set_weight(w.node, o);
        break;
      }
    }
  }
  // Prefaulting implies packing at load: later it would touch memory that was promised to be resident.
  if (layout_.options.pack == Pack::load || layout_.options.prefault) pack_pending();
}

void Engine::place_vector(const WeightPlan& w) {
  std::byte* memory = weight_memory_[static_cast<size_t>(&w - layout_.weights.data())];
  if (w.packed) {
    for (int64_t r = 0; r < w.packed->out; ++r)
      w.packed->read(r, 0, w.packed->in, reinterpret_cast<float*>(memory) + r * w.packed->in);
    executor_->set_weight(w.node, weight_operand(executor_->graph().nodes[w.node], DType::f32, memory));
    return;
  }
  const formats::TensorInfo& t = *w.tensor;
  if (t.strides.empty()) {
    decode(t.dtype, model_->checkpoint().bytes(t).data(), reinterpret_cast<float*>(memory), t.elements());
  } else {
    std::vector<std::byte> raw(t.bytes);
    model_->checkpoint().contiguous(t, raw);
    decode(t.dtype, raw.data(), reinterpret_cast<float*>(memory), t.elements());
  }
  executor_->set_weight(w.node, weight_operand(executor_->graph().nodes[w.node], DType::f32, memory));
}

// Row by row, so that no second copy of the matrix exists.
void Engine::place_converted(const WeightPlan& w) {
  std::byte* memory = weight_memory_[static_cast<size_t>(&w - layout_.weights.data())];
  const graph::Node& node = executor_->graph().nodes[w.node];
  const formats::Checkpoint& c = model_->checkpoint();
  const int64_t in = node.type.last(), out = graph::elements(node.type, {}) / std::max<int64_t>(1, in);
  auto bytes = [](DType dtype, int64_t n) { return static_cast<int64_t>(bytes_for(dtype, n, "weight")); };
  std::vector<std::byte> gathered;
  const std::byte* source = nullptr;
  if (w.tensor && !w.tensor->strides.empty()) {
    gathered.resize(w.tensor->bytes);
    c.contiguous(*w.tensor, gathered);
    source = gathered.data();
  } else if (w.tensor) {
    source = c.bytes(*w.tensor).data();
  }
  const formats::PackedWeight* as_held =
      w.packed && w.packed->held == w.dtype && w.dtype != DType::f32 ? w.packed : nullptr;
  auto make = [&](int64_t row, int64_t rows, std::byte* to) {
    constexpr int64_t kRows = formats::PackedWeight::kRowsAtATime, kPiece = 4096;  // a multiple of every block
    if (as_held) {
      for (int64_t r = 0; r < rows; r += kRows)
        as_held->hold(row + r, std::min(kRows, rows - r), to + r * bytes(w.dtype, in));
      return;
    }
    float values[kPiece];
    for (int64_t r = row; r < row + rows; ++r)
      for (int64_t k = 0; k < in; k += kPiece) {
        const int64_t n = std::min(kPiece, in - k);
        if (w.packed)
          w.packed->read(r, k, n, values);
        else
          decode(w.tensor->dtype, source + bytes(w.tensor->dtype, r * in + k), values, n);
        encode(w.dtype, values, to, n);
        to += bytes(w.dtype, n);
      }
  };
  Operand o = weight_operand(node, w.dtype, w.panels ? nullptr : memory);
  o.reader = as_held;
  if (w.panels) {
    backend::device_named(layout_.options.device).pack(o, make, memory, *threads_);
    o.panels = memory;
  } else {
    threads_->parallel_for(out, 16, [&](int64_t begin, int64_t end, int) {
      make(begin, end - begin, memory + begin * bytes(w.dtype, in));
    });
  }
  executor_->set_weight(w.node, o);
  for (const formats::TensorInfo* t : w.packed ? w.packed->parts : std::vector<const formats::TensorInfo*>{w.tensor})
    if (t->strides.empty()) c.files()[t->file]->drop(c.bytes(*t));
}

void Engine::pack(const WeightPlan& w) {
  std::byte* memory = weight_memory_[static_cast<size_t>(&w - layout_.weights.data())];
  Operand o = executor_->weight(w.node);
  if (!backend::device_named(layout_.options.device).pack(o, memory, *threads_)) return;  // it goes on from the map
  o.panels = memory;
  executor_->set_weight(w.node, o);
  model_->checkpoint().files()[w.tensor->file]->drop(model_->checkpoint().bytes(*w.tensor));
}

void Engine::pack_pending() {
  if (packed_) return;
  packed_ = true;
  for (const WeightPlan& w : layout_.weights)
    if (w.kind == WeightPlan::Kind::panels) pack(w);
}

// What besides the tokens decides keys and values: sequences of different regimes share nothing.
uint64_t Engine::regime(int64_t prompt_length, int32_t adapter) const noexcept {
  const uint64_t by_adapter = static_cast<uint64_t>(adapter + 1) << 32;
  if (dynamic_rope_ && prompt_length > dynamic_rope_) return by_adapter | static_cast<uint64_t>(prompt_length);
  return by_adapter | (rope_boundary_ && prompt_length > rope_boundary_ ? 1 : 0);
}

int32_t Engine::only_adapter() const {
  const auto n = model_->adapted().adapters().size();
  if (n > 1) fail(ErrorCode::invalid_argument, "{} adapters (--lora); one at a time can run here", n);
  return n == 1 ? 0 : -1;
}

int64_t Engine::draft_limit(int64_t sequence) const noexcept {
  const int64_t next = length(sequence) + 1;
  int64_t limit =
      std::min({context() - next, max_rows() - 1, options().prefill_chunk - 1, layout_.bounds.sizes.outputs - 1});
  if (dynamic_rope_) limit = std::min(limit, dynamic_rope_ - next);  // beyond, each length has a theta of its own
  if (rope_boundary_ && next <= rope_boundary_) limit = std::min(limit, rope_boundary_ - next);
  return std::max<int64_t>(limit, 0);
}

bool Engine::reserve(int64_t sequence, int64_t length) noexcept {
  for (BlockPool& p : pools_)
    if (!p.grow(sequence, length)) return false;
  return true;
}

int64_t Engine::adopt_prefix(int64_t sequence, std::span<const int32_t> tokens, int64_t limit, int64_t prompt_length,
                             int32_t adapter) noexcept {
  if (!prefixes_) return 0;
  return lengths_[static_cast<size_t>(sequence)] =
             prefixes_->adopt(sequence, regime(prompt_length, adapter), tokens, limit);
}

void Engine::keep_prefix(int64_t sequence, std::span<const int32_t> tokens, int64_t prompt_length,
                         int32_t adapter) noexcept {
  if (!prefixes_) return;
  int64_t known = length(sequence);
  // Under dynamic rope a token generated beyond the original length has a theta no prompt's token has.
  if (dynamic_rope_) known = std::min(known, std::max(dynamic_rope_, prompt_length));
  prefixes_->keep(sequence, regime(prompt_length, adapter), tokens, known);
}

Engine::KvUsage Engine::kv_usage() const noexcept {
  if (pools_.empty()) return {};
  size_t g = 0;
  while (g + 1 < pools_.size() && layout_.groups[g].window != 0) ++g;
  const BlockPool& p = pools_[g];
  return {p.blocks(), p.blocks() - p.free_blocks(), p.cached_blocks()};
}

void Engine::reset(int64_t sequence) noexcept {
  if (prefixes_) prefixes_->forget(sequence);
  for (BlockPool& p : pools_) p.release(sequence);
  lengths_[static_cast<size_t>(sequence)] = 0;
}

void Engine::check(std::span<const BatchItem> batch) const {
  int64_t rows = 0;
  TENON_CHECK(static_cast<int64_t>(batch.size()) <= layout_.options.max_sequences);
  for (const BatchItem& item : batch) {
    TENON_CHECK(item.sequence >= 0 && item.sequence < layout_.options.max_sequences && !item.tokens.empty());
    TENON_CHECK(length(item.sequence) + static_cast<int64_t>(item.tokens.size()) <= context());
    for (int32_t t : item.tokens) TENON_CHECK(t >= 0 && t < vocab());
    TENON_CHECK(item.adapter >= -1 && item.adapter < static_cast<int32_t>(model_->adapted().adapters().size()));
    for (const BatchItem& other : batch) TENON_CHECK(&other == &item || other.sequence != item.sequence);
    rows += static_cast<int64_t>(item.tokens.size());
  }
  TENON_CHECK(rows > 0 && rows <= max_rows());
}

void Engine::fill_step(std::span<const BatchItem> batch) noexcept {
  rows_.clear();
  for (auto& list : attend_) list.clear();
  int64_t row = 0;
  for (const BatchItem& item : batch) {
    int64_t position = length(item.sequence);
    auto count = static_cast<int64_t>(item.tokens.size());
    std::copy(item.tokens.begin(), item.tokens.end(), tokens_.begin() + row);
    for (int64_t i = 0; i < count; ++i) positions_[static_cast<size_t>(row + i)] = static_cast<int32_t>(position + i);
    std::fill_n(adapters_.begin() + row, count, item.adapter);
    rows_.push_back({row, count, position, item.prompt_length ? item.prompt_length : position + count});
    for (size_t g = 0; g < pools_.size(); ++g) {
      auto table = pools_[g].table(item.sequence);
      attend_[g].push_back({row, count, position, table.data(), pools_[g].ring()});
    }
    row += count;
  }
  step_.rows = row;
  step_.sequences = rows_;
  for (size_t i = 0; i < states_.size(); ++i) states_[i].sequences = attend_[layout_.group_of_state[i]];
}

bool Engine::step(std::span<const BatchItem> batch, FunctionRef<void(const StepOutput&)> sink) {
  check(batch);
  for (const BatchItem& item : batch)
    if (!reserve(item.sequence, length(item.sequence) + static_cast<int64_t>(item.tokens.size()))) return false;
  fill_step(batch);
  auto start = std::chrono::steady_clock::now();
  executor_->run_body(step_);
  busy_s_ += seconds_since(start);
  for (const BatchItem& item : batch)
    lengths_[static_cast<size_t>(item.sequence)] += static_cast<int64_t>(item.tokens.size());

  // The wanted rows, in chunks of the planned number of outputs.
  const int64_t chunk = layout_.bounds.sizes.outputs;
  size_t item = 0;
  int64_t in_item = 0;
  auto next = [&](size_t& i, int64_t& r) {  // advances to the next wanted row; false: no more
    for (; i < batch.size(); ++i, r = 0) {
      auto n = static_cast<int64_t>(batch[i].tokens.size());
      if (batch[i].outputs == BatchItem::Outputs::none) continue;
      if (batch[i].outputs == BatchItem::Outputs::last) r = std::max(r, n - 1);
      if (r < n) return true;
    }
    return false;
  };
  while (next(item, in_item)) {
    size_t first_item = item;
    int64_t first_row = in_item, n = 0;
    for (; n < chunk && next(item, in_item); ++n, ++in_item)
      output_rows_[static_cast<size_t>(n)] = static_cast<int32_t>(rows_[item].row_begin + in_item);
    step_.outputs = n;
    executor_->set_input("output_rows", reinterpret_cast<std::byte*>(output_rows_.data()));
    start = std::chrono::steady_clock::now();
    executor_->run_head(step_);
    busy_s_ += seconds_since(start);
    auto logits = reinterpret_cast<float*>(executor_->value(logits_node_));
    size_t i = first_item;
    int64_t r = first_row;
    for (int64_t k = 0; k < n && next(i, r); ++k, ++r)
      sink({i, r, k, {logits + k * vocab(), static_cast<size_t>(vocab())}});
  }
  return true;
}

std::span<const float> Engine::hidden(int32_t node) const {
  const graph::TensorType& t = executor_->graph().nodes[static_cast<size_t>(node)].type;
  int64_t rows = t.shape[0].symbol == graph::Symbol::rows ? step_.rows : step_.outputs;
  return {reinterpret_cast<const float*>(executor_->value(node)), static_cast<size_t>(rows * t.features())};
}

}  // namespace tenon::runtime
