#include "pipelines/service.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "pipelines/stop_strings.h"
#include "text/decode_stream.h"

namespace tenon::pipelines {

using runtime::Clock;
using runtime::Finish;

namespace {

constexpr double kStallSeconds = 60;

double seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

const char* name_of(Finish f) {
  switch (f) {
    case Finish::stop:
      return "stop";
    case Finish::length:
      return "length";
    case Finish::deadline:
      return "deadline";
    case Finish::cancelled:
      break;
  }
  return "cancelled";
}

}  // namespace

// One answer under way.
struct TextService::Choice : runtime::Listener {
  TextService& service;
  Job& job;
  int index;
  runtime::Sequence sequence;
  std::optional<text::DecodeStream> stream;
  StopStrings stop;
  std::optional<GrammarMask> mask;
  ServiceEvent event;  // of this step
  bool touched = false, ended = false;
  Clock::time_point last_token;
  std::vector<double> sum;  // of hidden states

  Choice(TextService& s, Job& j, int i);
  bool token(int32_t id, const runtime::LogProbs* probs) noexcept override;
  void prompt_token(int64_t position, const runtime::LogProbs& probs) noexcept override;
  void hidden(std::span<const float> values) noexcept override;
  void finished(Finish) noexcept override;
  ServiceEvent& touch();
  void finish_text();
  void finish_embedding();
};

struct TextService::Job {
  uint64_t id;
  ServiceRequest request;
  std::vector<int32_t> end_tokens;
  std::vector<std::unique_ptr<Choice>> choices;
  int open = 0;
};

TextService::Choice::Choice(TextService& s, Job& j, int i) : service(s), job(j), index(i), stop(j.request.stop) {
  const ServiceRequest& r = job.request;
  const auto prompt = static_cast<int64_t>(r.prompt.size());
  sequence.max_tokens = s.longest() - prompt + 1;
  if (r.max_tokens > 0) sequence.max_tokens = std::min(sequence.max_tokens, r.max_tokens);
  sequence.tokens.reserve(static_cast<size_t>(prompt + sequence.max_tokens));
  sequence.tokens = r.prompt;
  sequence.prompt_length = prompt;
  sequence.min_tokens = r.min_tokens;
  sequence.end_tokens = job.end_tokens;
  sequence.allowed = r.allowed_token_ids;
  sequence.forbidden = r.forbidden_token_ids;
  sequence.choice = static_cast<uint32_t>(i);
  sequence.top_logprobs = r.top_logprobs;
  sequence.prompt_logprobs = r.prompt_logprobs && i == 0;
  sequence.embed = r.embed == ServiceRequest::Embed::none   ? runtime::Embed::none
                   : r.embed == ServiceRequest::Embed::last ? runtime::Embed::last
                                                            : runtime::Embed::all;
  sequence.adapter = r.adapter;
  sequence.priority = r.priority;
  if (r.timeout_s)
    sequence.deadline =
        r.accepted + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*r.timeout_s));
  if (r.constraint) sequence.mask = &mask.emplace(r.constraint);
  sequence.listener = this;
  sequence.sampler.emplace(r.sampling, s.pipeline_.engine().vocab(), s.pipeline_.engine().sampler_scratch());
  if (s.pipeline_.tokenizer()) stream.emplace(s.pipeline_.shared_tokenizer(), r.skip_special_tokens);
}

ServiceEvent& TextService::Choice::touch() {
  if (!std::exchange(touched, true)) service.touched_.push_back(this);
  event.request = job.id;
  event.choice = index;
  return event;
}

bool TextService::Choice::token(int32_t id, const runtime::LogProbs* probs) noexcept {
  ServiceEvent& e = touch();
  const auto now = Clock::now();
  if (sequence.output().size() > 1)
    service.own_stats_.inter_token.add(seconds(last_token, now));
  else
    service.own_stats_.first_token.add(seconds(job.request.accepted, now));
  last_token = now;
  e.tokens.push_back(id);
  if (probs) e.reports.push_back({id, probs->chosen, {probs->top.begin(), probs->top.end()}});
  // An end token is no text; neither are the tokens a request stops at.
  const bool end = std::binary_search(sequence.end_tokens.begin(), sequence.end_tokens.end(), id);
  const auto& shown = job.request.shown_token_ids;
  if (!stream || end || id >= service.pipeline_.tokenizer()->vocab_size()) return true;
  if (std::binary_search(shown.begin(), shown.end(), id)) {
    e.text += stop.push(stream->finish() + service.pipeline_.tokenizer()->token(id));
    stream.emplace(service.pipeline_.shared_tokenizer(), job.request.skip_special_tokens);
  } else {
    e.text += stop.push(stream->push(id));
  }
  return !stop.found();
}

