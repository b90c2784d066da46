#include "server/audit_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/audit.h"

namespace parapet {
class AuditWriter::File {
 public:
  File(Disk* disk, std::string path, int64_t max_bytes)
      : disk_(*disk), path_(std::move(path)), max_bytes_(max_bytes) {}

  // Moves what is there out of the way and begins anew.
  absl::Status Begin() {
    if (file_ != nullptr) PARAPET_RETURN_IF_ERROR(Close());
    PARAPET_RETURN_IF_ERROR(MoveOlder());
    PARAPET_ASSIGN_OR_RETURN(file_, disk_.Create(path_));
    bytes_ = 0;
    torn_ = false;
    return absl::OkStatus();
  }

  // Whole lines. After a failure some may be there, and the next write begins
  // on a line of its own.
  absl::Status Append(const std::string& lines) {
    if (file_ == nullptr || bytes_ >= max_bytes_)
      PARAPET_RETURN_IF_ERROR(Begin());
    const std::string text = torn_ ? absl::StrCat("\n", lines) : lines;
    const absl::Status status = file_->Append(
        {reinterpret_cast<const std::byte*>(text.data()), text.size()});
    torn_ = !status.ok();
    bytes_ += static_cast<int64_t>(text.size());
    return status;
  }

 private:
  // Makes room for a file, and only if there is one in the way: a disk on which
  // no new file can be made shall not cost an old one with every try.
  absl::Status MoveOlder() {
    int free = 0;
    while (free < kOlderAuditFiles && Exists(Older(free))) ++free;
    for (int i = free - 1; i >= 0; --i)
      PARAPET_RETURN_IF_ERROR(disk_.Rename(Older(i), Older(i + 1)));
    return absl::OkStatus();
  }

  bool Exists(const std::string& path) {
    return !absl::IsNotFound(disk_.Open(path).status());
  }

  std::string Older(int i) const {
    return i == 0 ? path_ : absl::StrCat(path_, ".", i);
  }

  absl::Status Close() {
    const absl::Status status = file_->SyncAndClose();
    file_.reset();
    return status;
  }

  Disk& disk_;
  const std::string path_;
  const int64_t max_bytes_;
  std::unique_ptr<WritableFile> file_;
  int64_t bytes_ = 0;
  bool torn_ = false;
};

absl::StatusOr<std::unique_ptr<AuditWriter>> AuditWriter::Create(
    const Options& options, Disk* disk, std::unique_ptr<Executor> executor,
    std::function<void(const std::string&)> warn) {
  auto file = std::make_shared<File>(disk, options.path, options.max_bytes);
  PARAPET_RETURN_IF_ERROR(file->Begin());
  if (!options.first_line.empty()) {
    PARAPET_RETURN_IF_ERROR(
        file->Append(absl::StrCat(options.first_line, "\n")));
  }
  std::unique_ptr<AuditWriter> writer(
      new AuditWriter(options, std::move(executor), std::move(warn)));
  writer->file_ = std::move(file);
  return writer;
}

AuditWriter::AuditWriter(const Options& options,
                         std::unique_ptr<Executor> executor,
                         std::function<void(const std::string&)> warn)
    : options_(options),
      warn_(std::move(warn)),
      executor_(std::move(executor)) {}

void AuditWriter::Add(std::string line) {
  if (pending_.size() < options_.max_pending) {
    pending_.push_back(std::move(line));
  } else {
    ++lost_;
  }
  if (!writing_) Write();
}

void AuditWriter::Turn() {
  executor_->RunDone();
  if (!writing_ && (!pending_.empty() || (lost_ > 0 && !failing_))) Write();
}

void AuditWriter::Write() {
  struct Batch {
    std::string text;
    absl::Status status;
  };
  auto batch = std::make_shared<Batch>();
  const size_t lines = pending_.size();
  const uint64_t lost = std::exchange(lost_, 0);
  // What was left out came after what waited.
  for (const std::string& line : pending_)
    absl::StrAppend(&batch->text, line, "\n");
  if (lost > 0) absl::StrAppend(&batch->text, AuditLostLine(lost), "\n");
  pending_.clear();
  writing_ = true;
  executor_->Submit(
      [file = file_, batch] { batch->status = file->Append(batch->text); },
      [this, batch, lines, lost] { Wrote(lines, lost, batch->status); });
}

void AuditWriter::Wrote(size_t lines, uint64_t lost,
                        const absl::Status& status) {
  writing_ = false;
  if (!status.ok()) {
    // Tried again with the next line, not before: a full disk stays full.
    lost_ += lines + lost;
    if (!std::exchange(failing_, true)) {
      warn_(absl::StrCat("the account of ", lines,
                         " rounds is lost: ", status.message()));
    }
    if (pending_.empty()) return;
  } else {
    failing_ = false;
  }
  if (!pending_.empty()) Write();
}

}  // namespace parapet
