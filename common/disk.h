#ifndef PARAPET_COMMON_DISK_H_
#define PARAPET_COMMON_DISK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace parapet {

// A file being written, from its beginning. Not thread-safe.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual absl::Status Append(absl::Span<const std::byte> bytes) = 0;
  // Flushes to the medium (fsync) and closes. Without it the file may be lost or short.
  virtual absl::Status SyncAndClose() = 0;
};

// A file being read at any position. Thread-safe.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual int64_t size() const = 0;
  // Reads exactly out.size() bytes from `offset`; DataLoss if the file is shorter.
  virtual absl::Status Read(int64_t offset, absl::Span<std::byte> out) const = 0;
};

// The file system as snapshots need it, passed in so that tests can make it fail, tear and forget.
// Paths are the system's. Errors name the path and the system's reason. Thread-safe.
class Disk {
 public:
  virtual ~Disk() = default;
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;
  virtual absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) = 0;
  // Creates a folder and its parents; one that is there already is fine.
  virtual absl::Status MakeDir(const std::string& path) = 0;
  // Names in a folder, sorted; NotFound if there is no such folder.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) = 0;
  // Atomic; replaces a file (not a folder that is not empty).
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // Makes creations and renames inside a folder lasting (fsync of the folder).
  virtual absl::Status SyncDir(const std::string& path) = 0;
  virtual absl::Status RemoveAll(const std::string& path) = 0;
};

// The real one. The caller owns it.
std::unique_ptr<Disk> MakePosixDisk();


// Whole small files.
absl::Status WriteWholeFile(Disk& disk, const std::string& path, absl::string_view content);  // synced
absl::StatusOr<std::string> ReadWholeFile(Disk& disk, const std::string& path, int64_t max_bytes);

}  // namespace parapet

#endif  // PARAPET_COMMON_DISK_H_
