// The public C++ interface over the pipelines.
#include "backend/kv_type.h"
#include "base/error.h"
#include "pipelines/chat.h"
#include "pipelines/text.h"
#include "runtime/memory_plan.h"
#include "tenon/tenon.h"
#include "tensor/quant.h"

namespace tenon {
namespace {

runtime::RunOptions to_options(const LoadOptions& o) {
  runtime::RunOptions r;
  r.threads = o.threads;
  r.context = o.context;
  r.compute_f32 = o.compute_f32;
  if (!o.draft.empty()) {
    r.draft = models::Model::open(o.draft);
    r.speculate = true;
  }
  r.memory = o.memory;
  auto kv = cpu::kv_type_named(o.kv);
  if (!kv) fail(ErrorCode::invalid_argument, "kv is '{}', wanted bf16, f16, f32 or q8", printable(o.kv));
  r.kv = *kv;
  if (!o.weights.empty() && !(r.weights = load_precision(o.weights)))
    fail(ErrorCode::invalid_argument, "weights is '{}', wanted one of {}", printable(o.weights), kLoadPrecisions);
  return r;
}

}  // namespace

MemoryNeeds plan(const std::string& path, const LoadOptions& options) {
  auto model = models::Model::open(path);
  runtime::RunOptions o = to_options(options);
  pipelines::plan_tokenizer(path, o);
  runtime::Layout l = runtime::plan_layout(*model, o);
  const runtime::MemoryPlan& m = l.memory;
  return {m.weights,
          m.state,
          m.activations,
          m.io,
          m.temporary,
          m.overhead,
          m.total(),
          m.mapped,
          m.peak,
          m.limit,
          m.fits(),
          l.options.context,
          runtime::max_context(*model, o)};
}

struct TextModel::Impl {
  pipelines::TextPipeline pipeline;

  Answer generate(std::vector<int32_t> prompt, const GenerateOptions& o, const PieceSink& sink) {
    pipelines::GenerateRequest r;
    r.prompt = std::move(prompt);
    r.max_tokens = o.max_tokens;
    r.stop = o.stop;
    r.sampling = pipeline.default_sampling();
    if (o.temperature) r.sampling.temperature = *o.temperature;
    if (o.top_p) r.sampling.top_p = *o.top_p;
    if (o.min_p) r.sampling.min_p = *o.min_p;
    if (o.repetition_penalty) r.sampling.repetition_penalty = *o.repetition_penalty;
    if (o.top_k) r.sampling.top_k = *o.top_k;
    r.sampling.seed = o.seed;
    auto result = pipeline.generate(r, [&](std::string_view piece) { return sink ? sink(piece) : true; });
    return {result.text.value_or(""), std::move(result.tokens), std::move(result.finish_reason)};
  }
};

TextModel::TextModel(const std::string& path, const LoadOptions& options)
    : impl_(new Impl{pipelines::TextPipeline(path, to_options(options))}) {}
TextModel::~TextModel() = default;
TextModel::TextModel(TextModel&&) noexcept = default;
TextModel& TextModel::operator=(TextModel&&) noexcept = default;

Answer TextModel::chat(const std::vector<Message>& messages, const GenerateOptions& options, const PieceSink& sink) {
  const text::Tokenizer& t = impl_->pipeline.require_tokenizer();
  text::ChatInput input;
  for (const Message& m : messages) input.messages.push_back({{"role", m.role}, {"content", m.content}});
  input.add_generation_prompt = true;
  const text::ChatTemplate chat_template(pipelines::chat_template_of(t, false));
  return impl_->generate(pipelines::chat_prompt(t, chat_template, input).tokens, options, sink);
}

Answer TextModel::chat(const std::string& message, const GenerateOptions& options, const PieceSink& sink) {
  return chat(std::vector<Message>{{"user", message}}, options, sink);
}

Answer TextModel::complete(const std::string& text, const GenerateOptions& options, const PieceSink& sink) {
  return impl_->generate(tokenize(text, true), options, sink);
}

Answer TextModel::complete(const std::vector<int32_t>& tokens, const GenerateOptions& options, const PieceSink& sink) {
  return impl_->generate(tokens, options, sink);
}

std::vector<int32_t> TextModel::tokenize(const std::string& text, bool add_special_tokens) const {
  return impl_->pipeline.require_tokenizer().encode(text, {.add_special_tokens = add_special_tokens}).ids;
}

std::string TextModel::detokenize(const std::vector<int32_t>& tokens) const {
  return impl_->pipeline.require_tokenizer().decode(tokens);
}

int64_t TextModel::context() const { return impl_->pipeline.engine().context(); }

}  // namespace tenon
