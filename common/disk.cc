#include "common/disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace parapet {
namespace {

absl::Status SystemError(absl::string_view what, const std::string& path) {
  return absl::ErrnoToStatus(errno,
                             absl::StrCat("cannot ", what, " '", path, "'"));
}

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

Descriptor OpenDescriptor(const std::string& path, int flags) {
  int fd;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  } while (fd < 0 && errno == EINTR);
  return Descriptor(fd);
}

int SyncDescriptor(int fd) {
  int result;
  do {
    result = ::fsync(fd);
  } while (result != 0 && errno == EINTR);
  return result;
}

class PosixWritableFile : public WritableFile {
 public:
  PosixWritableFile(std::string path, Descriptor fd)
      : path_(std::move(path)), fd_(std::move(fd)) {}

  absl::Status Append(absl::Span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t done = ::write(fd_.get(), bytes.data(), bytes.size());
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) return SystemError("write", path_);
      bytes.remove_prefix(static_cast<size_t>(done));
    }
    return absl::OkStatus();
  }

  absl::Status SyncAndClose() override {
    if (SyncDescriptor(fd_.get()) != 0) return SystemError("sync", path_);
    // Linux frees the descriptor whatever close says, so it is never tried
    // again.
    if (::close(fd_.release()) != 0) return SystemError("close", path_);
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  Descriptor fd_;
};

class PosixReadableFile : public ReadableFile {
 public:
  PosixReadableFile(std::string path, Descriptor fd, int64_t size)
      : path_(std::move(path)), fd_(std::move(fd)), size_(size) {}

  int64_t size() const override { return size_; }

  absl::Status Read(int64_t offset, absl::Span<std::byte> out) const override {
    while (!out.empty()) {
      const ssize_t done = ::pread(fd_.get(), out.data(), out.size(), offset);
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) return SystemError("read", path_);
      if (done == 0) {
        return absl::DataLossError(absl::StrCat("'", path_, "' ends at byte ",
                                                offset, ", ", out.size(),
                                                " bytes too early"));
      }
      out.remove_prefix(static_cast<size_t>(done));
      offset += done;
    }
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  const Descriptor fd_;
  const int64_t size_;
};

class PosixDisk : public Disk {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(
      const std::string& path) override {
    Descriptor fd = OpenDescriptor(path, O_WRONLY | O_CREAT | O_TRUNC);
    if (fd.get() < 0) return SystemError("create", path);
    return std::make_unique<PosixWritableFile>(path, std::move(fd));
  }

  absl::StatusOr<std::unique_ptr<ReadableFile>> Open(
      const std::string& path) override {
    // O_NONBLOCK: opening a pipe that nobody writes would wait for ever.
    Descriptor fd = OpenDescriptor(path, O_RDONLY | O_NONBLOCK);
    if (fd.get() < 0) return SystemError("open", path);
    struct stat info;
    if (::fstat(fd.get(), &info) != 0) return SystemError("examine", path);
    if (!S_ISREG(info.st_mode)) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", path, "' is not a plain file"));
    }
    return std::make_unique<PosixReadableFile>(path, std::move(fd),
                                               info.st_size);
  }

  absl::Status MakeDir(const std::string& path) override {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) return absl::OkStatus();
    const std::string parent = ParentPath(path);
    if (parent != path) PARAPET_RETURN_IF_ERROR(MakeDir(parent));
    if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST)
      return SystemError("create", path);
    // EEXIST may also mean a file, or a link to nothing.
    if (!std::filesystem::is_directory(path, error)) {
      return absl::AlreadyExistsError(
          absl::StrCat("'", path, "' is there but is not a folder"));
    }
    return SyncDir(parent);
  }

  absl::StatusOr<std::vector<std::string>> List(
      const std::string& path) override {
    std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()),
                                               ::closedir);
    if (folder == nullptr) return SystemError("list", path);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(folder.get())) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    if (errno != 0) return SystemError("list", path);
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    return SystemError(absl::StrCat("rename '", from, "' to"), to);
  }

  absl::Status SyncDir(const std::string& path) override {
    Descriptor fd = OpenDescriptor(path, O_RDONLY | O_DIRECTORY);
    if (fd.get() < 0) return SystemError("open", path);
    // EINVAL: a file system whose folders cannot be synced, because it has no
    // need to.
    if (SyncDescriptor(fd.get()) != 0 && errno != EINVAL)
      return SystemError("sync", path);
    return absl::OkStatus();
  }

  absl::Status RemoveAll(const std::string& path) override {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (!error) return absl::OkStatus();
    return absl::ErrnoToStatus(error.value(),
                               absl::StrCat("cannot remove '", path, "'"));
  }
};

}  // namespace

std::unique_ptr<Disk> MakePosixDisk() { return std::make_unique<PosixDisk>(); }

std::string ParentPath(const std::string& path) {
  const size_t last = path.find_last_not_of('/');
  if (last == std::string::npos) return path.empty() ? "." : "/";
  const size_t slash = path.find_last_of('/', last);
  if (slash == std::string::npos) return ".";
  const size_t end = path.find_last_not_of('/', slash);
  return end == std::string::npos ? "/" : path.substr(0, end + 1);
}

absl::Status WriteWholeFile(Disk& disk, const std::string& path,
                            absl::string_view content) {
  PARAPET_ASSIGN_OR_RETURN(auto file, disk.Create(path));
  const auto* bytes = reinterpret_cast<const std::byte*>(content.data());
  PARAPET_RETURN_IF_ERROR(file->Append({bytes, content.size()}));
  return file->SyncAndClose();
}

absl::StatusOr<std::string> ReadWholeFile(Disk& disk, const std::string& path,
                                          int64_t max_bytes) {
  PARAPET_ASSIGN_OR_RETURN(auto file, disk.Open(path));
  if (file->size() > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("'", path, "' has ", file->size(),
                     " bytes, more than the ", max_bytes, " allowed"));
  }
  std::string content(static_cast<size_t>(file->size()), '\0');
  auto* bytes = reinterpret_cast<std::byte*>(content.data());
  PARAPET_RETURN_IF_ERROR(file->Read(0, {bytes, content.size()}));
  return content;
}

absl::Status ReplaceFile(Disk& disk, const std::string& path,
                         absl::string_view content) {
  const std::string temporary = path + ".tmp";
  PARAPET_RETURN_IF_ERROR(WriteWholeFile(disk, temporary, content));
  PARAPET_RETURN_IF_ERROR(disk.Rename(temporary, path));
  return disk.SyncDir(ParentPath(path));
}

}  // namespace parapet
