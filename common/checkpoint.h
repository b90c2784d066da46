#ifndef PARAPET_COMMON_CHECKPOINT_H_
#define PARAPET_COMMON_CHECKPOINT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/disk.h"
#include "common/layout.h"
#include "common/safetensors.h"

namespace parapet {

// Snapshots on disk. A snapshot of version v is a folder `step-%012d` in the
// snapshot folder:
//   server-<i>.safetensors   weights and optimizer moments of that server's
//   chunks worker-<k>.safetensors   momentum of a worker that has one
//   manifest.json            what belongs to it, with sizes and hashes, and the
//   lead's state
// It is written as `step-%012d.partial` and renamed when all is synced; then
// `latest` (a one-line text file with the folder's name) is replaced. So a
// snapshot is visible whole or not at all.

// One kind of value for some ranges of the flat vector: "weights", "moment1",
// "moment2", "previous", "momentum". Values are float32.
struct Section {
  std::string name;
  std::vector<Range> ranges;  // ascending, not overlapping
  std::vector<const float*>
      values;  // one pointer a range; must stay valid during the call
};

// What the manifest says of a file.
struct FileEntry {
  std::string name;  // within the folder
  int64_t bytes = 0;
  uint64_t hash = 0;  // HashBytes over the content
  friend bool operator==(const FileEntry&, const FileEntry&) = default;
};

struct Manifest {
  uint64_t version = 0;  // rounds done
  uint64_t layout_hash = 0;
  std::vector<TensorSpec>
      tensors;                // name and shape, to export without the model
  std::string job;            // JobConfig::ToText
  uint64_t weights_hash = 0;  // over the float32 weights in leaves
  uint64_t epoch = 0, position = 0;  // the cursor
  uint64_t term = 0;
  std::vector<FileEntry> files;
  std::string lead_state;  // JSON object text, opaque here
};

std::string SnapshotName(uint64_t version);   // "step-000000000123"
std::string ServerFileName(int server);       // "server-0.safetensors"
std::string WorkerFileName(uint32_t worker);  // "worker-3.safetensors"
std::string PartialPath(const std::string& dir, uint64_t version);

// Writes one safetensors file: each range of a section is cut at tensor
// boundaries and becomes a tensor "<section>/<tensor name>/<begin>-<end>"
// (elements within the tensor, flat) with metadata that says the layout hash. A
// tensor that is there whole keeps its own shape. Makes the folder if need be,
// replaces a file of that name, and syncs it. A section's name is of [a-z0-9_],
// a file's of [A-Za-z0-9._-] and ends with ".safetensors" (InvalidArgument).
// Needs no memory for the values.
absl::StatusOr<FileEntry> WriteShardFile(Disk& disk, const std::string& folder,
                                         const std::string& name,
                                         const Layout& layout,
                                         const std::vector<Section>& sections);

// Writes the manifest into the partial folder, reads the whole snapshot back to
// check it, makes it visible, moves `latest`, then removes older partial
// folders and, of the snapshots up to this one, all but the newest `keep` (at
// least 1). Files that the manifest does not name are removed. A snapshot of
// the same version is replaced; while that goes on it is `step-%012d.replaced`.
// Failing leaves the former snapshots as they were, or this one visible without
// `latest` naming it. What could not be removed at the end is no failure: it is
// named in `warnings` and tried again at the next commit.
absl::Status CommitSnapshot(Disk& disk, const std::string& dir,
                            const Manifest& manifest, int keep,
                            std::vector<std::string>* warnings = nullptr);

// Whether a file in a folder has the size and the hash that are claimed for it;
// reads it all. DataLoss, naming the file, if it has not or is not there.
absl::Status CheckFile(Disk& disk, const std::string& folder,
                       const FileEntry& entry);

// A snapshot that has been checked: every file of the manifest is there with
// its size and hash.
struct Snapshot {
  std::string path;  // its folder
  Manifest manifest;
};

// Opens one snapshot and checks it whole, reading every file. DataLoss names
// the file and what is wrong with it; NotFound if the folder has no manifest.
absl::StatusOr<Snapshot> OpenSnapshot(Disk& disk, const std::string& path);

// The names of the visible snapshots in `dir`, good or not, the newest first.
// NotFound if there is no such folder.
absl::StatusOr<std::vector<std::string>> ListSnapshots(Disk& disk,
                                                       const std::string& dir);

// The name that `latest` holds. NotFound if there is no such file, DataLoss if
// it names no snapshot.
absl::StatusOr<std::string> ReadLatest(Disk& disk, const std::string& dir);

// The newest good snapshot in `dir`: the one `latest` names, then the others
// from the newest on. What was passed over, and why, is appended to
// `passed_over`. NotFound if there is none.
absl::StatusOr<Snapshot> FindSnapshot(Disk& disk, const std::string& dir,
                                      std::vector<std::string>* passed_over);

// The values in those files of a snapshot whose names begin with a prefix
// ("server-" or "worker-3."), with their headers read once. Thread-safe.
class SectionReader {
 public:
  // `layout` must outlive the reader. InvalidArgument if the snapshot is of
  // another layout, DataLoss on torn files and on elements that are in two of
  // them.
  static absl::StatusOr<SectionReader> Create(Disk& disk,
                                              const Snapshot& snapshot,
                                              const Layout& layout,
                                              const std::string& file_prefix);
  // Whether there is any element of that section.
  bool Has(const std::string& section) const {
    return pieces_.contains(section);
  }
  // Writes range.size() values to `out`. NotFound, naming the element, if one
  // is in no file.
  absl::Status Read(const std::string& section, Range range, float* out) const;

 private:
  struct Piece {
    Range range;
    size_t file;
    size_t tensor;  // of that file
  };

  absl::Status AddFile(
      Disk& disk, const std::string& path,
      const absl::flat_hash_map<std::string, const Tensor*>& by_name);
  absl::Status SortPieces();

  const Layout* layout_ = nullptr;
  std::vector<SafetensorsReader> files_;
  absl::flat_hash_map<std::string, std::vector<Piece>>
      pieces_;  // by section, ascending
};

// Reads `range` of a section from whichever files hold it, in any shards: a
// SectionReader for one use. NotFound if some element is in none, DataLoss on
// torn files. `file_prefix` limits the search.
absl::Status ReadSection(Disk& disk, const Snapshot& snapshot,
                         const Layout& layout, const std::string& file_prefix,
                         const std::string& section, Range range, float* out);

// Joins a snapshot into one plain safetensors file with the model's tensors
// under their own names and shapes, as Python's safetensors opens it.
absl::Status ExportSnapshot(Disk& disk, const Snapshot& snapshot,
                            const std::string& path);

}  // namespace parapet

#endif  // PARAPET_COMMON_CHECKPOINT_H_
