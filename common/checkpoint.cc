#include "common/checkpoint.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/hash.h"
#include "common/json_parse.h"
#include "common/manifest.h"
#include "common/status_macros.h"

namespace parapet {
namespace {

constexpr char kPartialSuffix[] = ".partial";
constexpr char kReplacedSuffix[] = ".replaced";
constexpr char kLatest[] = "latest";
constexpr int64_t kMaxLatestBytes = 4096;

std::string Join(const std::string& dir, absl::string_view name) {
  return absl::StrCat(dir, "/", name);
}

// The version in "step-000000000123" + suffix.
std::optional<uint64_t> VersionOf(absl::string_view name,
                                  absl::string_view suffix) {
  const absl::string_view whole = name;
  uint64_t version = 0;
  if (!absl::ConsumeSuffix(&name, suffix) ||
      !absl::ConsumePrefix(&name, "step-") ||
      !absl::SimpleAtoi(name, &version) ||
      absl::StrCat(SnapshotName(version), suffix) != whole) {
    return std::nullopt;
  }
  return version;
}

// ---- Checking.

absl::StatusOr<uint64_t> HashFile(const ReadableFile& file) {
  StreamingHash hash;
  std::vector<std::byte> buffer(
      static_cast<size_t>(std::min(file.size(), kDiskPiece)));
  for (int64_t at = 0; at < file.size(); at += kDiskPiece) {
    const int64_t count = std::min(kDiskPiece, file.size() - at);
    const absl::Span<std::byte> piece(buffer.data(),
                                      static_cast<size_t>(count));
    PARAPET_RETURN_IF_ERROR(file.Read(at, piece));
    hash.Update(piece);
  }
  return hash.Digest();
}

absl::StatusOr<Manifest> ReadManifest(Disk& disk, const std::string& path) {
  absl::StatusOr<std::string> text =
      ReadWholeFile(disk, path, kMaxManifestBytes);
  if (absl::IsResourceExhausted(text.status()))
    return absl::DataLossError(text.status().message());
  PARAPET_RETURN_IF_ERROR(text.status());
  absl::StatusOr<Manifest> manifest = ParseManifest(*text);
  if (manifest.ok()) return manifest;
  return absl::DataLossError(absl::StrCat(
      "'", path, "': ", PrintableText(manifest.status().message())));
}

// ---- Committing.

// Writes the manifest, and removes what an earlier attempt at this version may
// have left.
absl::Status CompletePartial(Disk& disk, const std::string& partial,
                             const Manifest& manifest) {
  PARAPET_ASSIGN_OR_RETURN(const std::string text, ManifestText(manifest));
  PARAPET_RETURN_IF_ERROR(
      WriteWholeFile(disk, Join(partial, kManifestName), text));
  PARAPET_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                           disk.List(partial));
  for (const std::string& name : names) {
    const bool listed =
        std::any_of(manifest.files.begin(), manifest.files.end(),
                    [&](const FileEntry& file) { return file.name == name; });
    if (listed || name == kManifestName) continue;
    PARAPET_RETURN_IF_ERROR(disk.RemoveAll(Join(partial, name)));
  }
  return disk.SyncDir(partial);
}

// Makes room for a snapshot of a version that is there already (the run went
// back and came here again). A good one must stay loadable until the new one is
// in its place.
absl::Status MoveAside(Disk& disk, const std::string& dir,
                       const std::string& name) {
  PARAPET_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                           disk.List(dir));
  if (!std::binary_search(names.begin(), names.end(), name))
    return absl::OkStatus();
  const std::string path = Join(dir, name), aside = path + kReplacedSuffix;
  const absl::Status state = OpenSnapshot(disk, path).status();
  if (absl::IsDataLoss(state) || absl::IsNotFound(state)) {
    PARAPET_RETURN_IF_ERROR(disk.RemoveAll(path));
  } else {
    PARAPET_RETURN_IF_ERROR(state);
    PARAPET_RETURN_IF_ERROR(disk.RemoveAll(aside));
    PARAPET_RETURN_IF_ERROR(disk.Rename(path, aside));
  }
  return disk.SyncDir(dir);
}

// Removes what is no longer needed. Goes on after an error, and collects them.
class Cleaner {
 public:
  Cleaner(Disk& disk, const std::string& dir,
          std::vector<std::string>* warnings)
      : disk_(disk), dir_(dir), warnings_(warnings) {}

