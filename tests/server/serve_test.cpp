// The server over real sockets with a tiny checkpoint that has a tokenizer: answers, streams, errors, clients that
// leave.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <random>
#include <set>
#include <thread>

#include "base/error.h"
#include "server/app.h"
#include "support/adapters.h"
#include "support/kit.h"

namespace tenon::server {
namespace {

// A raw client: what the server sees on the wire is written by the test.
class Client {
 public:
  explicit Client(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    timeval limit{60, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(const std::string& bytes) { ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  // Reads on until `end` is in what came, or the connection ends.
  std::string read_until(const std::string& end) {
    char piece[4096];
    while (got_.find(end) == std::string::npos) {
      ssize_t n = recv(fd_, piece, sizeof piece, 0);
      if (n <= 0) break;
      got_.append(piece, static_cast<size_t>(n));
    }
    size_t at = got_.find(end);
    size_t n = at == std::string::npos ? got_.size() : at + end.size();
    std::string out = got_.substr(0, n);
    got_.erase(0, n);
    return out;
  }
  std::string read_bytes(size_t n) {
    char piece[4096];
    while (got_.size() < n) {
      ssize_t k = recv(fd_, piece, sizeof piece, 0);
      if (k <= 0) break;
      got_.append(piece, static_cast<size_t>(k));
    }
    std::string out = got_.substr(0, n);
    got_.erase(0, out.size());
    return out;
  }
  struct Reply {
    int status = 0;
    std::string head, body;
    Json json() const { return Json::parse(body); }
  };
  Reply reply() {
    Reply r;
    r.head = read_until("\r\n\r\n");
    if (r.head.size() < 12) return r;
    r.status = std::stoi(r.head.substr(9, 3));
    size_t length = r.head.find("Content-Length: ");
    if (length != std::string::npos) r.body = read_bytes(std::stoul(r.head.substr(length + 16)));
    return r;
  }
  static std::string request(const std::string& method, const std::string& path, const std::string& body,
                             const std::string& headers = {}) {
    return method + " " + path + " HTTP/1.1\r\nHost: x\r\n" + headers +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  Reply post(const std::string& path, const Json& body) {
    send(request("POST", path, body.dump()));
    return reply();
  }
  Reply get(const std::string& path) {
    send(request("GET", path, ""));
    return reply();
  }

 private:
  int fd_;
  std::string got_;
};

std::filesystem::path tiny_model() { return test::golden("models/llama-s-q4_0/model.gguf"); }

class Server : public testing::Test {
 protected:
  void start(HttpOptions http = {}, AppOptions options = {}, size_t max_queue = 64) {
    http.port = 0;
    runtime::RunOptions run;
    run.threads = 1;
    run.max_sequences = 4;
    run.context = 256;
    run.prefix_cache = true;
    run.final_hidden = true;
    app_ = std::make_unique<App>(options, PoolOptions{run, {max_queue, {}}}, http_pointer_);
    app_->pool().add("tiny", tiny_model(), adapters_);
    http_ = std::make_unique<HttpServer>(
        http, [this](HttpRequest r, const std::shared_ptr<Exchange>& e) { app_->handle(std::move(r), e); });
    http_pointer_ = http_.get();
    std::promise<std::string> loaded;
    app_->load_first([&](const std::string& error) { loaded.set_value(error); });
    thread_ = std::thread([this] { http_->run(); });
    EXPECT_EQ(loaded.get_future().get(), "");
  }
  void TearDown() override {
    if (!http_) return;
    http_->stop();
    thread_.join();
    app_->close();
  }
  uint16_t port() const { return http_->port(); }
  double metric(const std::string& name) {
    std::string text = Client(port()).get("/metrics").body;
    size_t at = text.find("\n" + name + "{");
    return at == std::string::npos ? -1 : std::stod(text.substr(text.find("} ", at) + 2));
  }
  void wait_until_idle() {
    for (int i = 0; i < 2000 && metric("tenon_requests_running") + metric("tenon_requests_waiting") > 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

  std::vector<models::AdapterFile> adapters_;
  HttpServer* http_pointer_ = nullptr;
  std::unique_ptr<App> app_;
  std::unique_ptr<HttpServer> http_;
  std::thread thread_;
};

Json completion(const std::vector<int>& prompt, int max_tokens) {
  return {{"model", "tiny"}, {"prompt", prompt}, {"max_tokens", max_tokens}, {"temperature", 0}, {"ignore_eos", true}};
}

// The text of a streamed completion, whole.
std::string streamed(Client& c, Json body) {
  body["stream"] = true;
  c.send(Client::request("POST", "/v1/completions", body.dump()));
  c.read_until("\r\n\r\n");
  std::string all = c.read_until("0\r\n\r\n"), text;
  for (size_t at = 0; (at = all.find("data: {", at)) != std::string::npos; ++at)
    text += Json::parse(all.substr(at + 6, all.find('\n', at) - at - 6))["choices"][0]["text"].get<std::string>();
  EXPECT_NE(all.find("data: [DONE]"), std::string::npos);
  return text;
}

TEST_F(Server, AnswersAndStreamsTheSame) {
  start();
  Client c(port());
  EXPECT_EQ(c.get("/health").status, 200);
  EXPECT_EQ(c.get("/v1/models").json()["data"][0]["id"], "tiny");
  auto r = c.post("/v1/completions", completion({1, 2, 3}, 20));
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(r.json()["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(r.json()["usage"]["completion_tokens"], 20);
  EXPECT_EQ(r.json()["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(streamed(c, completion({1, 2, 3}, 20)), r.json()["choices"][0]["text"]);
  auto again = c.post("/v1/completions", completion(std::vector<int>(100, 7), 2));
  again = c.post("/v1/completions", completion(std::vector<int>(100, 7), 2));
  EXPECT_EQ(again.json()["usage"]["prompt_tokens_details"]["cached_tokens"], 96);
}

TEST_F(Server, AnAdapterIsAModelByItsOwnName) {
  const auto folder = std::filesystem::temp_directory_path() / ("tenon_served_" + std::to_string(getpid()));
  const auto model = models::Model::open(tiny_model());
  const auto type = model->source().require("model.layers.0.self_attn.v_proj.weight");
  std::vector<test::AdaptedLayer> layers = {
      {"model.layers.0.self_attn.v_proj", type.shape[1].size, type.shape[0].size, 3}};
  test::write_adapter(folder, layers, 100, 1);
  adapters_ = {{"tuned", folder}};
  start();
  std::filesystem::remove_all(folder);
  Client c(port());
  const Json models = c.get("/v1/models").json()["data"];
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[1]["id"], "tuned");
  EXPECT_EQ(models[1]["parent"], "tiny");
  EXPECT_EQ(c.get("/v1/models/tuned").json()["parent"], "tiny");
  Json tuned = completion(std::vector<int>(40, 7), 20);
  const auto base = c.post("/v1/completions", tuned).json();
  tuned["model"] = "tuned";
  const auto other = c.post("/v1/completions", tuned).json();
  EXPECT_EQ(other["model"], "tuned");
  EXPECT_NE(other["choices"][0]["text"], base["choices"][0]["text"]);
  EXPECT_EQ(other["usage"]["prompt_tokens_details"]["cached_tokens"], 0) << "another's prefix";
  const auto again = c.post("/v1/completions", tuned).json();
  EXPECT_EQ(again["choices"][0]["text"], other["choices"][0]["text"]);
  EXPECT_EQ(again["usage"]["prompt_tokens_details"]["cached_tokens"], 32);
  EXPECT_EQ(streamed(c, tuned), other["choices"][0]["text"]);
  EXPECT_THROW(app_->pool().add("tuned", tiny_model()), Error);
}

TEST_F(Server, EveryRequestFieldIsHonouredOrRefusedByName) {
  start();
  Client c(port());
  for (auto [field, value] : std::vector<std::pair<std::string, Json>>{{"frobnicate", 1},
                                                                       {"temperature", "hot"},
                                                                       {"temperature", -1},
                                                                       {"top_p", 2},
                                                                       {"n", 0},
                                                                       {"logit_bias", {{"x", 1}}},
                                                                       {"suffix", "x"},
                                                                       {"best_of", 3},
                                                                       {"stop", 5},
                                                                       {"max_tokens", 0},
                                                                       {"response_format", {{"type", "xml"}}},
                                                                       {"prompt", {{"a", 1}}}}) {
    Json body = completion({1}, 2);
    body[field] = value;
    auto r = c.post("/v1/completions", body);
    EXPECT_EQ(r.status, 400) << field;
    EXPECT_NE(r.json()["error"]["message"].get<std::string>().find(field), std::string::npos) << r.body;
  }
  Json body = completion({1, 2, 3}, 300);
  auto r = c.post("/v1/completions", body);
  EXPECT_EQ(r.status, 400);
  EXPECT_EQ(r.json()["error"]["code"], "context_length_exceeded");
  body = completion({1, 99999999}, 2);
  EXPECT_EQ(c.post("/v1/completions", body).status, 400);
  body["model"] = "other";
  EXPECT_EQ(c.post("/v1/completions", body).status, 404);
  EXPECT_EQ(c.get("/nowhere").status, 404);
  EXPECT_EQ(c.get("/v1/completions").status, 405);
  c.send(Client::request("POST", "/v1/completions", "{\"prompt\": [1"));
  EXPECT_EQ(c.reply().status, 400);
}

// The model's weights are random: what it says has the asked form only because nothing else can be sampled.
TEST_F(Server, AnswersHaveTheAskedForm) {
  start();
  Client c(port());
  auto answer = [&](const Json& form, int max_tokens, int seed) {
    Json body = {{"model", "tiny"}, {"prompt", {1, 2, 3}}, {"max_tokens", max_tokens}, {"temperature", 1.5}};
    body["seed"] = seed;
    body.update(form);
    auto r = c.post("/v1/completions", body);
    EXPECT_EQ(r.status, 200) << r.body;
    EXPECT_EQ(r.json()["choices"][0]["text"], streamed(c, body));
    return r.json()["choices"][0]["text"].get<std::string>();
  };
  const Json schema = {
      {"type", "object"},
      {"properties", {{"name", {{"type", "string"}}}, {"age", {{"type", "integer"}, {"maximum", 99}}}}},
      {"required", {"name", "age"}},
      {"additionalProperties", false}};
  const Json format = {{"type", "json_schema"}, {"json_schema", {{"name", "person"}, {"schema", schema}}}};
  for (int seed = 0; seed < 6; ++seed)
    for (int max_tokens : {40, 200}) {
      Json person = Json::parse(answer({{"response_format", format}}, max_tokens, seed));
      EXPECT_TRUE(person.size() == 2 && person["name"].is_string() && person["age"] <= 99) << person;
      EXPECT_TRUE(Json::parse(answer({{"response_format", {{"type", "json_object"}}}}, max_tokens, seed)).is_object());
    }
  const std::set<std::string> colours{"red", "green", "blue"};
  EXPECT_TRUE(colours.contains(answer({{"guided_choice", colours}}, 20, 1)));
  EXPECT_TRUE(colours.contains(answer({{"structured_outputs", {{"choice", colours}}}}, 20, 2)));
  EXPECT_TRUE(colours.contains(answer({{"grammar", "root ::= \"red\" | \"green\" | \"blue\""}}, 20, 3)));
  EXPECT_TRUE(colours.contains(answer({{"guided_grammar", "start: \"red\" | \"green\" | \"blue\""}}, 20, 4)));
  EXPECT_EQ(answer({{"guided_regex", "[ab]{5}"}}, 20, 5).find_first_not_of("ab"), std::string::npos);

  auto refused = [&](const Json& form, int max_tokens) {
    Json body = completion({1}, max_tokens);
    body.update(form);
    auto r = c.post("/v1/completions", body);
    EXPECT_EQ(r.status, 400) << r.body;
    return r.json()["error"]["message"].get<std::string>();
  };
  EXPECT_NE(
      refused({{"json_schema", {{"properties", {{"a", {{"not", Json::object()}}}}}}}}, 9).find("/properties/a/not"),
      std::string::npos);
  EXPECT_NE(refused({{"response_format", format}}, 3).find("shortest answer"), std::string::npos);
  EXPECT_NE(refused({{"json_schema", {{"type", "string"}, {"minLength", 100000}}}}, 9).find("shortest answer"),
            std::string::npos);
  EXPECT_NE(refused({{"guided_regex", "a"}, {"guided_choice", {"b"}}}, 9).find("two forms"), std::string::npos);
  EXPECT_NE(refused({{"guided_regex", "(a"}}, 9).find("guided_regex"), std::string::npos);
}

TEST_F(Server, ChoicesLogProbsAndEmbeddings) {
  start();
  Client c(port());
  Json body = completion({5, 6, 7}, 6);
  body["n"] = 3;
  body["temperature"] = 1;
  body["seed"] = 4;
  body["logprobs"] = 2;
  Json one = c.post("/v1/completions", body).json();
  ASSERT_EQ(one["choices"].size(), 3u);
  EXPECT_NE(one["choices"][0]["logprobs"]["token_logprobs"], one["choices"][1]["logprobs"]["token_logprobs"]);
  EXPECT_EQ(one["choices"][2]["logprobs"]["tokens"].size(), 6u);
  EXPECT_EQ(one["effective_params"]["seed"], (Json{{"value", 4}, {"source", "request"}}));
  EXPECT_EQ(c.post("/v1/completions", body).json()["choices"], one["choices"]) << "same seed, same answer";
  Json vectors = c.post("/v1/embeddings", {{"input", {{1, 2, 3}, {1, 2, 3, 4}}}}).json();
  ASSERT_EQ(vectors["data"].size(), 2u);
  double norm = 0;
  for (const Json& x : vectors["data"][0]["embedding"]) norm += x.get<double>() * x.get<double>();
  EXPECT_NEAR(norm, 1, 1e-5);
}

TEST_F(Server, HostileClients) {
  HttpOptions http;
  http.max_body = 4096;
  http.max_header = 2048;
  http.header_timeout = std::chrono::seconds(1);
  start(http);
  {
    Client c(port());
    c.send("\x16\x03\x01 not http\r\n\r\n");
    EXPECT_EQ(c.reply().status, 400);
  }
  {
    Client c(port());
    c.send("GET / HTTP/1.1\r\nX: " + std::string(4000, 'a') + "\r\n\r\n");
    EXPECT_EQ(c.reply().status, 431);
  }
  {
    Client c(port());
    c.send(Client::request("POST", "/v1/completions", std::string(5000, ' ')));
    EXPECT_EQ(c.reply().status, 413);
  }
  {
    Client c(port());  // says nothing more: closed when its time is up
    c.send("GET /health HT");
    EXPECT_EQ(c.read_until("never"), "");
  }
  Client c(port());
  EXPECT_EQ(c.get("/health").status, 200);
}

TEST_F(Server, KeysAreAskedFor) {
  start({}, {.keys = {"secret"}, .cors = "*"});
  Client c(port());
  EXPECT_EQ(c.get("/health").status, 200);
  EXPECT_EQ(c.get("/metrics").status, 200);
  EXPECT_EQ(c.get("/v1/models").status, 401);
  c.send(Client::request("GET", "/v1/models", "", "Authorization: Bearer secret\r\nOrigin: http://a\r\n"));
  auto r = c.reply();
  EXPECT_EQ(r.status, 200);
  EXPECT_NE(r.head.find("Access-Control-Allow-Origin: *"), std::string::npos);
  c.send(Client::request("GET", "/v1/models", "", "x-api-key: secret2\r\n"));
  EXPECT_EQ(c.reply().status, 401);
}

TEST_F(Server, AFullQueueSaysSo) {
  start({}, {}, 0);  // four run, none waits
  std::vector<std::unique_ptr<Client>> busy;
  int refused = 0;
  for (int i = 0; i < 16; ++i) {
    busy.push_back(std::make_unique<Client>(port()));
    Json body = completion({1, 2, i}, 250);
    body["stream"] = true;
    busy.back()->send(Client::request("POST", "/v1/completions", body.dump()));
  }
  for (auto& client : busy) {
    std::string head = client->read_until("\r\n\r\n");
    if (head.find(" 429 ") != std::string::npos) {
      EXPECT_NE(head.find("Retry-After"), std::string::npos);
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
}

// Clients that leave at random moments take nothing with them, and those that stay get the answers of solo runs.
TEST_F(Server, ChaosLeavesNoBlockBehind) {
  HttpOptions http;
  http.idle_timeout = http.header_timeout = std::chrono::seconds(1);
  start(http);
  std::vector<std::string> want;
  Client alone(port());
  for (int i = 0; i < 8; ++i)
    want.push_back(alone.post("/v1/completions", completion(std::vector<int>(static_cast<size_t>(10 + 20 * i), i), 24))
                       .json()["choices"][0]["text"]);
  std::atomic<int> whole{0};
  std::vector<std::thread> clients;
  for (unsigned t = 0; t < 8; ++t)
    clients.emplace_back([&, t] {
      std::mt19937 rng(t);
      for (int k = 0; k < 12; ++k) {
        auto i = rng() % 8;
        Json body = completion(std::vector<int>(10 + 20 * i, static_cast<int>(i)), 24);
        Client c(port());
        switch (rng() % 4) {
          case 0:
            EXPECT_EQ(streamed(c, body), want[i]);
            ++whole;
            break;
          case 1:
            EXPECT_EQ(c.post("/v1/completions", body).json()["choices"][0]["text"], want[i]);
            ++whole;
            break;
          case 2:  // leaves somewhere in the stream
            body["stream"] = true;
            c.send(Client::request("POST", "/v1/completions", body.dump()));
            c.read_bytes(rng() % 3000);
            break;
          default:  // leaves with half a request
            std::string request = Client::request("POST", "/v1/completions", body.dump());
            c.send(request.substr(0, rng() % request.size()));
        }
      }
    });
  for (auto& t : clients) t.join();
  wait_until_idle();
  EXPECT_GT(whole, 10);
  EXPECT_EQ(metric("tenon_kv_blocks_used"), 0);
  EXPECT_EQ(metric("tenon_requests_running"), 0);
}

}  // namespace
}  // namespace tenon::server
