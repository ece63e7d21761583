#include "cli/bench_tokenizer.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/thread_pool.h"
#include "cli/process.h"
#include "text/encode_batch.h"

namespace tenon::cli {
namespace {

struct Options {
  std::string model, file;
  int threads = 1;
  int64_t repeat = 7;
  bool json = false;
};

// The median of `repeat` runs of `f`, in seconds.
template <class F>
double median_seconds(int64_t repeat, F&& f) {
  std::vector<double> seconds;
  for (int64_t i = 0; i < repeat; ++i) {
    auto start = std::chrono::steady_clock::now();
    f();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + repeat / 2, seconds.end());
  return seconds[static_cast<size_t>(repeat / 2)];
}

// Stretches of whole lines, a few for every thread.
std::vector<std::string_view> stretches(std::string_view text, int threads) {
  if (threads == 1) return {text};
  std::vector<std::string_view> out;
  const size_t size = text.size() / (static_cast<size_t>(threads) * 8) + 1;
  while (!text.empty()) {
    size_t end = text.size() <= size ? text.npos : text.find('\n', size);
    out.push_back(text.substr(0, end == text.npos ? end : end + 1));
    text.remove_prefix(out.back().size());
  }
  return out;
}

int bench(const Options& o) {
  if (o.repeat < 5 || o.repeat > 1000) fail(ErrorCode::invalid_argument, "--repeat must be from 5 to 1000");
  if (o.threads < 1 || o.threads > 1024) fail(ErrorCode::invalid_argument, "--threads must be from 1 to 1024");
  std::string text = read_file(o.file, 512 << 20);
  if (text.empty()) fail(ErrorCode::invalid_argument, "{}: the file is empty", printable(o.file, 200));
  std::shared_ptr<const text::Tokenizer> t;
  double load = median_seconds(o.repeat, [&] { t = text::Tokenizer::load(o.model); });
  ThreadPool pool(o.threads);
  std::vector<std::string_view> parts = stretches(text, o.threads);
  auto encode_once = [&] { text::encode_batch(*t, parts, {}, pool); };
  const double first = median_seconds(1, encode_once);  // no piece is known yet
  double encode = median_seconds(o.repeat, encode_once);
  std::vector<int32_t> ids = t->encode(text).ids;
  double decode = median_seconds(o.repeat, [&] { t->decode(ids); });
  const double mb = static_cast<double>(text.size()) / 1e6;
  if (o.json) {
    std::cout << Json{{"encode_mb_per_s", mb / encode},
                      {"encode_first_mb_per_s", mb / first},
                      {"decode_mb_per_s", mb / decode},
                      {"tokens", ids.size()},
                      {"load_ms", load * 1e3},
                      {"memory_bytes", t->memory_bytes()},
                      {"threads", o.threads}}
                     .dump()
              << "\n";
    return 0;
  }
  std::cout << table({{"", "MB/s"},
                      {fmt::format("encode, {} threads", o.threads), fmt::format("{:.1f}", mb / encode)},
                      {"the first time", fmt::format("{:.1f}", mb / first)},
                      {"decode", fmt::format("{:.1f}", mb / decode)}});
  std::printf("\n%.2f MB, %zu tokens, %.2f bytes per token; load %.1f ms, %.2f MB held; medians of %lld\n", mb,
              ids.size(), static_cast<double>(text.size()) / static_cast<double>(std::max<size_t>(1, ids.size())),
              load * 1e3, static_cast<double>(t->memory_bytes()) / 1e6, static_cast<long long>(o.repeat));
  return 0;
}

}  // namespace

std::function<int()> declare_bench_tokenizer(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("model", o->model, "model directory, .gguf file or tokenizer file")->required();
  app.add_option("--file", o->file, "the text (UTF-8)")->required();
  app.add_option("-t,--threads", o->threads, "threads that encode; decoding takes one");
  app.add_option("--repeat", o->repeat, "runs; the median counts");
  app.add_flag("--json", o->json, "for machines");
  return [o] { return bench(*o); };
}

}  // namespace tenon::cli
