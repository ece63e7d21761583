// /v1/rerank (Jina's and Cohere's form): documents by the cosine of their vectors with the query's.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "server/generation.h"
#include "server/routes.h"

namespace tenon::server {
namespace {

struct Ranking {
  std::vector<std::vector<float>> vectors;  // the query's, then the documents'
  std::vector<std::string> documents;
  std::string model;
  bool return_documents = false;
  size_t most = 0, done = 0;
  int64_t tokens = 0;
  std::shared_ptr<Exchange> exchange;

  void finish() const {
    std::vector<double> scores;
    for (size_t i = 1; i < vectors.size(); ++i)
      scores.push_back(std::inner_product(vectors[0].begin(), vectors[0].end(), vectors[i].begin(), 0.0));
    std::vector<size_t> order(scores.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    order.resize(std::min(order.size(), most));
    Json results = Json::array();
    for (size_t i : order) {
      Json r = {{"index", i}, {"relevance_score", scores[i]}};
      if (return_documents) r["document"] = {{"text", documents[i]}};
      results.push_back(r);
    }
    Json out = {
        {"id", new_id("rerank")}, {"model", model}, {"results", results}, {"usage", {{"total_tokens", tokens}}}};
    exchange->respond(200, "application/json", out.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
};

class RankedText : public Answer {
 public:
  RankedText(std::shared_ptr<Ranking> ranking, size_t index) : ranking_(std::move(ranking)), index_(index) {}
  void event(const ServiceEvent& e) override {
    if (!e.done) return;
    ranking_->vectors[index_] = e.embedding;
    ranking_->tokens += e.done->prompt_tokens;
    if (++ranking_->done == ranking_->vectors.size()) ranking_->finish();
  }

 private:
  std::shared_ptr<Ranking> ranking_;
  size_t index_;
};

void rerank(const App::CallPtr& call) {
  auto body = std::make_shared<Json>(call->body());
  std::string model = Fields(*body).text("model").value_or("");
  call->with_model(model, [call, body](const ModelPool::Service& service, const ModelPool::Named& entry) {
    Fields f(*body);
    f.ignore("model");
    f.ignore("user");
    f.require("query");
    f.require("documents");
    auto r = std::make_shared<Ranking>();
    const std::string query = *f.text("query");
    r->documents = f.texts("documents", 256);
    r->most = static_cast<size_t>(f.integer("top_n", 1, 1 << 20).value_or(1 << 20));
    r->return_documents = f.flag("return_documents").value_or(false);
    f.finish();
    r->vectors.resize(r->documents.size() + 1);
    r->model = entry.id;
    r->exchange = call->exchange;
    for (size_t i = 0; i < r->vectors.size(); ++i) {
      ServiceRequest one;
      one.prompt = service->pipeline()
                       .require_tokenizer()
                       .encode(i == 0 ? query : r->documents[i - 1], {.add_special_tokens = true})
                       .ids;
      one.max_tokens = 1;
      one.embed = ServiceRequest::Embed::mean;
      call->app.generate(call, service, std::move(one), std::make_shared<RankedText>(r, i));
    }
  });
}

}  // namespace

const std::vector<Route> kRerankRoutes = {{"POST", "/v1/rerank", rerank}};

}  // namespace tenon::server
