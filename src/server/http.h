// HTTP/1.1 for many clients on one thread: what arrives is bounded in size and time, what leaves is buffered up to a
// bound, a client that goes away is noticed at once. Everything here runs on the thread of run(), except post() and
// stop().
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::server {

struct HttpRequest {
  std::string method, path, query;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  std::string peer;
  std::chrono::steady_clock::time_point accepted;  // when its first bytes were there (of a connection's first request:
                                                   // when the socket was accepted)
  std::string header(const std::string& name) const {
    auto h = headers.find(name);
    return h == headers.end() ? std::string() : h->second;
  }
};

// One request's answer: respond() once, or begin_stream(), write()..., end().
class Exchange {
 public:
  using Headers = std::map<std::string, std::string>;
  virtual ~Exchange() = default;
  void respond(int status, std::string_view type, std::string_view body, const Headers& headers = {});
  void begin_stream(std::string_view type, const Headers& headers = {});
  void write(std::string_view data);
  void end();
  bool begun() const { return status_ != 0; }
  bool closed() const { return closed_; }
  // What to do when the client goes away, or is too slow, before the end.
  void on_closed(std::function<void()> f) { on_closed_.push_back(std::move(f)); }
  void add_header(const std::string& name, const std::string& value) { extra_[name] = value; }
  int status() const { return status_; }
  uint64_t bytes() const { return bytes_; }

 protected:
  virtual void wake() = 0;
  void head(int status, std::string_view type, const Headers& headers, int64_t length);
  void close();

  std::string out_;  // to be sent
  size_t most_buffered_ = 1 << 20;
  bool keep_alive_ = true, ended_ = false, closed_ = false, head_only_ = false, chunked_ = true;
  int status_ = 0;
  uint64_t bytes_ = 0;
  Headers extra_;
  std::vector<std::function<void()>> on_closed_;
};

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;            // 0: any free one
  std::string certificate, key;    // PEM files; empty: no TLS
  uint64_t max_body = 16 << 20;    // bytes of one request
  uint64_t max_bodies = 64 << 20;  // bytes of all requests being received
  uint32_t max_header = 32 << 10;
  size_t max_connections = 2048;
  size_t max_buffered = 1 << 20;  // bytes of an answer that a client has not taken
  std::chrono::seconds idle_timeout{300}, header_timeout{15}, body_timeout{60}, write_timeout{30};
  std::chrono::seconds drain{30};  // how long running answers may take after stop()
  // Heap that connections, bodies and buffers may take at most, as a rule: see serving.md.
  uint64_t bytes() const;
};

class HttpServer {
 public:
  using Handler = std::function<void(HttpRequest, std::shared_ptr<Exchange>)>;
  // After every answer: the request (without its body), the status and bytes of the answer.
  using Log = std::function<void(const HttpRequest&, const Exchange&)>;

  // Binds; throws Error{io}.
  HttpServer(HttpOptions options, Handler handler, Log log = {});
  ~HttpServer();

  uint16_t port() const;
  void run();                          // returns after stop(), when no answer is left or the time for them is up
  void post(std::function<void()> f);  // f runs on the thread of run()
  void stop();                         // from any thread; SIGTERM and SIGINT do it too once handle_signals() was called
  void handle_signals(std::function<void()> on_hangup);
  size_t connections() const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::server
