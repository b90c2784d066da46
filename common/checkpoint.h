#ifndef PARAPET_COMMON_CHECKPOINT_H_
#define PARAPET_COMMON_CHECKPOINT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/disk.h"
#include "common/layout.h"

namespace parapet {

// Snapshots on disk. A snapshot of version v is a folder `step-%012d` in the snapshot folder:
//   server-<i>.safetensors   weights and optimizer moments of that server's chunks
//   worker-<k>.safetensors   momentum of a worker that has one
//   manifest.json            what belongs to it, with sizes and hashes, and the lead's state
// It is written as `step-%012d.partial` and renamed when all is synced; then `latest` (a one-line
// text file with the folder's name) is replaced. So a snapshot is visible whole or not at all.

// One kind of value for some ranges of the flat vector: "weights", "moment1", "moment2", "previous",
// "momentum". Values are float32.
struct Section {
  std::string name;
  std::vector<Range> ranges;          // ascending, not overlapping
  std::vector<const float*> values;   // one pointer a range; must stay valid during the call
};

// What the manifest says of a file.
struct FileEntry {
  std::string name;    // within the folder
  int64_t bytes = 0;
  uint64_t hash = 0;   // HashBytes over the content
  friend bool operator==(const FileEntry&, const FileEntry&) = default;
};

struct Manifest {
  uint64_t version = 0;      // rounds done
  uint64_t layout_hash = 0;
  std::vector<TensorSpec> tensors;   // name and shape, to export without the model
  std::string job;           // JobConfig::ToText
  uint64_t weights_hash = 0; // over the float32 weights in leaves
  uint64_t epoch = 0, position = 0;  // the cursor
  uint64_t term = 0;
  std::vector<FileEntry> files;
  std::string lead_state;    // JSON object text, opaque here
};

std::string SnapshotName(uint64_t version);                   // "step-000000000123"
std::string PartialPath(const std::string& dir, uint64_t version);

// Writes one safetensors file: each range of a section is cut at tensor boundaries and becomes a
// tensor "<section>/<tensor name>/<begin>-<end>" (elements within the tensor, flat) with metadata that
// says the layout hash. A tensor that is there whole keeps its own shape. Syncs it.
absl::StatusOr<FileEntry> WriteShardFile(Disk& disk, const std::string& folder, const std::string& name,
                                         const Layout& layout, const std::vector<Section>& sections);

// Writes the manifest into the partial folder, makes the snapshot visible, moves `latest`, then
// removes all but the newest `keep` snapshots and older partial folders. Failing leaves the former
// snapshots as they were.
absl::Status CommitSnapshot(Disk& disk, const std::string& dir, const Manifest& manifest, int keep);

// A snapshot that has been checked: every file of the manifest is there with its size and hash.
struct Snapshot {
  std::string path;   // its folder
  Manifest manifest;
};

// Opens one snapshot and checks it whole. DataLoss names the file and what is wrong with it.
absl::StatusOr<Snapshot> OpenSnapshot(Disk& disk, const std::string& path);

// The newest good snapshot in `dir`: the one `latest` names, then the others from the newest on.
// What was passed over, and why, is appended to `passed_over`. NotFound if there is none.
absl::StatusOr<Snapshot> FindSnapshot(Disk& disk, const std::string& dir,
                                      std::vector<std::string>* passed_over);

// Reads `range` of a section from whichever files hold it, in any shards. NotFound if some element is
// in none, DataLoss on torn files. `file_prefix` limits the search: "server-" or "worker-3.".
absl::Status ReadSection(Disk& disk, const Snapshot& snapshot, const Layout& layout,
                         const std::string& file_prefix, const std::string& section, Range range,
                         float* out);

// Joins a snapshot into one plain safetensors file with the model's tensors under their own names and
// shapes, as Python's safetensors opens it.
absl::Status ExportSnapshot(Disk& disk, const Snapshot& snapshot, const std::string& path);

}  // namespace parapet

#endif  // PARAPET_COMMON_CHECKPOINT_H_