  void Run(uint64_t version, int keep) {
    absl::StatusOr<std::vector<std::string>> names = disk_.List(dir_);
    Note(names.status());
    if (!names.ok()) return;
    const uint64_t oldest = OldestKept(*names, version, keep);
    for (const std::string& name : *names) Hide(name, version, oldest);
    Note(disk_.SyncDir(dir_));
    for (const std::string& path : doomed_) Note(disk_.RemoveAll(path));
  }

 private:
  void Note(const absl::Status& status) {
    if (!status.ok() && warnings_ != nullptr)
      warnings_->emplace_back(status.message());
  }

  // Snapshots above `version` are of a future that the run went back from:
  // neither counted nor removed.
  static uint64_t OldestKept(const std::vector<std::string>& names,
                             uint64_t version, int keep) {
    std::set<uint64_t, std::greater<>> versions;
    for (const std::string& name : names) {
      for (const char* suffix : {"", kReplacedSuffix}) {
        const std::optional<uint64_t> found = VersionOf(name, suffix);
        if (found && *found <= version) versions.insert(*found);
      }
    }
    auto at = versions.begin();
    for (int i = 1; i < keep && std::next(at) != versions.end(); ++i) ++at;
    return *at;
  }

  void Hide(const std::string& name, uint64_t version, uint64_t oldest) {
    const std::string path = Join(dir_, name);
    const auto partial = VersionOf(name, kPartialSuffix),
               replaced = VersionOf(name, kReplacedSuffix);
    const auto whole = VersionOf(name, "");
    if ((partial && *partial < version) ||
        (replaced && (*replaced < oldest || *replaced == version))) {
      doomed_.push_back(path);
    }
    if (!whole || *whole >= oldest) return;
    // First out of sight by a rename: removing is not atomic, and half a
    // snapshot must not be seen.
    const std::string hidden = path + kPartialSuffix;
    Note(disk_.RemoveAll(hidden));
    const absl::Status status = disk_.Rename(path, hidden);
    Note(status);
    if (status.ok()) doomed_.push_back(hidden);
  }

  Disk& disk_;
  const std::string& dir_;
  std::vector<std::string>* const warnings_;
  std::vector<std::string> doomed_;
};

// ---- Finding.

// The order in which to try them: first what `latest` names.
std::vector<std::string> Candidates(Disk& disk, const std::string& dir,
                                    std::vector<std::string> names,
                                    std::vector<std::string>& passed_over) {
  const absl::StatusOr<std::string> latest = ReadLatest(disk, dir);
  if (!latest.ok()) {
    if (!absl::IsNotFound(latest.status()))
      passed_over.emplace_back(latest.status().message());
    return names;
  }
  const auto middle = std::stable_partition(
      names.begin(), names.end(), [&](const std::string& name) {
        return name == *latest || name == *latest + kReplacedSuffix;
      });
  if (middle == names.begin()) {
    passed_over.push_back(absl::StrCat("'", Join(dir, kLatest), "' names ",
                                       *latest, ", which is not there"));
  }
  return names;
}

// A snapshot found by its name must be of the version in the name.
absl::StatusOr<Snapshot> OpenNamed(Disk& disk, const std::string& dir,
                                   const std::string& name) {
  PARAPET_ASSIGN_OR_RETURN(Snapshot snapshot,
                           OpenSnapshot(disk, Join(dir, name)));
  const std::string expected = SnapshotName(snapshot.manifest.version);
  if (name == expected || name == expected + kReplacedSuffix) return snapshot;
  return absl::DataLossError(
      absl::StrCat("'", snapshot.path, "' holds version ",
                   snapshot.manifest.version, ", not that of its name"));
}

}  // namespace

std::string SnapshotName(uint64_t version) {
  return absl::StrFormat("step-%012u", version);
}

std::string ServerFileName(int server) {
  return absl::StrCat("server-", server, ".safetensors");
}

std::string WorkerFileName(uint32_t worker) {
  return absl::StrCat("worker-", worker, ".safetensors");
}

std::string PartialPath(const std::string& dir, uint64_t version) {
  return absl::StrCat(dir, "/", SnapshotName(version), kPartialSuffix);
}

