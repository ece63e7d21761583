// The models of a server: loaded when first asked for, unloaded when another needs their memory and nobody uses them.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "pipelines/service.h"

namespace tenon::server {

struct PoolOptions {
  runtime::RunOptions run;
  pipelines::ServiceOptions service;
};

class ModelPool {
 public:
  using Service = std::shared_ptr<pipelines::TextService>;
  // Runs a function on the server's thread.
  using Post = std::function<void(std::function<void()>)>;
  using Deliver = std::function<void(const std::string& model, std::vector<pipelines::ServiceEvent>)>;

  ModelPool(PoolOptions options, Post post, Deliver deliver);
  ~ModelPool();

  // Names must differ; throws Error{invalid_argument} otherwise.
  void add(const std::string& id, const std::filesystem::path& path, std::vector<models::AdapterFile> adapters = {});
  // Starts loading the first model; `done` (on the server's thread) gets an error's text, or "".
  void load_first(std::function<void(std::string error)> done);

  struct Entry {
    std::string id;
    std::filesystem::path path;
    std::vector<models::AdapterFile> adapters;  // models by names of their own
    Service service;                            // null: not loaded
    bool loading = false;
    std::string error;  // of the last attempt
    double load_s = 0;
    int64_t created = 0;  // Unix time the server knew it
    std::chrono::steady_clock::time_point used;
  };
  void clear();  // unloads all
  // All on the server's thread.
  const std::vector<std::unique_ptr<Entry>>& entries() const { return entries_; }
  // What a name stands for: a model, or one of its adapters.
  struct Named {
    Entry* model = nullptr;
    std::string id;
    int32_t adapter = -1;  // index into model->adapters
  };
  std::optional<Named> find(const std::string& id);  // "": the first; nullopt: none of that name
  // Calls `ready` with the service, loading it first if need be; or with null and an error.
  void with(Entry& entry, std::function<void(Service, std::string error)> ready);

 private:
  void load(Entry& entry);
  void finish_load(Entry& entry, Service service, std::string error, bool full);
  bool unload_one();

  PoolOptions options_;
  Post post_;
  Deliver deliver_;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::map<Entry*, std::vector<std::function<void(Service, std::string)>>> waiting_;
  std::thread loader_;
};

}  // namespace tenon::server
