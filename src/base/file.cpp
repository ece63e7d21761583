#include "base/file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "base/error.h"

namespace tenon {
namespace {

// The handler may only read memory that never moves: a fixed table of live maps.
struct MapSlot {
  std::atomic<const std::byte*> begin{nullptr};
  std::atomic<size_t> size{0};
  char name[512] = {};
};
constexpr int kMapSlots = 4096;
MapSlot g_maps[kMapSlots];
std::mutex g_maps_mutex;
struct sigaction g_previous;

void on_sigbus(int signal, siginfo_t* info, void* context) {
  auto at = static_cast<const std::byte*>(info->si_addr);
  for (const MapSlot& slot : g_maps) {
    const std::byte* begin = slot.begin.load(std::memory_order_acquire);
    if (!begin || at < begin || at >= begin + slot.size.load(std::memory_order_relaxed)) continue;
    char line[700];
    int n = std::snprintf(
        line, sizeof line,
        "error: %s: the file was truncated or could not be read while it was in use; restore it and run again\n",
        slot.name);
    if (n > 0) (void)!write(STDERR_FILENO, line, static_cast<size_t>(n));
    _exit(1);
  }
  if (g_previous.sa_flags & SA_SIGINFO) {
    g_previous.sa_sigaction(signal, info, context);
  } else {
    ::signal(SIGBUS, SIG_DFL);
    raise(SIGBUS);
  }
}

int register_map(const std::byte* data, size_t size, const std::string& name) {
  static bool installed = [] {
    struct sigaction action = {};
    action.sa_sigaction = on_sigbus;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGBUS, &action, &g_previous) == 0;
  }();
  (void)installed;
  std::lock_guard lock(g_maps_mutex);
  for (int i = 0; i < kMapSlots; ++i) {
    if (g_maps[i].begin.load(std::memory_order_relaxed)) continue;
    std::snprintf(g_maps[i].name, sizeof g_maps[i].name, "%s", name.c_str());
    g_maps[i].size.store(size, std::memory_order_relaxed);
    g_maps[i].begin.store(data, std::memory_order_release);
    return i;
  }
  return -1;
}

// An open descriptor that closes itself.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

[[noreturn]] void fail_errno(const std::filesystem::path& path, const char* what) {
  ErrorCode code = errno == ENOENT || errno == ENOTDIR ? ErrorCode::not_found : ErrorCode::io;
  fail(code, "{}: {}: {}", printable(path.string(), 300), what, std::strerror(errno));
}

Descriptor open_regular(const std::filesystem::path& path, uint64_t& size) {
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) fail_errno(path, "cannot open");
  struct stat st;
  if (fstat(file.fd, &st) != 0) fail_errno(path, "cannot stat");
  if (!S_ISREG(st.st_mode)) fail(ErrorCode::io, "{}: not a regular file", printable(path.string(), 300));
  size = static_cast<uint64_t>(st.st_size);
  return {std::exchange(file.fd, -1)};
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  uint64_t size = 0;
  Descriptor file = open_regular(path, size);
  std::shared_ptr<MappedFile> map(new MappedFile);
  map->path_ = path;
  if (size == 0) return map;
  void* p = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd, 0);
  if (p == MAP_FAILED) fail_errno(path, "cannot map");
  map->data_ = static_cast<const std::byte*>(p);
  map->size_ = size;
  map->slot_ = register_map(map->data_, size, path.string());
  return map;
}

MappedFile::~MappedFile() {
  if (slot_ >= 0) g_maps[slot_].begin.store(nullptr, std::memory_order_release);
  if (data_) munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::drop(std::span<const std::byte> range) const noexcept {
  constexpr uintptr_t kPage = 4096;
  uintptr_t begin = (reinterpret_cast<uintptr_t>(range.data()) + kPage - 1) & ~(kPage - 1);
  uintptr_t end = (reinterpret_cast<uintptr_t>(range.data()) + range.size()) & ~(kPage - 1);
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

std::string read_file(const std::filesystem::path& path, uint64_t limit) {
  uint64_t size = 0;
  Descriptor file = open_regular(path, size);
  if (size > limit)
    fail(ErrorCode::invalid_file, "{}: {} bytes, more than the {} a file of this kind may have",
         printable(path.string(), 300), size, limit);
  std::string out(size, '\0');
  for (size_t at = 0; at < size;) {
    ssize_t n = ::read(file.fd, out.data() + at, size - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno(path, "cannot read");
    if (n == 0) fail(ErrorCode::io, "{}: the file shrank while it was read", printable(path.string(), 300));
    at += static_cast<size_t>(n);
  }
  return out;
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  std::string temporary = path.string() + ".tmp" + std::to_string(getpid());
  {
    Descriptor file{::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
    if (file.fd < 0) fail_errno(temporary, "cannot create");
    for (size_t at = 0; at < content.size();) {
      ssize_t n = ::write(file.fd, content.data() + at, content.size() - at);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail_errno(temporary, "cannot write");
      at += static_cast<size_t>(n);
    }
  }
  std::error_code ec;
  std::filesystem::rename(temporary, path, ec);
  if (ec) fail(ErrorCode::io, "{}: cannot rename over it: {}", printable(path.string(), 300), ec.message());
}

}  // namespace tenon
