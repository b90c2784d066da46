#ifndef PARAPET_COMMON_DISK_H_
#define PARAPET_COMMON_DISK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace parapet {

// Large files are read, written and hashed in pieces of this many bytes.
inline constexpr int64_t kDiskPiece = int64_t{4} << 20;

// A file being written, from its beginning. Not thread-safe.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual absl::Status Append(absl::Span<const std::byte> bytes) = 0;
  // Flushes to the medium (fsync) and closes. Without it the file may be lost
  // or short.
  virtual absl::Status SyncAndClose() = 0;
};

// A file being read at any position. Thread-safe.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual int64_t size() const = 0;
  // Reads exactly out.size() bytes from `offset`; DataLoss if the file is
  // shorter.
  virtual absl::Status Read(int64_t offset,
                            absl::Span<std::byte> out) const = 0;
};

// The file system as snapshots need it, passed in so that tests can make it
// fail, tear and forget. Paths are the system's. Errors name the path and the
// system's reason. Thread-safe.
class Disk {
 public:
  virtual ~Disk() = default;
  // A file that is there already is emptied.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(
      const std::string& path) = 0;
  // NotFound if there is no such file; InvalidArgument if it is not a plain
  // file.
  virtual absl::StatusOr<std::unique_ptr<ReadableFile>> Open(
      const std::string& path) = 0;
  // Creates a folder and its parents, lastingly; one that is there already is
  // fine.
  virtual absl::Status MakeDir(const std::string& path) = 0;
  // Names in a folder, sorted; NotFound if there is no such folder.
  virtual absl::StatusOr<std::vector<std::string>> List(
      const std::string& path) = 0;
  // Atomic; replaces a file (not a folder that is not empty).
  virtual absl::Status Rename(const std::string& from,
                              const std::string& to) = 0;
  // Makes creations and renames inside a folder lasting (fsync of the folder).
  virtual absl::Status SyncDir(const std::string& path) = 0;
  // Removes a file, or a folder with what is in it; one that is not there is
  // fine.
  virtual absl::Status RemoveAll(const std::string& path) = 0;
};

// The real one. The caller owns it.
std::unique_ptr<Disk> MakePosixDisk();

// The folder that holds `path`: "." for a plain name, "/" for what is in the
// root.
std::string ParentPath(const std::string& path);

// Whole small files.
absl::Status WriteWholeFile(Disk& disk, const std::string& path,
                            absl::string_view content);  // synced
// ResourceExhausted if the file is larger than `max_bytes`.
absl::StatusOr<std::string> ReadWholeFile(Disk& disk, const std::string& path,
                                          int64_t max_bytes);
// As WriteWholeFile, but a reader, or a crash, finds either the former content
// or the new one, whole. Uses `path`.tmp.
absl::Status ReplaceFile(Disk& disk, const std::string& path,
                         absl::string_view content);

}  // namespace parapet

#endif  // PARAPET_COMMON_DISK_H_