void TextService::Choice::prompt_token(int64_t position, const runtime::LogProbs& probs) noexcept {
  touch().prompt_reports.push_back(
      {sequence.tokens[static_cast<size_t>(position)], probs.chosen, {probs.top.begin(), probs.top.end()}});
}

void TextService::Choice::hidden(std::span<const float> values) noexcept {
  sum.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
}

// Mean or last alike: a vector of length 1.
void TextService::Choice::finish_embedding() {
  double norm = 0;
  for (double x : sum) norm += x * x;
  norm = norm > 0 ? std::sqrt(norm) : 1;
  for (double x : sum) event.embedding.push_back(static_cast<float>(x / norm));
}

void TextService::Choice::finish_text() {
  if (!stream) return;
  event.text += stop.push(stream->finish()) + stop.finish();
  if (job.request.include_stop && stop.found()) event.text += stop.found_string();
}

void TextService::Choice::finished(Finish f) noexcept {
  ServiceEvent& e = touch();
  ended = true;
  if (job.request.embed == ServiceRequest::Embed::none)
    finish_text();
  else
    finish_embedding();
  const auto now = Clock::now();
  ChoiceSummary& d = e.done.emplace();
  d.finish_reason = name_of(f);
  d.prompt_tokens = sequence.prompt_length;
  d.cached_tokens = sequence.reused;
  d.completion_tokens = static_cast<int64_t>(sequence.output().size());
  d.preemptions = sequence.preemptions;
  if (f == Finish::stop) {
    if (stop.found())
      d.stop_string = stop.found_string();
    else if (!sequence.output().empty() &&
             std::binary_search(sequence.end_tokens.begin(), sequence.end_tokens.end(), sequence.output().back()))
      d.stop_token = sequence.output().back();
  }
  ServiceStats& stats = service.own_stats_;
  if (sequence.started != Clock::time_point()) {
    stats.queue.add(d.queue_s = seconds(job.request.accepted, sequence.started));
    if (!sequence.output().empty()) {
      stats.prefill.add(d.prefill_s = seconds(sequence.started, sequence.first_token));
      stats.decode.add(d.decode_s = seconds(sequence.first_token, now));
      d.first_token_s = seconds(job.request.accepted, sequence.first_token);
    }
  }
  stats.end_to_end.add(seconds(job.request.accepted, now));
  ++stats.finished[d.finish_reason];
  if (--job.open == 0) service.finished_jobs_.push_back(job.id);
}

TextService::TextService(const std::filesystem::path& path, const runtime::RunOptions& options, ServiceOptions service,
                         Deliver deliver)
    : pipeline_(path, options),
      constraints_(pipeline_.shared_tokenizer()),
      chats_(pipeline_, std::move(service.chat)),
      options_(std::move(service)),
      scheduler_(pipeline_.engine(), (options_.max_queue + static_cast<size_t>(options.max_sequences)) * kMostChoices,
                 pipeline_.draft()),
      deliver_(std::move(deliver)) {
  load_s_ =
      pipeline_.plan_s() + pipeline_.tokenizer_s() + pipeline_.engine().times().map + pipeline_.engine().times().place;
  thread_ = std::thread([this] { run(); });
}

TextService::~TextService() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void TextService::check(const ServiceRequest& r) const {
  const runtime::Engine& engine = pipeline_.engine();
  const auto prompt = static_cast<int64_t>(r.prompt.size());
  if (prompt == 0) fail(ErrorCode::invalid_argument, "the prompt has no tokens");
  if (prompt > longest() || prompt + r.max_tokens > longest() + 1)
    fail(ErrorCode::invalid_argument,
         "context_length_exceeded: the prompt has {} tokens and {} are to be generated, the context is {}", prompt,
         r.max_tokens, longest());
  auto check_ids = [&](const std::vector<int32_t>& ids, const char* what) {
    for (int32_t t : ids)
      if (t < 0 || t >= engine.vocab())
        fail(ErrorCode::invalid_argument, "{}: token id {} is outside the vocabulary of {}", what, t, engine.vocab());
  };
  check_ids(r.prompt, "prompt");
  check_ids(r.stop_token_ids, "stop_token_ids");
  check_ids(r.allowed_token_ids, "allowed_token_ids");
  check_ids(r.forbidden_token_ids, "bad_words");
  if (r.choices < 1 || r.choices > kMostChoices)
    fail(ErrorCode::invalid_argument, "n is {}, wanted 1 to {}", r.choices, kMostChoices);
  if (r.embed != ServiceRequest::Embed::none && engine.graph().output("final") < 0)
    fail(ErrorCode::unsupported, "the model was not loaded for embeddings; start the server with --embeddings");
  r.sampling.check(engine.vocab());
  if (r.constraint) check_room(r.constraint, r.max_tokens > 0 ? r.max_tokens : longest() - prompt + 1);
}

