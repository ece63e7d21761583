#include "runtime/memory_plan.h"

#include <algorithm>
#include <map>

#include "base/checked.h"
#include "base/error.h"
#include "base/machine.h"
#include "graph/passes/pass.h"
#include "runtime/arena.h"
#include "runtime/kv_blocks.h"
#include "runtime/prefix_tree.h"
#include "runtime/prompt_lookup.h"

namespace tenon::runtime {

using graph::as;

namespace {

// Anonymous memory of the program itself before a model is opened, and per node of a graph (measured, rounded up).
constexpr uint64_t kProgramBytes = 3 << 19;
constexpr uint64_t kThreadBytes = 64 << 10;
constexpr uint64_t kNodeBytes = 1 << 10;
constexpr uint64_t kTensorBytes = 512;

bool is_matrix_use(const graph::Node& user, size_t input) {
  return (as<graph::Linear>(user.op) && input == 1) || (as<graph::Embedding>(user.op) && input == 0);
}

// Every use of a weight is as a matrix (else it is a vector that kernels read as f32).
bool is_matrix(const graph::Graph& g, size_t weight) {
  bool any = false;
  for (const graph::Node& n : g.nodes)
    for (size_t k = 0; k < n.inputs.size(); ++k)
      if (static_cast<size_t>(n.inputs[k]) == weight) {
        if (!is_matrix_use(n, k)) return false;
        any = true;
      }
  return any;
}

bool is_embedded(const graph::Graph& g, size_t weight) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [&](const graph::Node& n) {
    return as<graph::Embedding>(n.op) && static_cast<size_t>(n.inputs[0]) == weight;
  });
}

int64_t outputs_bound(const RunOptions& o, int64_t rows, int64_t vocab) {
  // Logits of a whole prompt over a large vocabulary are gigabytes: they are made in chunks.
  int64_t n = o.all_logits ? (vocab > 65536 ? 32 : 64) : o.max_sequences;
  if (o.speculate) n = std::max(n, kMostDrafted + 1);
  return std::min(n, rows);
}

void check_options(const RunOptions& o) {
  auto check = [](const char* flag, int64_t value, int64_t least, int64_t most) {
    if (value < least || value > most)
      fail(ErrorCode::invalid_argument, "{} is {}, wanted {} to {}", flag, value, least, most);
  };
  check("--threads", o.threads, 0, 1024);
  check("--context", o.context, 0, 1 << 30);
  check("--max-sequences", o.max_sequences, 1, 65536);
  check("--max-batch-tokens", o.max_batch_tokens, 1, 1 << 20);
  check("--prefill-chunk", o.prefill_chunk, 0, 1 << 20);
  check("--kv-tokens", o.kv_tokens, 0, int64_t{1} << 40);
}

// Plans for contexts share the graph; only bounds and KV differ.
struct Planner {
  const models::Model& model;
  RunOptions options;
  const backend::Device& device;
  graph::Graph graph;
  int64_t vocab;
  std::shared_ptr<const Planner> draft;  // of options.draft

  Planner(const models::Model& m, const RunOptions& o) : model(m), options(o), device(backend::device_named(o.device)) {
    check_options(o);
    if (options.threads == 0) options.threads = choose_threads().threads;
    if (options.prefill_chunk == 0) options.prefill_chunk = options.max_batch_tokens;
    options.prefill_chunk = std::min(options.prefill_chunk, options.max_batch_tokens);
    if (options.compute_f32) options.kv = cpu::KvType::f32;
    if (options.memory == 0) options.memory = memory_limit().limit;
    graph::Graph whole = model.build(options.hidden_states || options.final_hidden);
    if (!options.hidden_states)
      std::erase_if(whole.outputs, [](const graph::Output& out) { return out.name.starts_with("hidden."); });
    graph = graph::run_passes(std::move(whole), [&](const graph::Graph& g, size_t i) {
      return as<graph::Reshape>(g.nodes[i].op) || device.kernel(g, i) != nullptr;
    });
    vocab = graph.nodes[static_cast<size_t>(graph.output("logits"))].type.last();
    if (options.draft) draft = std::make_shared<Planner>(*options.draft, draft_options());
  }

