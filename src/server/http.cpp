#include "server/http.h"

#include <fmt/format.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <csignal>
#include <optional>
#include <set>

#include "base/error.h"

namespace tenon::server {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;
using asio::use_awaitable;
using Clock = std::chrono::steady_clock;

namespace {

constexpr size_t kReadAhead = 64 << 10;  // bytes a client may send before its answer is complete
constexpr uint64_t kConnectionBytes = 16 << 10;

const char* reason(int status) {
  static const std::map<int, const char*> kReasons = {{200, "OK"},
                                                      {204, "No Content"},
                                                      {400, "Bad Request"},
                                                      {401, "Unauthorized"},
                                                      {404, "Not Found"},
                                                      {405, "Method Not Allowed"},
                                                      {408, "Timeout"},
                                                      {413, "Payload Too Large"},
                                                      {415, "Unsupported Media Type"},
                                                      {422, "Unprocessable"},
                                                      {429, "Too Many Requests"},
                                                      {431, "Header Fields Too Large"},
                                                      {499, "Client Closed Request"},
                                                      {500, "Internal Server Error"},
                                                      {503, "Service Unavailable"}};
  auto r = kReasons.find(status);
  return r == kReasons.end() ? "Status" : r->second;
}

}  // namespace

uint64_t HttpOptions::bytes() const { return max_connections * kConnectionBytes + max_bodies + 4 * max_buffered; }

// ---- Exchange

void Exchange::head(int status, std::string_view type, const Headers& headers, int64_t length) {
  status_ = status;
  out_ += fmt::format("HTTP/1.1 {} {}\r\n", status, reason(status));
  if (!type.empty()) out_ += fmt::format("Content-Type: {}\r\n", type);
  for (const auto* list : {&headers, &static_cast<const Headers&>(extra_)})
    for (const auto& [name, value] : *list) out_ += fmt::format("{}: {}\r\n", name, value);
  if (length >= 0)
    out_ += fmt::format("Content-Length: {}\r\n", length);
  else if (chunked_)
    out_ += "Transfer-Encoding: chunked\r\n";
  out_ += keep_alive_ ? "\r\n" : "Connection: close\r\n\r\n";
}

void Exchange::respond(int status, std::string_view type, std::string_view body, const Headers& headers) {
  if (begun()) return;
  head(status, type, headers, static_cast<int64_t>(body.size()));
  if (!head_only_) out_ += body;
  bytes_ += body.size();
  ended_ = true;
  wake();
}

void Exchange::begin_stream(std::string_view type, const Headers& headers) {
  if (begun()) return;
  if (!chunked_) keep_alive_ = false;
  Headers all = headers;
  all["Cache-Control"] = "no-cache";
  all["X-Accel-Buffering"] = "no";
  head(200, type, all, -1);
  wake();
}

void Exchange::write(std::string_view data) {
  if (closed_ || ended_ || data.empty()) return;
  bytes_ += data.size();
  if (!head_only_) {
    if (chunked_)
      out_ += fmt::format("{:x}\r\n{}\r\n", data.size(), data);
    else
      out_ += data;
  }
  if (out_.size() > most_buffered_) close();  // a client that does not read
  wake();
}

void Exchange::end() {
  if (ended_) return;
  if (chunked_ && !head_only_) out_ += "0\r\n\r\n";
  ended_ = true;
  wake();
}

void Exchange::close() {
  if (std::exchange(closed_, true) || ended_) return;
  for (auto& f : std::exchange(on_closed_, {})) f();
}

// ---- Connections

namespace {
class ConnectionBase;
}

struct HttpServer::Impl {
  HttpOptions options;
  Handler handler;
  Log log;
  asio::io_context io{1};
  tcp::acceptor acceptor{io};
  std::optional<asio::ssl::context> tls;
  std::optional<asio::signal_set> ends, hangups;
  asio::steady_timer sweep{io};
  std::set<ConnectionBase*> connections;
  uint64_t receiving = 0;  // bytes promised to bodies under way
  std::optional<Clock::time_point> stopping;

  Impl(HttpOptions o, Handler h, Log l) : options(std::move(o)), handler(std::move(h)), log(std::move(l)) { bind(); }
  void bind();
  asio::awaitable<void> accept();
  asio::awaitable<void> watch_time();
  void wait_hangup(std::function<void()> f);
  void begin_stop();
};

namespace {

// What the server knows of a connection whatever its stream.
class ConnectionBase {
 public:
  virtual ~ConnectionBase() = default;
  virtual void shut() = 0;
  bool idle() const { return idle_; }
  bool late(Clock::time_point now) const { return deadline_ < now; }

