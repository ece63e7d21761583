#include "server/model_pool.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/log.h"

namespace tenon::server {

using pipelines::TextService;

ModelPool::ModelPool(PoolOptions options, Post post, Deliver deliver)
    : options_(std::move(options)), post_(std::move(post)), deliver_(std::move(deliver)) {}

ModelPool::~ModelPool() { clear(); }

void ModelPool::clear() {
  if (loader_.joinable()) loader_.join();
  waiting_.clear();
  for (auto& e : entries_) e->service.reset();
}

void ModelPool::add(const std::string& id, const std::filesystem::path& path,
                    std::vector<models::AdapterFile> adapters) {
  std::vector<std::string> names{id};
  for (const models::AdapterFile& a : adapters) names.push_back(a.name);
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i].empty() || find(names[i]) || std::count(names.begin(), names.end(), names[i]) > 1)
      fail(ErrorCode::invalid_argument, "two models are called '{}': use --alias, or --lora NAME=FOLDER", names[i]);
  auto e = std::make_unique<Entry>();
  e->id = id;
  e->path = path;
  e->adapters = std::move(adapters);
  e->created =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  entries_.push_back(std::move(e));
}

std::optional<ModelPool::Named> ModelPool::find(const std::string& id) {
  if (id.empty() && !entries_.empty()) return Named{entries_.front().get(), entries_.front()->id};
  for (auto& e : entries_) {
    if (e->id == id) return Named{e.get(), id};
    for (size_t i = 0; i < e->adapters.size(); ++i)
      if (e->adapters[i].name == id) return Named{e.get(), id, static_cast<int32_t>(i)};
  }
  return std::nullopt;
}

void ModelPool::load_first(std::function<void(std::string)> done) {
  with(*entries_.front(), [done](Service, const std::string& error) { done(error); });
}

void ModelPool::with(Entry& entry, std::function<void(Service, std::string)> ready) {
  entry.used = std::chrono::steady_clock::now();
  if (entry.service) return ready(entry.service, "");
  waiting_[&entry].push_back(std::move(ready));
  for (auto& e : entries_)
    if (e->loading) return;  // one at a time; the next one starts when it is done
  load(entry);
}

void ModelPool::load(Entry& entry) {
  entry.loading = true;
  if (loader_.joinable()) loader_.join();
  loader_ = std::thread([this, &entry] {
    Service service;
    std::string error;
    bool full = false;
    try {
      auto deliver = [this, id = entry.id](std::vector<pipelines::ServiceEvent> events) {
        deliver_(id, std::move(events));
      };
      runtime::RunOptions run = options_.run;
      run.adapters = entry.adapters;
      service = std::make_shared<TextService>(entry.path, run, options_.service, deliver);
    } catch (const Error& e) {
      error = e.what();
      full = e.code() == ErrorCode::does_not_fit;
    } catch (const std::exception& e) {
      error = e.what();
    }
    post_([this, &entry, service, error, full] { finish_load(entry, service, error, full); });
  });
}

// The least recently used model that nobody waits for.
bool ModelPool::unload_one() {
  Entry* oldest = nullptr;
  for (auto& e : entries_)
    if (e->service && e->service->open() == 0 && e->service.use_count() == 1 && (!oldest || e->used < oldest->used))
      oldest = e.get();
  if (!oldest) return false;
  log_info("unloading {}", oldest->id);
  oldest->service.reset();
  return true;
}

void ModelPool::finish_load(Entry& entry, Service service, std::string error, bool full) {
  entry.loading = false;
  if (!service && full && unload_one()) return load(entry);
  entry.service = service;
  entry.error = error;
  if (service) entry.load_s = service->load_s();
  auto waiting = std::exchange(waiting_[&entry], {});
  waiting_.erase(&entry);
  for (auto& ready : waiting) ready(service, error);
  if (!waiting_.empty() && !waiting_.begin()->first->loading) load(*waiting_.begin()->first);
}

}  // namespace tenon::server