  // The draft reads one sequence, in steps of the same size.
  RunOptions draft_options() const {
    RunOptions d;
    d.threads = options.threads;
    d.max_batch_tokens = options.max_batch_tokens;
    d.prefill_chunk = options.prefill_chunk;
    d.kv = options.kv;
    d.pack = options.pack;
    d.prefault = options.prefault;
    d.device = options.device;
    d.memory = options.memory;
    return d;
  }

  // What --weights makes of a matrix. Rows that are no whole blocks, and matrices stored [in, out], cannot be
  // quantised.
  DType load_dtype(size_t node, DType published) const {
    if (!options.weights) return published;
    const graph::TensorType& t = graph.nodes[node].type;
    if (t.last() % info(*options.weights).block != 0) return published;
    if (is_block_quantised(*options.weights))
      for (const graph::Node& n : graph.nodes)
        if (auto l = as<graph::Linear>(n.op); l && l->in_out && static_cast<size_t>(n.inputs[1]) == node)
          return published;
    return *options.weights;
  }

  std::vector<WeightPlan> plan_weights(MemoryPlan& memory, uint64_t& largest_packed) const {
    std::vector<WeightPlan> out;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      auto w = as<graph::Weight>(graph.nodes[i].op);
      if (!w) continue;
      WeightPlan p;
      p.node = i;
      const int64_t n = graph::elements(graph.nodes[i].type, {});
      p.packed = model.source().packed(w->name);
      if (!p.packed) p.tensor = model.source().locate(w->name);
      if (p.packed || p.tensor) p.dtype = p.packed ? p.packed->held : p.tensor->dtype;
      if (model.adapted().has(w->name)) {
        p.kind = WeightPlan::Kind::adapters;
        p.bytes = bytes_for(DType::f32, n, w->name);
      } else if (!is_matrix(graph, i)) {
        p.kind = WeightPlan::Kind::vector_f32;
        p.dtype = DType::f32;
        p.bytes = bytes_for(DType::f32, n, w->name);
      } else if (DType wanted = load_dtype(i, p.dtype); p.packed && wanted == DType::f32 && !options.weights) {
        memory.mapped += p.packed->bytes();  // no block type holds it: it is read where it lies
      } else if (p.packed || wanted != p.dtype || !p.tensor->strides.empty()) {
        p.kind = WeightPlan::Kind::converted;
        p.dtype = wanted;
        const uint64_t stored = p.packed ? p.packed->bytes() : p.tensor->bytes;
        largest_packed = std::max(largest_packed, stored);
        // An embedding reads rows: those of the file, if they have the same values.
        const bool embedded = is_embedded(graph, i), rows_in_file = p.packed && p.packed->held == wanted;
        p.panels = options.pack != Pack::off && wanted != DType::bf16 && (!embedded || rows_in_file) &&
                   device.panel_bytes(graph, i, wanted) > 0;
        p.bytes = p.panels ? device.panel_bytes(graph, i, wanted) : bytes_for(wanted, n, w->name);
        if (embedded && rows_in_file) memory.mapped += stored;
      } else if (options.pack != Pack::off && device.panel_bytes(graph, i, p.dtype) > 0) {
        p.kind = WeightPlan::Kind::panels;
        p.bytes = device.panel_bytes(graph, i, p.dtype);
        largest_packed = std::max(largest_packed, p.tensor->bytes);
      } else {
        memory.mapped += p.tensor->bytes;
      }
      memory.weights += cut_size(p.bytes);
      out.push_back(p);
    }
    return out;
  }

  Layout plan(int64_t context) const {
    Layout l;
    l.options = options;
    l.options.context = context;
    l.vocab = vocab;
    MemoryPlan& m = l.memory;
    m.limit = options.memory;

    uint64_t largest_packed = 0;
    l.weights = plan_weights(m, largest_packed);

    int64_t rows = std::min(options.max_batch_tokens, options.max_sequences * context);
    l.bounds.sizes = {rows, outputs_bound(options, rows, vocab)};
    l.bounds.threads = options.threads;
    l.bounds.f32_activations = options.compute_f32;
    l.bounds.kv = options.kv;
    l.activations = graph::plan_activations(graph, l.bounds.sizes);
    m.activations = static_cast<uint64_t>(l.activations.bytes);

    plan_state(l, context);
    // Scratch: linear's depends on the weight as held.
    graph::Graph held = graph;
    for (const WeightPlan& w : l.weights) held.nodes[w.node].type.dtype = w.dtype;
    for (size_t i = 0; i < held.nodes.size(); ++i)
      if (!graph::is_leaf(held.nodes[i].op))
        l.scratch_bytes = std::max(l.scratch_bytes, device.scratch_bytes(held, i, l.bounds));
    l.graph = std::move(held);
    m.temporary = l.scratch_bytes;

    m.io = cut_size(static_cast<uint64_t>(rows) * 4) * 4 + cut_size(sampler_entries(vocab) * 8);
    m.overhead = options.host_bytes + block_bytes(l) + process_bytes() + options.tokenizer_bytes +
                 kNodeBytes * graph.nodes.size() +
                 kTensorBytes * (model.checkpoint().tensors().size() + model.adapted().tensors());
    l.own = m;
    if (draft) add_draft(l, context, largest_packed);
    // The tokenizer is read while the other memory is still untouched; only what goes beyond that is extra.
    uint64_t loading =
        options.tokenizer_loading_bytes - std::min(options.tokenizer_loading_bytes, options.tokenizer_bytes);
    uint64_t idle = m.state + m.activations + m.io + m.temporary + m.weights;
    if (loading > idle) m.temporary += loading - idle;
    m.peak = m.total() + m.mapped + largest_packed;
    return l;
  }

  uint64_t process_bytes() const { return kProgramBytes + kThreadBytes * static_cast<uint64_t>(options.threads); }

  void add_draft(Layout& l, int64_t context, uint64_t& largest_packed) const {
    auto d = std::make_shared<Layout>(draft->plan(std::min(context, draft->model.dimensions().context)));
    const MemoryPlan& of = d->memory;
    l.memory += of;
    l.memory.overhead -= process_bytes();  // there is one process
    largest_packed = std::max(largest_packed, of.peak - of.total() - of.mapped);
    l.draft = std::move(d);
  }

  // Block tables' and the prefix tree's heap.
  uint64_t block_bytes(const Layout& l) const {
    int64_t blocks = 0;
    for (const KvGroup& g : l.groups) blocks += g.blocks;
    return static_cast<uint64_t>(blocks) * BlockPool::kBytesPerBlock +
           (options.prefix_cache ? PrefixTree::bytes(blocks, l.groups.size()) : 0);
  }

  void plan_state(Layout& l, int64_t context) const {
    std::map<int64_t, size_t> by_window;
    for (const graph::KvState& s : graph.states) {
      auto [it, added] = by_window.try_emplace(s.window, l.groups.size());
      if (added) {
        KvGroup g;
        g.window = s.window;
        g.ring = ring_blocks(s.window, context, options.prefill_chunk);
        g.blocks = g.ring * options.max_sequences;
        if (s.window == 0 && options.kv_tokens > 0)
          g.blocks = std::min(g.blocks, ceil_div(options.kv_tokens, cpu::kKvBlock));
        l.groups.push_back(g);
      }
      l.group_of_state.push_back(it->second);
      cpu::KvShape shape{options.kv, s.kv_heads, s.head_dim};
      l.kv_shapes.push_back(shape);
      l.groups[it->second].block_bytes += cpu::kv_block_bytes(shape);
    }
    for (const KvGroup& g : l.groups) l.memory.state += cut_size(kv_group_bytes(g));
  }
};