 protected:
  bool idle_ = true;  // no request under way
  Clock::time_point deadline_ = Clock::time_point::max();
};

template <class Stream>
class Connection : public ConnectionBase, public std::enable_shared_from_this<Connection<Stream>> {
 public:
  template <class... Args>
  explicit Connection(HttpServer::Impl& server, tcp::socket socket, Args&... args)
      : server_(server), stream_(std::move(socket), args...), signal_(server.io) {
    server_.connections.insert(this);
    error_code ec;
    auto peer = lowest().remote_endpoint(ec);
    if (!ec) peer_ = peer.address().to_string();
    lowest().set_option(tcp::no_delay(true), ec);
  }
  ~Connection() override { server_.connections.erase(this); }

  tcp::socket& lowest() {
    if constexpr (requires { stream_.next_layer(); } && !std::is_same_v<Stream, tcp::socket>)
      return stream_.next_layer();
    else
      return stream_;
  }

  void shut() override {
    error_code ec;
    lowest().shutdown(tcp::socket::shutdown_both, ec);
    lowest().close(ec);
    signal_.cancel();
  }

  asio::awaitable<void> serve() {
    auto self = this->shared_from_this();
    accepted_ = Clock::now();
    error_code ec;
    if constexpr (!std::is_same_v<Stream, tcp::socket>) {
      allow(server_.options.header_timeout);
      co_await stream_.async_handshake(asio::ssl::stream_base::server, asio::redirect_error(use_awaitable, ec));
      if (ec) co_return;
    }
    for (bool more = true; more;) more = co_await serve_one();
    error_code ignored;
    lowest().shutdown(tcp::socket::shutdown_send, ignored);
    shut();
  }

 private:
  struct Answer : Exchange {
    std::weak_ptr<Connection> connection;
    void wake() override {
      if (auto c = connection.lock()) c->signal_.cancel();
    }
    friend class Connection;
    using Exchange::chunked_;
    using Exchange::close;
    using Exchange::closed_;
    using Exchange::ended_;
    using Exchange::head_only_;
    using Exchange::keep_alive_;
    using Exchange::most_buffered_;
    using Exchange::out_;
  };

  void allow(std::chrono::seconds time) { deadline_ = Clock::now() + time; }

  // Reads on behind the request under way: notices the end of the connection, keeps what comes for the next request.
  void watch() {
    if (reading_ || gone_ || buffer_.size() >= kReadAhead) return;
    reading_ = true;
    stream_.async_read_some(buffer_.prepare(2048), [self = this->shared_from_this()](error_code ec, size_t n) {
      self->reading_ = false;
      self->buffer_.commit(n);
      if (ec)
        self->gone_ = true;
      else if (!self->idle_)
        self->watch();
      self->signal_.cancel();
    });
  }

  asio::awaitable<void> wait() {
    signal_.expires_at(Clock::time_point::max());
    error_code ec;
    co_await signal_.async_wait(asio::redirect_error(use_awaitable, ec));
  }

  // Sends sending_. (A member: GCC 12 destroys temporaries of a co_await expression twice.)
  asio::awaitable<bool> send() {
    allow(server_.options.write_timeout);
    error_code ec;
    co_await asio::async_write(stream_, asio::buffer(sending_), asio::redirect_error(use_awaitable, ec));
    sending_.clear();
    co_return !ec;
  }

  asio::awaitable<bool> refuse(int status, const char* message) {
    const std::string body =
        fmt::format(R"({{"error":{{"message":"{}","type":"invalid_request_error","code":{}}}}})", message, status);
    sending_ = fmt::format(
        "HTTP/1.1 {} {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{}Connection: close\r\n\r\n{}",
        status, reason(status), body.size(), status == 503 ? "Retry-After: 1\r\n" : "", body);
    co_await send();
    // What the client still sends is taken for a moment, so that it gets to read the answer.
    error_code ec;
    lowest().shutdown(tcp::socket::shutdown_send, ec);
    allow(std::chrono::seconds(2));
    for (size_t taken = 0; !ec && taken < (1 << 20);) {
      buffer_.clear();
      size_t n = co_await stream_.async_read_some(buffer_.prepare(8192), asio::redirect_error(use_awaitable, ec));
      taken += n;
    }
    co_return false;
  }

