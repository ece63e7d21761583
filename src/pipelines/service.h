// Text generation for many: one engine and the thread that steps it; requests come from any thread, answers go out as
// events, once per step.
#pragma once
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/metrics.h"
#include "pipelines/chat.h"
#include "pipelines/constraints.h"
#include "pipelines/text.h"
#include "runtime/scheduler.h"

namespace tenon::pipelines {

struct ServiceRequest {
  std::vector<int32_t> prompt;
  int64_t max_tokens = 0;  // 0: until an end token or the context is full
  int64_t min_tokens = 0;
  bool ignore_eos = false;
  bool skip_special_tokens = true;       // in the text
  std::vector<int32_t> shown_token_ids;  // sorted; special tokens that are part of the text all the same
  bool include_stop = false;             // a stop string that ended the answer is part of its text
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids, allowed_token_ids, forbidden_token_ids;
  runtime::SamplingOptions sampling;
  int choices = 1;
  int top_logprobs = -1;  // -1: no logprobs
  bool prompt_logprobs = false;
  int32_t adapter = -1;  // index into RunOptions::adapters
  int priority = 0;      // lower goes first
  std::optional<double> timeout_s;
  Constraints::Compiled constraint;  // that every choice keeps; null: every token may come
  // Vectors instead of an answer: of the last token, or the mean over all.
  enum class Embed { none, last, mean } embed = Embed::none;
  runtime::Clock::time_point accepted = runtime::Clock::now();  // when it reached the process
};

struct TokenReport {
  int32_t token = 0;
  float logprob = 0;
  std::vector<std::pair<int32_t, float>> top;
};

// Of one choice, complete with its finish.
struct ChoiceSummary {
  std::string finish_reason;  // "stop", "length", "cancelled", "deadline"
  std::optional<std::string> stop_string;
  std::optional<int32_t> stop_token;
  int64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0, preemptions = 0;
  double queue_s = 0, prefill_s = 0, decode_s = 0, first_token_s = 0;  // first_token_s: from `accepted`
};

struct ServiceEvent {
  uint64_t request = 0;
  int choice = 0;
  std::string text;                  // that is certain now
  std::vector<int32_t> tokens;       // new ones
  std::vector<TokenReport> reports;  // of the tokens, if logprobs were asked for
  std::vector<TokenReport> prompt_reports;
  std::vector<float> embedding;
  std::optional<ChoiceSummary> done;
};

constexpr int kMostChoices = 32;  // of one request

struct ServiceOptions {
  size_t max_queue = 512;  // requests that wait
  ChatFormOptions chat;
};

// What the service has done so far and holds now.
struct ServiceStats {
  Histogram first_token, inter_token, end_to_end, queue, prefill, decode, step;
  std::map<std::string, uint64_t> finished;  // by reason
  runtime::Scheduler::Totals totals;
  runtime::Engine::KvUsage kv;
  size_t running = 0, waiting = 0;
  double host_s = 0, step_s = 0;  // host_s: of the steps' time, what was not the model's
  bool stalled = false;
};

class TextService {
 public:
  // Gets the events of a step, in order. Called by the service's thread.
  using Deliver = std::function<void(std::vector<ServiceEvent>)>;

  // Loads the model; throws Error like TextPipeline.
  TextService(const std::filesystem::path& path, const runtime::RunOptions& options, ServiceOptions service,
              Deliver deliver);
  ~TextService();  // cancels what runs

  // Checks a request and takes it; its id, or nullopt: too many wait. Throws Error{invalid_argument}.
  std::optional<uint64_t> submit(ServiceRequest request);
  void cancel(uint64_t request);

  TextPipeline& pipeline() { return pipeline_; }
  const TextPipeline& pipeline() const { return pipeline_; }
  Constraints& constraints() { return constraints_; }
  ChatForms& chats() { return chats_; }                     // of the thread that submits
  int64_t longest() const { return scheduler_.longest(); }  // tokens of prompt and answer
  ServiceStats stats() const;
  size_t open() const { return open_; }  // requests not finished
  double load_s() const { return load_s_; }

 private:
  struct Job;
  struct Choice;
  struct Command {
    std::shared_ptr<Job> job;  // null: cancel
    uint64_t request = 0;
  };
  void check(const ServiceRequest& request) const;
  void run();
  void apply(Command& command);
  void cancel_job(Job& job);
  void step();
  void flush();

  double load_s_ = 0;
  TextPipeline pipeline_;
  Constraints constraints_;
  ChatForms chats_;
  ServiceOptions options_;
  runtime::Scheduler scheduler_;
  Deliver deliver_;

  // The thread's own.
  std::map<uint64_t, std::shared_ptr<Job>> jobs_;
  std::vector<ServiceEvent> events_;
  std::vector<Choice*> touched_;  // with events of this step
  std::vector<uint64_t> finished_jobs_;
  ServiceStats own_stats_;

  mutable std::mutex mutex_;  // guards inbox, published statistics, stop_
  std::condition_variable wake_;
  std::vector<Command> inbox_;
  ServiceStats stats_;
  bool stop_ = false;

  std::atomic<uint64_t> next_id_{1};
  std::atomic<size_t> open_{0};
  std::atomic<int64_t> busy_since_{0};  // when the step under way began (steady clock); 0: none
  std::thread thread_;
};

}  // namespace tenon::pipelines