int64_t largest_fitting(const Planner& planner, int64_t most) {
  int64_t low = 0, high = ceil_div(most, cpu::kKvBlock);  // in blocks; `low` fits
  if (planner.plan(most).memory.fits()) return most;
  while (high - low > 1) {
    int64_t middle = (low + high) / 2;
    (planner.plan(middle * cpu::kKvBlock).memory.fits() ? low : high) = middle;
  }
  return low * cpu::kKvBlock;
}

// As many tokens of KV as fit, at least one whole context; 0: not even that.
int64_t largest_fitting_kv(Planner planner, int64_t context) {
  int64_t low = ceil_div(context, cpu::kKvBlock), high = low * planner.options.max_sequences;  // in blocks
  auto fits = [&](int64_t blocks) {
    planner.options.kv_tokens = blocks * cpu::kKvBlock;
    return planner.plan(context).memory.fits();
  };
  if (!fits(low)) return 0;
  while (high - low > 1) {
    int64_t middle = (low + high) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low * cpu::kKvBlock;
}

// The plan for a context; where its KV does not fit and may shrink, with less.
Layout plan_for(Planner& planner, int64_t context) {
  Layout l = planner.plan(context);
  if (l.memory.fits() || !planner.options.kv_shrinks || planner.options.kv_tokens > 0) return l;
  planner.options.kv_tokens = largest_fitting_kv(planner, context);
  return planner.plan(context);
}

}  // namespace