  // One request and its answer; false: the connection is over.
  asio::awaitable<bool> serve_one() {
    error_code ec;
    idle_ = true;
    allow(server_.options.idle_timeout);
    if (buffer_.size() == 0) watch();
    while (reading_ && buffer_.size() == 0) co_await wait();
    if (buffer_.size() == 0) co_return false;
    while (reading_) {  // the parser reads on by itself: no second read beside it
      lowest().cancel(ec);
      co_await wait();
    }
    if (server_.stopping) co_return false;
    idle_ = false;
    gone_ = false;
    const Clock::time_point began = first_ ? accepted_ : Clock::now();
    first_ = false;

    http::request_parser<http::string_body> parser;
    parser.header_limit(server_.options.max_header);
    parser.body_limit(server_.options.max_body);
    allow(server_.options.header_timeout);
    co_await http::async_read_header(stream_, buffer_, parser, asio::redirect_error(use_awaitable, ec));
    if (ec == http::error::end_of_stream || ec == asio::error::operation_aborted || ec == asio::error::eof ||
        ec == asio::error::connection_reset)
      co_return false;
    if (ec == http::error::header_limit) co_return co_await refuse(431, "the request's header is too large");
    if (ec == http::error::body_limit) co_return co_await refuse(413, "the request's body is too large");
    if (ec) co_return co_await refuse(400, "this is not HTTP/1.1");

    const uint64_t promise = parser.content_length() ? *parser.content_length()
                             : parser.chunked()      ? server_.options.max_body
                                                     : 0;
    if (server_.receiving + promise > std::max(server_.options.max_bodies, server_.options.max_body))
      co_return co_await refuse(503, "too many requests are being received");
    server_.receiving += promise;
    if (boost::beast::iequals(parser.get()[http::field::expect], "100-continue")) {
      sending_ = "HTTP/1.1 100 Continue\r\n\r\n";
      co_await send();
    }
    allow(server_.options.body_timeout);
    if (!parser.is_done()) co_await http::async_read(stream_, buffer_, parser, asio::redirect_error(use_awaitable, ec));
    server_.receiving -= promise;
    if (ec == http::error::body_limit) co_return co_await refuse(413, "the request's body is too large");
    if (ec == asio::error::eof || ec == http::error::partial_message || ec == asio::error::operation_aborted)
      co_return false;
    if (ec) co_return co_await refuse(400, "the request's body is malformed");
    co_return co_await answer(parser.release(), began);
  }

  asio::awaitable<bool> answer(http::request<http::string_body> message, Clock::time_point began) {
    auto a = std::make_shared<Answer>();
    a->connection = this->weak_from_this();
    a->keep_alive_ = message.keep_alive();
    a->chunked_ = message.version() >= 11;
    a->head_only_ = message.method() == http::verb::head;
    a->most_buffered_ = server_.options.max_buffered;
    HttpRequest r;
    r.method = std::string(message.method_string());
    std::string target(message.target());
    size_t question = target.find('?');
    r.path = target.substr(0, question);
    if (question != std::string::npos) r.query = target.substr(question + 1);
    for (const auto& field : message) {
      std::string name(field.name_string());
      for (char& c : name)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
      r.headers[name] = std::string(field.value());
    }
    r.body = std::move(message.body());
    r.peer = peer_;
    r.accepted = began;
    HttpRequest logged;
    logged.method = r.method, logged.path = r.path, logged.peer = r.peer, logged.accepted = r.accepted;
    deadline_ = Clock::time_point::max();
    server_.handler(std::move(r), a);
    watch();
    co_await pump(*a);
    a->connection.reset();
    if (!a->ended_ || gone_) a->close();
    if (server_.log) server_.log(logged, *a);
    co_return !a->closed_ && !gone_ && a->keep_alive_ && !server_.stopping;
  }

  asio::awaitable<void> pump(Answer& a) {
    for (;;) {
      if (gone_) a.close();
      if (a.closed_) co_return;
      if (!a.out_.empty()) {
        sending_.swap(a.out_);
        const bool sent = co_await send();
        if (!sent) gone_ = true;
        deadline_ = Clock::time_point::max();
      } else if (a.ended_) {
        co_return;
      } else {
        co_await wait();
      }
    }
  }

