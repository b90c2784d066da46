#ifndef PARAPET_COMMON_MEMORY_DISK_H_
#define PARAPET_COMMON_MEMORY_DISK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/disk.h"
#include "common/mutex.h"
#include "common/rng.h"

namespace parapet {

// A file system in memory, for tests: it fails, tears and forgets on request.
// Every call of a Disk, of a file being written and of a file being read is one
// operation. "." and ".." are not understood.
class MemoryDisk : public Disk {
 public:
  MemoryDisk();
  ~MemoryDisk() override;

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(
      const std::string& path) override;
  absl::StatusOr<std::unique_ptr<ReadableFile>> Open(
      const std::string& path) override;
  absl::Status MakeDir(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(
      const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status SyncDir(const std::string& path) override;
  absl::Status RemoveAll(const std::string& path) override;

  // Operations so far, those that failed included.
  int64_t operations() const;
  // The operation after `n` more fails without effect (Internal), once.
  void FailAfter(int64_t n);
  // `n` more operations work, then none until Crash.
  void StopAfter(int64_t n);
  // Takes back FailAfter and StopAfter.
  void ClearFaults();
  // Append fails (ResourceExhausted), after writing what fits, once all files
  // have so many bytes.
  void SetCapacity(int64_t bytes);

  // The power fails and comes back. A file that was not synced is cut at a
  // random place, perhaps with zeros where it had bytes. Of the entries of each
  // folder that were made, renamed or removed since its last SyncDir, a random
  // choice (the first few, or any) has happened and the rest has not. Open
  // files fail from now on.
  void Crash(uint64_t seed);

  // What a bad medium does. Each returns false if there is no such file or
  // byte. Not operations.
  bool FlipBits(const std::string& path, int64_t offset, uint8_t mask);
  bool Truncate(const std::string& path, int64_t size);

 private:
  class Writer;
  class Reader;
  struct Node;
  using NodePtr = std::shared_ptr<Node>;

  // Counts one operation and says whether it is to work.
  absl::Status Enter(absl::string_view what, const std::string& path)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  NodePtr Find(const std::string& path) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // The folder that holds `path`, and its last name; NotFound if there is no
  // such folder.
  absl::StatusOr<std::pair<NodePtr, std::string>> FindParent(
      const std::string& path) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  absl::Status AppendTo(Node& node, uint64_t life, const std::string& path,
                        absl::Span<const std::byte> bytes);
  absl::Status Sync(Node& node, uint64_t life, const std::string& path);
  absl::Status ReadFrom(const Node& node, uint64_t life,
                        const std::string& path, int64_t offset,
                        absl::Span<std::byte> out);

  mutable Mutex mutex_;
  NodePtr root_ ABSL_GUARDED_BY(mutex_);
  uint64_t life_ ABSL_GUARDED_BY(mutex_) =
      0;  // counts crashes: an open file belongs to one life
  int64_t operations_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t fail_at_ ABSL_GUARDED_BY(mutex_) = -1;
  int64_t stop_at_ ABSL_GUARDED_BY(mutex_) = -1;
  int64_t capacity_ ABSL_GUARDED_BY(mutex_) = int64_t{1} << 40;
};

}  // namespace parapet

#endif  // PARAPET_COMMON_MEMORY_DISK_H_
