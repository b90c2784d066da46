#ifndef PARAPET_SERVER_AUDIT_WRITER_H_
#define PARAPET_SERVER_AUDIT_WRITER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/disk.h"
#include "common/executor.h"

namespace parapet {

// How many files a full one becomes in turn: PATH.1, the newest, to PATH.3.
inline constexpr int kOlderAuditFiles = 3;

// Writes lines to a file without holding up whoever has them. A file that has
// reached its size becomes PATH.1, PATH.1 becomes PATH.2, and so on up to
// PATH.3; the oldest goes. So does a file that is there at the start: nothing
// that was written is overwritten. If the disk does not keep up or fails, lines
// are left out and a line says how many.
//
// One thread calls everything; the disk is used on the executor's.
class AuditWriter {
 public:
  struct Options {
    std::string path;
    std::string first_line = {};  // without its end; empty: none
    int64_t max_bytes = int64_t{64} << 20;
    // Lines that wait for the disk.
    size_t max_pending = 4096;
  };

  // Begins the file with the first line, so that one that cannot be written is
  // known at once. The
  // disk must outlive the writer. `warn` gets what goes wrong, once until it
  // goes right again.
  static absl::StatusOr<std::unique_ptr<AuditWriter>> Create(
      const Options& options, Disk* disk, std::unique_ptr<Executor> executor,
      std::function<void(const std::string&)> warn);

  // A line, without its end.
  void Add(std::string line);
  // Call now and then: takes what the executor has done.
  void Turn();
  // Whether everything is written, or given up.
  bool idle() const {
    return !writing_ && pending_.empty() && (lost_ == 0 || failing_);
  }

 private:
  // What the executor's thread works with; the owner leaves it alone meanwhile.
  class File;

  AuditWriter(const Options& options, std::unique_ptr<Executor> executor,
              std::function<void(const std::string&)> warn);
  void Write();
  void Wrote(size_t lines, uint64_t lost, const absl::Status& status);

  const Options options_;
  const std::function<void(const std::string&)> warn_;
  std::shared_ptr<File> file_;
  std::vector<std::string> pending_;
  uint64_t lost_ = 0;  // lines left out that no line tells of yet
  bool writing_ = false, failing_ = false;
  const std::unique_ptr<Executor> executor_;  // ends first
};

}  // namespace parapet

#endif  // PARAPET_SERVER_AUDIT_WRITER_H_