  HttpServer::Impl& server_;
  Stream stream_;
  asio::steady_timer signal_;
  boost::beast::flat_buffer buffer_{1 << 20};
  std::string sending_, peer_;
  Clock::time_point accepted_;
  bool first_ = true, reading_ = false, gone_ = false;
};

using TlsStream = asio::ssl::stream<tcp::socket>;

}  // namespace

void HttpServer::Impl::bind() {
  try {
    if (!options.certificate.empty()) {
      tls.emplace(asio::ssl::context::tls_server);
      tls->set_options(asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1);
      tls->use_certificate_chain_file(options.certificate);
      tls->use_private_key_file(options.key, asio::ssl::context::pem);
    }
    tcp::resolver resolver(io);
    tcp::endpoint at = resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive)->endpoint();
    acceptor.open(at.protocol());
    acceptor.set_option(tcp::acceptor::reuse_address(true));
    acceptor.bind(at);
    acceptor.listen(1024);
  } catch (const boost::system::system_error& e) {
    fail(ErrorCode::io, "{}:{} cannot be served: {}", options.host, options.port, e.code().message());
  }
}

asio::awaitable<void> HttpServer::Impl::accept() {
  for (;;) {
    error_code ec;
    tcp::socket socket = co_await acceptor.async_accept(asio::redirect_error(use_awaitable, ec));
    if (!acceptor.is_open()) co_return;
    if (ec) {  // no descriptors left, say: what is open goes on
      asio::steady_timer pause(io, std::chrono::milliseconds(50));
      co_await pause.async_wait(asio::redirect_error(use_awaitable, ec));
      continue;
    }
    if (connections.size() >= options.max_connections) continue;  // closed: the limit is the operator's
    if (tls) {
      auto c = std::make_shared<Connection<TlsStream>>(*this, std::move(socket), *tls);
      asio::co_spawn(
          io, [c] { return c->serve(); }, asio::detached);
    } else {
      auto c = std::make_shared<Connection<tcp::socket>>(*this, std::move(socket));
      asio::co_spawn(
          io, [c] { return c->serve(); }, asio::detached);
    }
  }
}

// Once a second: whoever is late goes; after stop(), whoever is idle, and in the end everybody.
asio::awaitable<void> HttpServer::Impl::watch_time() {
  for (;;) {
    error_code ec;
    sweep.expires_after(stopping ? std::chrono::milliseconds(20) : std::chrono::milliseconds(1000));
    co_await sweep.async_wait(asio::redirect_error(use_awaitable, ec));
    auto now = Clock::now();
    const bool over = stopping && now > *stopping + options.drain;
    auto all = connections;
    for (ConnectionBase* c : all)
      if (connections.count(c) && (c->late(now) || over || (stopping && c->idle()))) c->shut();
    if (stopping && (connections.empty() || over)) {
      io.stop();
      co_return;
    }
  }
}

void HttpServer::Impl::begin_stop() {
  if (stopping) return;
  stopping = Clock::now();
  error_code ec;
  acceptor.close(ec);
  sweep.cancel();
}

void HttpServer::Impl::wait_hangup(std::function<void()> f) {
  hangups->async_wait([this, f](error_code ec, int) {
    if (ec) return;
    if (f) f();
    wait_hangup(f);
  });
}

HttpServer::HttpServer(HttpOptions options, Handler handler, Log log)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(handler), std::move(log))) {}
HttpServer::~HttpServer() = default;

uint16_t HttpServer::port() const { return impl_->acceptor.local_endpoint().port(); }

void HttpServer::run() {
  asio::co_spawn(impl_->io, impl_->accept(), asio::detached);
  asio::co_spawn(impl_->io, impl_->watch_time(), asio::detached);
  impl_->io.run();
}

void HttpServer::post(std::function<void()> f) { asio::post(impl_->io, std::move(f)); }

void HttpServer::stop() {
  asio::post(impl_->io, [this] { impl_->begin_stop(); });
}

void HttpServer::handle_signals(std::function<void()> on_hangup) {
  impl_->ends.emplace(impl_->io, SIGTERM, SIGINT);
  impl_->ends->async_wait([this](error_code ec, int) {
    if (!ec) impl_->begin_stop();
  });
  impl_->hangups.emplace(impl_->io, SIGHUP);
  impl_->wait_hangup(std::move(on_hangup));
}

size_t HttpServer::connections() const { return impl_->connections.size(); }

}  // namespace tenon::server