std::optional<uint64_t> TextService::submit(ServiceRequest request) {
  check(request);
  if (open_ >= options_.max_queue + static_cast<size_t>(pipeline_.engine().options().max_sequences))
    return std::nullopt;
  ++open_;
  auto job = std::make_shared<Job>();
  job->id = next_id_++;
  job->request = std::move(request);
  job->end_tokens = job->request.stop_token_ids;
  if (!job->request.ignore_eos)
    job->end_tokens.insert(job->end_tokens.end(), pipeline_.end_tokens().begin(), pipeline_.end_tokens().end());
  std::sort(job->end_tokens.begin(), job->end_tokens.end());
  uint64_t id = job->id;
  for (int i = 0; i < job->request.choices; ++i) job->choices.push_back(std::make_unique<Choice>(*this, *job, i));
  job->open = job->request.choices;
  {
    std::lock_guard lock(mutex_);
    inbox_.push_back({std::move(job), id});
  }
  wake_.notify_one();
  return id;
}

void TextService::cancel(uint64_t request) {
  {
    std::lock_guard lock(mutex_);
    inbox_.push_back({nullptr, request});
  }
  wake_.notify_one();
}

ServiceStats TextService::stats() const {
  std::lock_guard lock(mutex_);
  ServiceStats s = stats_;
  int64_t since = busy_since_;
  auto now = Clock::now().time_since_epoch();
  s.stalled = since && std::chrono::duration<double>(now - Clock::duration(since)).count() > kStallSeconds;
  return s;
}

void TextService::cancel_job(Job& job) {
  for (auto& choice : job.choices)
    if (!choice->ended) scheduler_.cancel(choice->sequence.id);
}

void TextService::apply(Command& c) {
  if (!c.job) {
    if (auto job = jobs_.find(c.request); job != jobs_.end()) cancel_job(*job->second);
    return;
  }
  auto now = Clock::now();
  for (auto& choice : c.job->choices) {
    if (choice->index > 0) choice->sequence.after = c.job->choices[0]->sequence.id;
    scheduler_.submit(choice->sequence, now);
  }
  jobs_.emplace(c.request, std::move(c.job));
}

void TextService::step() {
  auto begin = Clock::now();
  busy_since_ = begin.time_since_epoch().count();
  const double model_before = pipeline_.busy_s();
  scheduler_.step(begin);
  if (scheduler_.totals().generated_tokens > 0) pipeline_.pack_pending();
  busy_since_ = 0;
  const double model = pipeline_.busy_s() - model_before, all = seconds(begin, Clock::now());
  own_stats_.step.add(all);
  own_stats_.step_s += all;
  own_stats_.host_s += all - model;
}

void TextService::flush() {
  for (Choice* c : touched_) {
    events_.push_back(std::exchange(c->event, {}));
    c->touched = false;
  }
  touched_.clear();
  for (uint64_t id : finished_jobs_) {
    jobs_.erase(id);
    --open_;
  }
  finished_jobs_.clear();
  own_stats_.totals = scheduler_.totals();
  own_stats_.kv = pipeline_.engine().kv_usage();
  own_stats_.running = scheduler_.running();
  own_stats_.waiting = scheduler_.waiting();
  {
    std::lock_guard lock(mutex_);
    stats_ = own_stats_;
  }
  if (!events_.empty()) deliver_(std::exchange(events_, {}));
}

void TextService::run() {
  std::vector<Command> commands;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stop_ || !inbox_.empty() || !scheduler_.idle(); });
      if (stop_) break;
      commands.swap(inbox_);
    }
    for (Command& c : commands) apply(c);
    commands.clear();
    if (!scheduler_.idle()) step();
    flush();
  }
  for (auto& [id, job] : jobs_) cancel_job(*job);
  flush();
}

}  // namespace tenon::pipelines
