#include "cli/chat.h"

#include <editline/readline.h>
#include <signal.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/process.h"
#include "pipelines/chat.h"
#include "pipelines/text.h"

namespace tenon::cli {
namespace {

// Ctrl-C stops the answer, not the program.
std::atomic<bool> g_interrupted{false};
void on_interrupt(int) { g_interrupted.store(true); }

class Chat {
 public:
  Chat(const ChatOptions& options, pipelines::TextPipeline& pipeline)
      : options_(options),
        pipeline_(pipeline),
        template_(options.template_file.empty() ? pipelines::chat_template_of(pipeline.require_tokenizer(), false)
                                                : read_file(options.template_file, 4 << 20)),
        sampling_(options.sampling.resolve(pipeline.default_sampling())) {
    set_system(options.system);
  }

  // False ends the program.
  bool line(std::string text) {
    if (text.empty()) return true;
    if (text[0] == '/') return command(text);
    messages_.push_back({{"role", "user"}, {"content", std::move(text)}});
    answer();
    return true;
  }

 private:
  void set_system(const std::string& text) {
    messages_ = Json::array();
    if (!text.empty()) messages_.push_back({{"role", "system"}, {"content", text}});
  }

  bool command(const std::string& text) {
    size_t space = text.find(' ');
    std::string name = text.substr(0, space), rest = space == std::string::npos ? "" : text.substr(space + 1);
    if (name == "/exit" || name == "/quit") return false;
    if (name == "/clear") {
      set_system(system_.empty() ? options_.system : system_);
      std::puts("(conversation cleared)");
    } else if (name == "/system") {
      system_ = rest;
      set_system(rest);
      std::puts("(system message set, conversation cleared)");
    } else if (name == "/undo") {
      while (!messages_.empty() && messages_.back()["role"] != "user") messages_.erase(messages_.size() - 1);
      if (!messages_.empty()) messages_.erase(messages_.size() - 1);
      std::puts("(last exchange removed)");
    } else if (name == "/retry") {
      while (!messages_.empty() && messages_.back()["role"] == "assistant") messages_.erase(messages_.size() - 1);
      if (messages_.empty() || messages_.back()["role"] != "user")
        std::puts("(nothing to answer)");
      else {
        ++sampling_.seed;
        answer();
      }
    } else if (name == "/stats") {
      std::printf("(%zu messages; last answer %zu tokens, %.1f tokens/s; context %lld)\n", messages_.size(),
                  last_tokens_, last_rate_, static_cast<long long>(pipeline_.engine().context()));
    } else {
      std::puts(
          "/clear     start over\n/system T  set the system message\n/undo      remove the last exchange\n"
          "/retry     answer again with another seed\n/stats     speed of the last answer\n/exit      leave (or "
          "Ctrl-D)\n"
          "Ctrl-C stops an answer.");
    }
    return true;
  }

  void answer() {
    text::ChatInput input;
    input.messages = messages_;
    input.add_generation_prompt = true;
    pipelines::GenerateRequest request;
    request.prompt = pipelines::chat_prompt(pipeline_.require_tokenizer(), template_, input).tokens;
    request.max_tokens = std::max<int64_t>(0, options_.max_tokens);
    request.sampling = sampling_;
    g_interrupted = false;
    auto result = pipeline_.generate(request, [&](std::string_view piece) {
      std::fwrite(piece.data(), 1, piece.size(), stdout);
      std::fflush(stdout);
      return !g_interrupted.load();
    });
    std::puts(result.finish_reason == "cancelled" ? " (stopped)" : result.finish_reason == "length" ? " (length)" : "");
    last_tokens_ = result.tokens.size();
    last_rate_ = result.decode_s > 0 ? static_cast<double>(result.tokens.size() - 1) / result.decode_s : 0;
    messages_.push_back({{"role", "assistant"}, {"content", result.text.value_or("")}});
  }

  const ChatOptions& options_;
  pipelines::TextPipeline& pipeline_;
  text::ChatTemplate template_;
  std::string system_;
  runtime::SamplingOptions sampling_;
  Json messages_;
  size_t last_tokens_ = 0;
  double last_rate_ = 0;
};

}  // namespace

int chat(const ChatOptions& options) {
  pipelines::TextPipeline pipeline(options.model, options.run.resolve());
  Chat conversation(options, pipeline);
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  sigaction(SIGINT, &action, nullptr);
  std::printf("%s, context %lld tokens, %s. /help lists commands, Ctrl-D leaves.\n", pipeline.model().id().c_str(),
              static_cast<long long>(pipeline.engine().context()),
              runtime::human_bytes(pipeline.engine().memory().peak).c_str());
  using_history();
  for (;;) {
    char* text = readline("> ");
    if (!text) {
      if (g_interrupted.exchange(false)) {
        std::puts("");
        continue;
      }
      break;
    }
    std::string input = text;
    std::free(text);
    if (!input.empty()) add_history(input.c_str());
    try {
      if (!conversation.line(input)) break;
    } catch (const Error& e) {
      std::fprintf(stderr, "error: %s\n", e.what());
    }
  }
  std::puts("");
  return 0;
}

}  // namespace tenon::cli
