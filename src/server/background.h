// One thread for work that would hold up the server's own: compiling grammars.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace tenon::server {

class Background {
 public:
  explicit Background(size_t most) : most_(most), thread_([this] { run(); }) {}
  ~Background() { stop(); }

  // False: too much is waiting already.
  bool submit(std::function<void()> work) {
    {
      std::lock_guard lock(mutex_);
      if (stop_ || waiting_.size() >= most_) return false;
      waiting_.push_back(std::move(work));
    }
    wake_.notify_one();
    return true;
  }
  // What waits is dropped, what runs is waited for.
  void stop() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
      waiting_.clear();
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void run() {
    for (;;) {
      std::function<void()> work;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
        if (stop_) return;
        work = std::move(waiting_.front());
        waiting_.pop_front();
      }
      work();
    }
  }

  size_t most_;
  std::mutex mutex_;  // guards waiting_ and stop_
  std::condition_variable wake_;
  std::deque<std::function<void()>> waiting_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tenon::server
