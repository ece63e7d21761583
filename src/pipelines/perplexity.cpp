#include "pipelines/perplexity.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "pipelines/forward.h"

namespace tenon::pipelines {

double Perplexity::ppl() const { return std::exp(nll); }

double negative_log_likelihood(std::span<const float> logits, int32_t id) {
  double top = *std::max_element(logits.begin(), logits.end()), sum = 0;
  for (float x : logits) sum += std::exp(static_cast<double>(x) - top);
  return top + std::log(sum) - static_cast<double>(logits[static_cast<size_t>(id)]);
}

Perplexity perplexity(runtime::Engine& engine, std::span<const int32_t> ids, const PerplexityOptions& options,
                      FunctionRef<void(int64_t)> progress) {
  if (options.window < 2) fail(ErrorCode::invalid_argument, "--ctx is {}, wanted 2 or more", options.window);
  Perplexity result;
  double sum = 0;
  auto total = static_cast<int64_t>(ids.size());
  for (int64_t begin = 0; begin < total; begin += options.window) {
    int64_t n = std::min(options.window, total - begin);
    if (n < 2 || (options.second_half && n < options.window)) break;
    std::vector<std::vector<int32_t>> prompt(1);
    prompt[0].assign(ids.begin() + begin, ids.begin() + begin + n);
    if (options.bos) prompt[0][0] = *options.bos;
    int64_t first = options.second_half ? n / 2 : 0;  // rows from here predict a scored id
    forward(engine, prompt, [&](const ForwardValue& v) {
      if (v.output != "logits" || v.row < first || v.row + 1 >= n) return;
      sum += negative_log_likelihood(v.values, prompt[0][static_cast<size_t>(v.row + 1)]);
      ++result.tokens;
    });
    progress(begin + n);
  }
  if (result.tokens == 0) fail(ErrorCode::invalid_argument, "the text has too few tokens to score");
  result.nll = sum / static_cast<double>(result.tokens);
  return result;
}

}  // namespace tenon::pipelines