MemoryPlan& MemoryPlan::operator+=(const MemoryPlan& more) {
  for (auto category : {&MemoryPlan::weights, &MemoryPlan::state, &MemoryPlan::activations, &MemoryPlan::io,
                        &MemoryPlan::temporary, &MemoryPlan::overhead, &MemoryPlan::mapped})
    this->*category += more.*category;
  return *this;
}

uint64_t kv_group_bytes(const KvGroup& g) {
  return checked_mul(static_cast<uint64_t>(g.blocks), g.block_bytes, "KV pool");
}

Layout plan_layout(const models::Model& model, const RunOptions& options) {
  Planner planner(model, options);
  int64_t own = model.dimensions().context;
  if (options.context > own)
    fail(ErrorCode::invalid_argument, "--context {} is beyond what {} was made for ({} tokens); use at most that",
         options.context, printable(model.path().string(), 200), own);
  Layout l = plan_for(planner, options.context > 0 ? options.context : own);
  if (l.memory.fits()) return l;
  if (options.pack == Pack::later) {
    // Packing later is an offer: it does not cost the context.
    RunOptions in_place = options;
    in_place.pack = Pack::off;
    return plan_layout(model, in_place);
  }
  if (options.context > 0) return l;
  int64_t fitting = largest_fitting(planner, own);
  return fitting > 0 ? planner.plan(fitting) : l;
}

int64_t max_context(const models::Model& model, const RunOptions& options) {
  RunOptions o = options;
  if (o.pack == Pack::later) o.pack = Pack::off;
  return largest_fitting(Planner(model, o), model.dimensions().context);
}

std::string human_bytes(uint64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto v = static_cast<double>(bytes);
  int u = 0;
  for (; v >= 1024 && u < 4; ++u) v /= 1024;
  return u == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.{}f} {}", v, v < 10 ? 2 : v < 100 ? 1 : 0, units[u]);
}

void require_fit(const models::Model& model, const RunOptions& options, const Layout& layout) {
  const MemoryPlan& m = layout.memory;
  if (m.fits()) return;
  std::string advice;
  auto add = [&](std::string text) { advice += (advice.empty() ? "" : "; ") + text; };
  if (int64_t n = max_context(model, options); n >= 256 && n < layout.options.context)
    add(fmt::format("--context {} fits", n));
  // Adds what the changed options need, if they fit.
  auto offer = [&](const std::string& what, auto change) {
    RunOptions smaller = options;
    smaller.context = layout.options.context;
    change(smaller);
    const uint64_t peak = plan_layout(model, smaller).memory.peak;
    if (peak > m.limit) return false;
    add(fmt::format("{} needs {}", what, human_bytes(peak)));
    return true;
  };
  for (auto [kv, name] : {std::pair{cpu::KvType::q8, "--kv q8"}, {cpu::KvType::q4, "--kv q4"}}) {
    if (layout.options.kv >= kv || options.compute_f32) continue;
    if (offer(name, [kv = kv](RunOptions& o) { o.kv = kv; })) break;
  }
  if (options.draft) offer("without --draft it", [](RunOptions& o) { o.draft = nullptr; });
  if (options.max_batch_tokens > 64) offer("--max-batch-tokens 64", [](RunOptions& o) { o.max_batch_tokens = 64; });
  if (advice.empty()) add("a smaller or more strongly quantised file of this model, or a machine with more memory");
  fail(ErrorCode::does_not_fit, "{} needs {} ({} anonymous, {} mapped) with a context of {} and the limit is {}: {}",
       printable(model.path().string(), 200), human_bytes(m.peak), human_bytes(m.total()), human_bytes(m.mapped),
       layout.options.context, human_bytes(m.limit), advice);
}

Layout plan_fitting(const models::Model& model, const RunOptions& options) {
  Layout layout = plan_layout(model, options);
  require_fit(model, options, layout);
  return layout;
}

}  // namespace tenon::runtime