absl::Status CommitSnapshot(Disk& disk, const std::string& dir,
                            const Manifest& manifest, int keep,
                            std::vector<std::string>* warnings) {
  if (keep < 1)
    return absl::InvalidArgumentError("at least one snapshot must be kept");
  const std::string name = SnapshotName(manifest.version);
  const std::string partial = PartialPath(dir, manifest.version);
  PARAPET_RETURN_IF_ERROR(CompletePartial(disk, partial, manifest));
  // Read back before anything depends on it: `latest` never names a bad
  // snapshot, and no older one is removed for it.
  PARAPET_RETURN_IF_ERROR(OpenSnapshot(disk, partial).status());
  PARAPET_RETURN_IF_ERROR(MoveAside(disk, dir, name));
  PARAPET_RETURN_IF_ERROR(disk.Rename(partial, Join(dir, name)));
  PARAPET_RETURN_IF_ERROR(disk.SyncDir(dir));
  PARAPET_RETURN_IF_ERROR(ReplaceFile(disk, Join(dir, kLatest), name + "\n"));
  Cleaner(disk, dir, warnings).Run(manifest.version, keep);
  return absl::OkStatus();
}

absl::Status CheckFile(Disk& disk, const std::string& folder,
                       const FileEntry& entry) {
  const std::string path = Join(folder, entry.name);
  absl::StatusOr<std::unique_ptr<ReadableFile>> file = disk.Open(path);
  if (absl::IsNotFound(file.status())) {
    return absl::DataLossError(absl::StrCat("'", path, "' is missing"));
  }
  PARAPET_RETURN_IF_ERROR(file.status());
  if ((*file)->size() != entry.bytes) {
    return absl::DataLossError(
        absl::StrCat("'", path, "' has ", (*file)->size(), " bytes, not the ",
                     entry.bytes, " that the manifest says"));
  }
  PARAPET_ASSIGN_OR_RETURN(const uint64_t hash, HashFile(**file));
  if (hash == entry.hash) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "'", path, "' was altered: its hash is ", HexText(hash), ", not the ",
      HexText(entry.hash), " that the manifest says"));
}

absl::StatusOr<Snapshot> OpenSnapshot(Disk& disk, const std::string& path) {
  Snapshot snapshot;
  snapshot.path = path;
  PARAPET_ASSIGN_OR_RETURN(snapshot.manifest,
                           ReadManifest(disk, Join(path, kManifestName)));
  for (const FileEntry& entry : snapshot.manifest.files) {
    PARAPET_RETURN_IF_ERROR(CheckFile(disk, path, entry));
  }
  return snapshot;
}

absl::StatusOr<std::vector<std::string>> ListSnapshots(Disk& disk,
                                                       const std::string& dir) {
  PARAPET_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                           disk.List(dir));
  // By version, the newest first, and what was replaced after what replaced it.
  std::map<std::pair<uint64_t, bool>, std::string, std::greater<>> sorted;
  for (const std::string& name : names) {
    if (const auto whole = VersionOf(name, "")) sorted[{*whole, true}] = name;
    if (const auto replaced = VersionOf(name, kReplacedSuffix))
      sorted[{*replaced, false}] = name;
  }
  std::vector<std::string> result;
  for (auto& [key, name] : sorted) result.push_back(std::move(name));
  return result;
}

absl::StatusOr<std::string> ReadLatest(Disk& disk, const std::string& dir) {
  const std::string path = Join(dir, kLatest);
  PARAPET_ASSIGN_OR_RETURN(std::string text,
                           ReadWholeFile(disk, path, kMaxLatestBytes));
  absl::string_view name = text;
  absl::ConsumeSuffix(&name, "\n");
  if (VersionOf(name, "")) return std::string(name);
  return absl::DataLossError(absl::StrCat("'", path,
                                          "' does not name a snapshot but '",
                                          PrintableText(name, 100), "'"));
}

absl::StatusOr<Snapshot> FindSnapshot(Disk& disk, const std::string& dir,
                                      std::vector<std::string>* passed_over) {
  std::vector<std::string> unused;
  std::vector<std::string>& reasons =
      passed_over == nullptr ? unused : *passed_over;
  PARAPET_ASSIGN_OR_RETURN(std::vector<std::string> names,
                           ListSnapshots(disk, dir));
  for (const std::string& name :
       Candidates(disk, dir, std::move(names), reasons)) {
    absl::StatusOr<Snapshot> snapshot = OpenNamed(disk, dir, name);
    if (snapshot.ok()) return snapshot;
    reasons.push_back(absl::StrCat(name, ": ", snapshot.status().message()));
  }
  return absl::NotFoundError(
      absl::StrCat("there is no good snapshot in '", dir, "'"));
}

}  // namespace parapet
