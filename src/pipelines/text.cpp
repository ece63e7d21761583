#include "pipelines/text.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "formats/gguf.h"
#include "pipelines/stop_strings.h"
#include "text/decode_stream.h"

namespace tenon::pipelines {

using runtime::BatchItem;
namespace fs = std::filesystem;

namespace {

using Clock = std::chrono::steady_clock;
double seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

fs::path folder_of(const fs::path& path) { return fs::is_directory(path) ? path : path.parent_path(); }

std::optional<formats::Config> generation_config(const models::Model& model) {
  if (model.checkpoint().gguf()) return std::nullopt;
  fs::path file = folder_of(model.path()) / "generation_config.json";
  if (!fs::exists(file)) return std::nullopt;
  return formats::Config::from_file(file);
}

void add_ids(const formats::Config& c, const char* key, std::vector<int32_t>& out) {
  if (!c.has(key)) return;
  const Json& v = c.json().at(key);
  for (const Json& id : v.is_array() ? v : Json::array({v}))
    if (id.is_number_integer() && id.get<int64_t>() >= 0) out.push_back(static_cast<int32_t>(id.get<int64_t>()));
}

// generation_config.json's list, else config.json's; a tokenizer's own end tokens too.
std::vector<int32_t> find_end_tokens(const models::Model& model, const text::Tokenizer* tokenizer) {
  std::vector<int32_t> ids;
  if (auto g = generation_config(model)) add_ids(*g, "eos_token_id", ids);
  if (ids.empty()) add_ids(model.config(), "eos_token_id", ids);
  if (tokenizer)
    for (int32_t id : tokenizer->eos_ids()) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

runtime::SamplingOptions find_sampling(const models::Model& model) {
  runtime::SamplingOptions s;
  auto g = generation_config(model);
  if (!g) return s;
  s.temperature = g->real_or("temperature", s.temperature);
  s.top_k = g->integer_or("top_k", s.top_k);
  s.top_p = g->real_or("top_p", s.top_p);
  s.min_p = g->real_or("min_p", s.min_p);
  s.typical_p = g->real_or("typical_p", s.typical_p);
  s.repetition_penalty = g->real_or("repetition_penalty", s.repetition_penalty);
  return s;
}

// A draft's token ids must mean the same as the model's.
void check_draft(const models::Model& model, const text::Tokenizer* tokenizer, const models::Model& draft) {
  auto refuse = [&](const std::string& why) {
    fail(ErrorCode::invalid_argument, "--draft {} cannot draft for {}: {}; use a smaller model of the same family",
         printable(draft.path().string(), 200), printable(model.path().string(), 200), why);
  };
  const auto other = load_tokenizer(draft.path());
  if (!tokenizer || !other) {
    if (draft.dimensions().vocab != model.dimensions().vocab)
      refuse(fmt::format("its vocabulary has {} tokens, not {}", draft.dimensions().vocab, model.dimensions().vocab));
    return;
  }
  const int32_t n = std::min(tokenizer->vocab_size(), other->vocab_size());
  int differ = 0, first = -1;
  for (int32_t id = 0; id < n; ++id)
    if (tokenizer->token(id) != other->token(id) && differ++ == 0) first = id;
  // Families reuse places that earlier members left empty for special tokens.
  if (differ > n / 100)
    refuse(fmt::format("{} of {} tokens differ, {} first ('{}', not '{}')", differ, n, first,
                       printable(other->token(first)), printable(tokenizer->token(first))));
}

}  // namespace

std::shared_ptr<const text::Tokenizer> load_tokenizer(const fs::path& path) {
  runtime::RunOptions unused;
  if (!plan_tokenizer(path, unused)) return nullptr;
  auto tokenizer = text::Tokenizer::load(path);
  malloc_trim(0);  // what reading took is given back: the plan counts on it
  return tokenizer;
}

TextPipeline::TextPipeline(const fs::path& path, runtime::RunOptions options) {
  auto start = Clock::now();
  auto model = models::Model::open(path, options.adapters);
  plan_tokenizer(path, options);
  runtime::Layout layout = runtime::plan_fitting(*model, options);
  auto planned = Clock::now();
  tokenizer_ = load_tokenizer(path);  // before the engine touches memory
  if (options.draft) check_draft(*model, tokenizer_.get(), *options.draft);
  plan_s_ = seconds(start, planned);
  tokenizer_s_ = seconds(planned, Clock::now());
  engine_ = std::make_unique<runtime::Engine>(model, std::move(layout));
  if (options.draft) {
    draft_ = std::make_unique<runtime::DraftModel>(*engine_);
    drafter_ = runtime::Drafter(draft_.get());
  }
  end_tokens_ = find_end_tokens(*model, tokenizer_.get());
  sampling_ = find_sampling(*model);
  held_.reserve(static_cast<size_t>(engine_->context()));
}

void TextPipeline::pack_pending() {
  engine_->pack_pending();
  if (draft_) draft_->pack_pending();
}

const text::Tokenizer& TextPipeline::require_tokenizer() const {
  if (!tokenizer_)
    fail(ErrorCode::not_found, "{}: the model has no tokenizer; pass token ids (--tokens 1,2,3)",
         printable(model().path().string(), 200));
  return *tokenizer_;
}

// How many of the prompt's tokens sequence 0 already holds: all it holds, or nothing.
int64_t TextPipeline::reuse_prefix(std::span<const int32_t> prompt) {
  auto n = static_cast<int64_t>(held_.size()), total = static_cast<int64_t>(prompt.size());
  bool extends = n > 0 && n < total && std::equal(held_.begin(), held_.end(), prompt.begin());
  int64_t boundary = engine_->rope_boundary();
  if (extends && !(boundary && n <= boundary && total > boundary)) return n;
  engine_->reset(0);
  held_.clear();
  return 0;
}

int32_t TextPipeline::prefill(std::span<const int32_t> tokens, int64_t from, Choose choose) {
  int32_t token = -1;
  const int64_t chunk = engine_->options().prefill_chunk, total = static_cast<int64_t>(tokens.size());
  while (from < total) {
    int64_t n = std::min({chunk, engine_->max_rows(), total - from});
    BatchItem item{0, tokens.subspan(static_cast<size_t>(from), static_cast<size_t>(n)), total,
                   from + n == total ? BatchItem::Outputs::last : BatchItem::Outputs::none, engine_->only_adapter()};
    bool ok = engine_->step({&item, 1}, [&](const runtime::StepOutput& o) { token = choose(o.logits); });
    if (!ok)
      fail(ErrorCode::does_not_fit, "the KV pool (--kv-tokens {}) is too small for this prompt",
           engine_->options().kv_tokens);
    held_.insert(held_.end(), item.tokens.begin(), item.tokens.end());
    from += n;
  }
  return token;
}

bool TextPipeline::decode(std::vector<int32_t>& tokens, int64_t prompt_length, int64_t most, Choose choose,
                          Choose guess, GenerateResult& result) {
  if (static_cast<int64_t>(held_.size()) ==
      engine_->rope_boundary()) {  // all frequencies change here: compute all anew
    engine_->reset(0);
    held_.clear();
    prefill(tokens, 0, choose);
    return true;
  }
  step_.assign(1, tokens.back());
  if (engine_->options().speculate) {
    auto draft = drafter_.draft(lookup_, tokens, std::min(engine_->draft_limit(0), most - 1), guess);
    step_.insert(step_.end(), draft.begin(), draft.end());
  }
  if (step_.size() > 1 && !engine_->reserve(0, engine_->length(0) + static_cast<int64_t>(step_.size())))
    step_.resize(1);
  BatchItem item{0, step_, prompt_length, BatchItem::Outputs::all, engine_->only_adapter()};
  const double busy = engine_->busy_s();
  size_t right = 0;  // of the draft
  bool open = true;
  if (!engine_->step({&item, 1}, [&](const runtime::StepOutput& o) {
        if (!open) return;
        const int32_t next = choose(o.logits);
        const auto r = static_cast<size_t>(o.row) + 1;
        open = r < step_.size() && step_[r] == next;
        right += open;
      }))
    return false;
  const auto drafted = static_cast<int64_t>(step_.size()) - 1;
  held_.insert(held_.end(), step_.begin(), step_.begin() + static_cast<ptrdiff_t>(right) + 1);
  engine_->truncate(0, static_cast<int64_t>(held_.size()));
  drafter_.learn(lookup_, drafted, static_cast<int64_t>(right), engine_->busy_s() - busy);
  result.drafted += drafted;
  result.accepted += static_cast<int64_t>(right);
  return true;
}

GenerateResult TextPipeline::generate(const GenerateRequest& request, FunctionRef<bool(std::string_view)> piece) {
  auto total = static_cast<int64_t>(request.prompt.size());
  if (total == 0) fail(ErrorCode::invalid_argument, "the prompt has no tokens");
  if (total >= engine_->context() + (request.max_tokens == 0 ? 0 : 1))
    fail(ErrorCode::invalid_argument, "the prompt has {} tokens, the context is {}: shorten it or raise --context",
         total, engine_->context());
  for (int32_t t : request.prompt)
    if (t < 0 || t >= engine_->vocab())
      fail(ErrorCode::invalid_argument, "token id {} is outside the vocabulary of {}", t, engine_->vocab());

  runtime::Sampler sampler(request.sampling, engine_->vocab(), engine_->sampler_scratch());
  GenerateResult result;
  int64_t most = request.max_tokens > 0 ? request.max_tokens : engine_->context();
  most = std::min(most, engine_->context() - total + 1);
  std::vector<int32_t> all = request.prompt;  // and the answer behind it
  all.reserve(static_cast<size_t>(total + most));
  step_.reserve(runtime::kMostDrafted + 1);
  auto output = [&] { return std::span<const int32_t>(all).subspan(static_cast<size_t>(total)); };
  std::optional<text::DecodeStream> stream;
  if (tokenizer_) stream.emplace(tokenizer_, request.skip_special_tokens), result.text.emplace();
  StopStrings stop(request.stop);

  auto start = Clock::now();
  int64_t from = reuse_prefix(request.prompt);
  result.prefilled = total - from;
  auto sample = [&](std::span<float> logits) { return sampler.next(logits, request.prompt, output()); };
  std::optional<GrammarMask> mask;
  if (request.constraint) {
    check_room(request.constraint, most);
    mask.emplace(request.constraint);
  }
  auto taken = GrammarMask::Taken::yes;
  auto choose = [&](std::span<float> logits) {
    if (taken == GrammarMask::Taken::last) return -1;
    const int64_t left = most - static_cast<int64_t>(output().size()) - 1;
    const int32_t token =
        mask ? runtime::sample_masked(*mask, logits, engine_->raw_logits(), engine_->token_bits(), left, taken, sample)
             : sample(logits);
    if (token >= 0) all.push_back(token);
    return token;
  };
  prefill(request.prompt, from, choose);
  auto first = Clock::now();
  result.prefill_s = result.first_token_s = seconds(start, first);

  auto emit = [&](std::string_view text) {
    if (result.text) *result.text += text;
    return piece(text);
  };
  std::string& finish = result.finish_reason;
  for (size_t said = 0; finish.empty();) {
    if (said == output().size()) finish = "stop";  // the mask took nothing
    while (said < output().size() && finish.empty()) {
      const int32_t token = output()[said++];
      const bool last = taken == GrammarMask::Taken::last && said == output().size();
      const bool end =
          last || (!request.ignore_eos && std::binary_search(end_tokens_.begin(), end_tokens_.end(), token));
      const std::string text = stream ? stop.push(stream->push(token)) : std::string();
      const bool go_on = emit(text);
      if (end || stop.found())
        finish = "stop";
      else if (!go_on)
        finish = "cancelled";
      else if (static_cast<int64_t>(said) >= most)
        finish = "length";
    }
    all.resize(static_cast<size_t>(total) + said);
    if (!finish.empty()) break;
    if (!decode(all, total, most - static_cast<int64_t>(said), choose, sample, result)) finish = "length";
    if (said == 1) pack_pending();
  }
  result.tokens.assign(output().begin(), output().end());
  if (held_.size() >= all.size()) {  // a draft went on behind the end
    held_.resize(all.size() - 1);
    engine_->truncate(0, static_cast<int64_t>(held_.size()));
  }
  if (stream) {
    std::string tail = stop.push(stream->finish()) + stop.finish();
    if (!tail.empty()) emit(tail);
  }
  result.decode_s = seconds(first, Clock::now());
  return result;
}

}  // namespace tenon::pipelines
