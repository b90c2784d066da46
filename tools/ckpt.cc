#include "tools/ckpt.h"

#include <algorithm>
#include <iostream>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/checkpoint.h"
#include "common/flags.h"
#include "common/json_parse.h"
#include "common/manifest.h"
#include "common/status_macros.h"
#include "tools/command_line.h"

namespace parapet {
namespace {

constexpr size_t kMaxLine = 4096;
constexpr int kBadData = 5;

int CodeFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitDone;
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kInvalidArgument:
      return kBadData;
    default:
      return kExitFailed;
  }
}

// Text from a file, for a terminal: a name must not be able to move the cursor.
std::string Printable(absl::string_view text) {
  return PrintableText(text, kMaxLine);
}

void PrintFiles(const std::vector<FileEntry>& files, std::ostream& out) {
  const auto servers =
      std::count_if(files.begin(), files.end(), [](const FileEntry& file) {
        return absl::StartsWith(file.name, "server-");
      });
  out << "servers:       " << servers << "\nfiles:         " << files.size()
      << "\n";
  for (const FileEntry& file : files) {
    out << "  " << file.name << "  " << file.bytes << " bytes  hash "
        << HexText(file.hash) << "\n";
  }
}

void PrintTensors(const Layout& layout, std::ostream& out) {
  out << "tensors:       " << layout.tensors().size() << ", "
      << layout.elements() << " elements\n";
  for (const Tensor& tensor : layout.tensors()) {
    out << "  " << Printable(tensor.name) << "  ["
        << absl::StrJoin(tensor.shape, ", ") << "]  " << tensor.elements
        << "\n";
  }
}

absl::Status PrintSnapshot(const Snapshot& snapshot, std::ostream& out) {
  const Manifest& manifest = snapshot.manifest;
  PARAPET_ASSIGN_OR_RETURN(const Layout layout,
                           Layout::Create(manifest.tensors));
  out << "snapshot:      " << Printable(snapshot.path)
      << "\nversion:       " << manifest.version
      << "\nepoch:         " << manifest.epoch
      << "\nposition:      " << manifest.position
      << "\nterm:          " << manifest.term
      << "\nlayout hash:   " << HexText(manifest.layout_hash)
      << "\nweights hash:  " << HexText(manifest.weights_hash) << "\n";
  PrintFiles(manifest.files, out);
  PrintTensors(layout, out);
  out << "job:\n";
  for (absl::string_view line : absl::StrSplit(manifest.job, '\n')) {
    if (!line.empty()) out << "  " << Printable(line) << "\n";
  }
  return absl::OkStatus();
}

// Every snapshot in `dir`, checked.
absl::Status PrintList(Disk& disk, const std::string& dir, std::ostream& out) {
  PARAPET_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                           ListSnapshots(disk, dir));
  const absl::StatusOr<std::string> latest = ReadLatest(disk, dir);
  if (absl::IsDataLoss(latest.status()))
    out << Printable(latest.status().message()) << "\n";
  for (const std::string& name : names) {
    const absl::Status state =
        OpenSnapshot(disk, absl::StrCat(dir, "/", name)).status();
    out << name << (latest.ok() && *latest == name ? " (latest): " : ": ")
        << (state.ok() ? "good"
                       : absl::StrCat("bad: ", Printable(state.message())))
        << "\n";
  }
  out << "\n";
  return absl::OkStatus();
}

absl::StatusOr<bool> IsSnapshotFolder(Disk& disk, const std::string& path) {
  PARAPET_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                           disk.List(path));
  return std::binary_search(names.begin(), names.end(),
                            std::string(kManifestName));
}

absl::StatusOr<Snapshot> OpenEither(Disk& disk, const std::string& path,
                                    std::ostream& err) {
  PARAPET_ASSIGN_OR_RETURN(const bool single, IsSnapshotFolder(disk, path));
  if (single) return OpenSnapshot(disk, path);
  std::vector<std::string> passed_over;
  absl::StatusOr<Snapshot> snapshot = FindSnapshot(disk, path, &passed_over);
  for (const std::string& reason : passed_over)
    err << "passed over: " << Printable(reason) << "\n";
  return snapshot;
}

absl::Status Show(Disk& disk, const std::string& path, std::ostream& out,
                  std::ostream& err) {
  PARAPET_ASSIGN_OR_RETURN(const bool single, IsSnapshotFolder(disk, path));
  if (!single) PARAPET_RETURN_IF_ERROR(PrintList(disk, path, out));
  PARAPET_ASSIGN_OR_RETURN(const Snapshot snapshot,
                           OpenEither(disk, path, err));
  return PrintSnapshot(snapshot, out);
}

absl::Status Export(Disk& disk, const std::string& path,
                    const std::string& file, std::ostream& out,
                    std::ostream& err) {
  PARAPET_ASSIGN_OR_RETURN(const Snapshot snapshot,
                           OpenEither(disk, path, err));
  PARAPET_RETURN_IF_ERROR(ExportSnapshot(disk, snapshot, file));
  out << "version " << snapshot.manifest.version << " of "
      << Printable(snapshot.path) << " exported to " << Printable(file) << "\n";
  return absl::OkStatus();
}

}  // namespace

int RunCkpt(Disk& disk, const std::vector<std::string>& args, std::ostream& out,
            std::ostream& err) {
  CLI::App app("Looks into snapshots.", "parapet ckpt");
  app.require_subcommand(1);
  std::string dir, file;
  CLI::App* show =
      app.add_subcommand("show", "Checks a snapshot and prints what it holds");
  show->add_option("DIR", dir, "A snapshot's folder, or the folder of all")
      ->required();
  CLI::App* save = app.add_subcommand(
      "export", "Writes the weights as one plain safetensors file");
  save->add_option("DIR", dir, "A snapshot's folder, or the folder of all")
      ->required();
  save->add_option("FILE", file, "The file to write, e.g. model.safetensors")
      ->required();
  if (const auto ended = ParseArgs(&app, args, out, err)) return *ended;
  const absl::Status status = show->parsed()
                                  ? Show(disk, dir, out, err)
                                  : Export(disk, dir, file, out, err);
  if (!status.ok())
    err << "parapet ckpt: " << Printable(status.message()) << "\n";
  return CodeFor(status);
}

int RunCkpt(int argc, char** argv) {
  const std::unique_ptr<Disk> disk = MakePosixDisk();
  return RunCkpt(*disk, ArgsOf(argc, argv), std::cout, std::cerr);
}

}  // namespace parapet
