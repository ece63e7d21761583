#include "formats/safetensors_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/checked.h"
#include "base/json.h"

namespace tenon::formats {

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<Tensor> tensors)
    : path_(path.string()) {
  Json header = Json::object();
  uint64_t at = 0;
  for (const Tensor& t : tensors) {
    uint64_t n = bytes_for(t.dtype, checked_elements(t.shape, t.name), t.name);
    header[t.name] = {{"dtype", name(t.dtype)}, {"shape", t.shape}, {"data_offsets", {at, at + n}}};
    begin_.push_back(at);
    size_.push_back(n);
    at += n;
  }
  std::string text = header.dump();
  text.append(round_up(text.size(), 8) - text.size(), ' ');
  uint64_t n = text.size();
  std::string head(8, '\0');
  std::memcpy(head.data(), &n, 8);
  head += text;
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) fail(ErrorCode::io, "{}: cannot create: {}", printable(path_, 300), std::strerror(errno));
  for (uint64_t& b : begin_) b += head.size();
  begin_.push_back(0);  // the header, written like a tensor
  size_.push_back(head.size());
  write(begin_.size() - 1, 0, std::as_bytes(std::span(head)));
}

SafetensorsWriter::~SafetensorsWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void SafetensorsWriter::write(size_t index, uint64_t offset, std::span<const std::byte> bytes) {
  TENON_CHECK(index < begin_.size() && offset + bytes.size() <= size_[index]);
  uint64_t at = begin_[index] + offset;
  while (!bytes.empty()) {
    ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail(ErrorCode::io, "{}: cannot write: {}", printable(path_, 300), std::strerror(errno));
    bytes = bytes.subspan(static_cast<size_t>(n));
    at += static_cast<uint64_t>(n);
  }
}

}  // namespace tenon::formats
