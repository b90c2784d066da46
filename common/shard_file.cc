// What is inside a snapshot's data files: pieces of sections, named after the
// tensors they belong to.
#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint.h"
#include "common/json_parse.h"
#include "common/manifest.h"
#include "common/status_macros.h"

namespace parapet {
namespace {

constexpr char kLayoutKey[] = "layout_hash";
constexpr int64_t kPieceFloats =
    kDiskPiece / static_cast<int64_t>(sizeof(float));

absl::Span<const std::byte> AsBytes(const float* values, int64_t count) {
  return {reinterpret_cast<const std::byte*>(values),
          static_cast<size_t>(count) * sizeof(float)};
}

// ---- Writing.

struct Piece {
  SafeTensor tensor;
  const float* values;
  int64_t elements;
};

std::string PieceName(const std::string& section, const std::string& tensor,
                      Range range) {
  return absl::StrCat(section, "/", tensor, "/", range.begin, "-", range.end);
}

// Cuts a range of the flat vector at the boundaries of tensors.
void CutRange(const Layout& layout, const std::string& section, Range range,
              const float* values, std::vector<Piece>& pieces) {
  for (int64_t at = range.begin; at < range.end;) {
    const Tensor& tensor = layout.tensors()[layout.TensorAt(at)];
    const int64_t end = std::min(range.end, tensor.offset + tensor.elements);
    const Range within{at - tensor.offset, end - tensor.offset};
    Piece piece{{}, values + (at - range.begin), within.size()};
    piece.tensor.name = PieceName(section, tensor.name, within);
    piece.tensor.shape = tensor.shape;
    if (within.size() != tensor.elements) piece.tensor.shape = {within.size()};
    pieces.push_back(std::move(piece));
    at = end;
  }
}

bool IsSectionName(absl::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_';
  });
}

absl::Status CheckSection(const Layout& layout, const Section& section) {
  const auto wrong = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("section '", section.name, "' ", what));
  };
  if (!IsSectionName(section.name))
    return wrong("has a name that is not of [a-z0-9_]");
  if (section.values.size() != section.ranges.size())
    return wrong("has not one pointer a range");
  int64_t at = 0;
  for (const Range& range : section.ranges) {
    if (range.begin < at || range.end < range.begin ||
        range.end > layout.elements()) {
      return wrong(
          "has ranges that overlap, are not in order or leave the layout");
    }
    at = range.end;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Piece>> CutSections(
    const Layout& layout, const std::vector<Section>& sections) {
  std::vector<Piece> pieces;
  for (const Section& section : sections) {
    PARAPET_RETURN_IF_ERROR(CheckSection(layout, section));
    for (size_t i = 0; i < section.ranges.size(); ++i) {
      CutRange(layout, section.name, section.ranges[i], section.values[i],
               pieces);
    }
  }
  return pieces;
}

// ---- Reading.

struct PieceId {
  std::string section, tensor;
  Range range;  // within the tensor
};

// The other way round of PieceName. The tensor's name may have slashes itself.
absl::StatusOr<PieceId> ParsePieceName(const std::string& name) {
  const size_t first = name.find('/'), last = name.rfind('/');
  const size_t dash = name.rfind('-');
  PieceId id;
  if (first != last && dash != std::string::npos && dash > last) {
    id.section = name.substr(0, first);
    id.tensor = name.substr(first + 1, last - first - 1);
    // Numbers written otherwise ("+1", " 1") do not survive being written
    // again.
    if (absl::SimpleAtoi(name.substr(last + 1, dash - last - 1),
                         &id.range.begin) &&
        absl::SimpleAtoi(name.substr(dash + 1), &id.range.end) &&
        IsSectionName(id.section) &&
        PieceName(id.section, id.tensor, id.range) == name) {
      return id;
    }
  }
  return absl::DataLossError(absl::StrCat(
      "tensor '", name, "' is not named <section>/<tensor>/<begin>-<end>"));
}

// Where a piece lies in the flat vector.
absl::StatusOr<Range> PlaceOf(const PieceId& id, const SafeTensor& stored,
                              const Tensor* tensor) {
  if (tensor == nullptr) {
    return absl::DataLossError(
        absl::StrCat("the model has no tensor '", id.tensor, "'"));
  }
  if (id.range.begin < 0 || id.range.end <= id.range.begin ||
      id.range.end > tensor->elements || stored.dtype != "F32" ||
      stored.bytes / 4 != id.range.size()) {
    return absl::DataLossError(
        absl::StrCat("tensor '", stored.name, "' of ", stored.bytes,
                     " bytes of ", stored.dtype, " does not fit '", id.tensor,
                     "' of ", tensor->elements, " elements"));
  }
  return Range{tensor->offset + id.range.begin, tensor->offset + id.range.end};
}

absl::Status InFile(const std::string& path, const absl::Status& status) {
  return absl::Status(
      status.code(),
      absl::StrCat("'", path, "': ", PrintableText(status.message())));
}

absl::Status CheckLayout(const SafetensorsReader& file, const Layout& layout) {
  const auto found = file.metadata().find(kLayoutKey);
  if (found != file.metadata().end() &&
      found->second == HexText(layout.hash())) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat("'", file.path(), "' is of another model's layout"));
}

// A file that the manifest names has to be there, so that NotFound can mean a
// missing element.
absl::StatusOr<SafetensorsReader> OpenListedFile(Disk& disk,
                                                 const std::string& path) {
  absl::StatusOr<SafetensorsReader> file = SafetensorsReader::Open(disk, path);
  if (absl::IsNotFound(file.status()))
    return absl::DataLossError(file.status().message());
  return file;
}

// ---- Exporting.

absl::Status WriteJoined(const SectionReader& reader, const Layout& layout,
                         SafetensorsWriter& writer) {
  std::vector<float> buffer(
      static_cast<size_t>(std::min(layout.elements(), kPieceFloats)));
  for (int64_t at = 0; at < layout.elements(); at += kPieceFloats) {
    const Range range{at, std::min(layout.elements(), at + kPieceFloats)};
    PARAPET_RETURN_IF_ERROR(reader.Read("weights", range, buffer.data()));
    PARAPET_RETURN_IF_ERROR(
        writer.Append(AsBytes(buffer.data(), range.size())));
  }
  return writer.Finish();
}

absl::Status ExportTo(Disk& disk, const Snapshot& snapshot,
                      const std::string& path) {
  PARAPET_ASSIGN_OR_RETURN(const Layout layout,
                           Layout::Create(snapshot.manifest.tensors));
  PARAPET_ASSIGN_OR_RETURN(
      const SectionReader reader,
      SectionReader::Create(disk, snapshot, layout, "server-"));
  std::vector<SafeTensor> tensors(layout.tensors().size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].name = layout.tensors()[i].name;
    tensors[i].shape = layout.tensors()[i].shape;
  }
  // "format" tells Hugging Face's loaders that names and shapes are PyTorch's.
  const SafetensorsMetadata metadata = {
      {"format", "pt"},
      {"parapet_version", absl::StrCat(snapshot.manifest.version)}};
  PARAPET_ASSIGN_OR_RETURN(
      SafetensorsWriter writer,
      SafetensorsWriter::Create(disk, path, std::move(tensors), metadata));
  return WriteJoined(reader, layout, writer);
}

}  // namespace

absl::StatusOr<FileEntry> WriteShardFile(Disk& disk, const std::string& folder,
                                         const std::string& name,
                                         const Layout& layout,
                                         const std::vector<Section>& sections) {
  PARAPET_RETURN_IF_ERROR(CheckFileName(name));
  PARAPET_ASSIGN_OR_RETURN(const std::vector<Piece> pieces,
                           CutSections(layout, sections));
  std::vector<SafeTensor> tensors;
  tensors.reserve(pieces.size());
  for (const Piece& piece : pieces) tensors.push_back(piece.tensor);
  PARAPET_RETURN_IF_ERROR(disk.MakeDir(folder));
  PARAPET_ASSIGN_OR_RETURN(
      SafetensorsWriter writer,
      SafetensorsWriter::Create(disk, absl::StrCat(folder, "/", name),
                                std::move(tensors),
                                {{kLayoutKey, HexText(layout.hash())}}));
  for (const Piece& piece : pieces) {
    PARAPET_RETURN_IF_ERROR(
        writer.Append(AsBytes(piece.values, piece.elements)));
  }
  PARAPET_RETURN_IF_ERROR(writer.Finish());
  return FileEntry{name, writer.file_bytes(), writer.hash()};
}

absl::StatusOr<SectionReader> SectionReader::Create(
    Disk& disk, const Snapshot& snapshot, const Layout& layout,
    const std::string& file_prefix) {
  if (layout.hash() != snapshot.manifest.layout_hash) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", snapshot.path,
                     "' is a snapshot of another model: its layout hash is ",
                     HexText(snapshot.manifest.layout_hash), ", not ",
                     HexText(layout.hash())));
  }
  absl::flat_hash_map<std::string, const Tensor*> by_name;
  for (const Tensor& tensor : layout.tensors()) by_name[tensor.name] = &tensor;
  SectionReader reader;
  reader.layout_ = &layout;
  for (const FileEntry& entry : snapshot.manifest.files) {
    if (!absl::StartsWith(entry.name, file_prefix)) continue;
    const std::string path = absl::StrCat(snapshot.path, "/", entry.name);
    PARAPET_RETURN_IF_ERROR(reader.AddFile(disk, path, by_name));
  }
  PARAPET_RETURN_IF_ERROR(reader.SortPieces());
  return reader;
}

absl::Status SectionReader::AddFile(
    Disk& disk, const std::string& path,
    const absl::flat_hash_map<std::string, const Tensor*>& by_name) {
  PARAPET_ASSIGN_OR_RETURN(SafetensorsReader file, OpenListedFile(disk, path));
  PARAPET_RETURN_IF_ERROR(CheckLayout(file, *layout_));
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    const SafeTensor& stored = file.tensors()[i];
    absl::StatusOr<PieceId> id = ParsePieceName(stored.name);
    if (!id.ok()) return InFile(path, id.status());
    const auto tensor = by_name.find(id->tensor);
    absl::StatusOr<Range> range = PlaceOf(
        *id, stored, tensor == by_name.end() ? nullptr : tensor->second);
    if (!range.ok()) return InFile(path, range.status());
    pieces_[id->section].push_back({*range, files_.size(), i});
  }
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

absl::Status SectionReader::SortPieces() {
  for (auto& [section, pieces] : pieces_) {
    std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
      return a.range.begin < b.range.begin;
    });
    for (size_t i = 1; i < pieces.size(); ++i) {
      if (pieces[i].range.begin >= pieces[i - 1].range.end) continue;
      return absl::DataLossError(absl::StrCat(
          section, " of ", layout_->Describe(pieces[i].range.begin), " is in '",
          files_[pieces[i - 1].file].path(), "' and in '",
          files_[pieces[i].file].path(), "'"));
    }
  }
  return absl::OkStatus();
}

absl::Status SectionReader::Read(const std::string& section, Range range,
                                 float* out) const {
  if (range.begin < 0 || range.end < range.begin ||
      range.end > layout_->elements()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "elements ", range.begin, " to ", range.end, " are not in the layout"));
  }
  const auto found = pieces_.find(section);
  const absl::Span<const Piece> pieces =
      found == pieces_.end() ? absl::Span<const Piece>()
                             : absl::MakeConstSpan(found->second);
  auto piece = std::partition_point(
      pieces.begin(), pieces.end(),
      [&](const Piece& p) { return p.range.end <= range.begin; });
  for (int64_t at = range.begin; at < range.end; ++piece) {
    if (piece == pieces.end() || piece->range.begin > at) {
      return absl::NotFoundError(absl::StrCat("no file of the snapshot has ",
                                              section, " of ",
                                              layout_->Describe(at)));
    }
    const int64_t end = std::min(range.end, piece->range.end);
    const SafetensorsReader& file = files_[piece->file];
    PARAPET_RETURN_IF_ERROR(
        file.ReadFloats(file.tensors()[piece->tensor], at - piece->range.begin,
                        absl::MakeSpan(out + (at - range.begin),
                                       static_cast<size_t>(end - at))));
    at = end;
  }
  return absl::OkStatus();
}

absl::Status ReadSection(Disk& disk, const Snapshot& snapshot,
                         const Layout& layout, const std::string& file_prefix,
                         const std::string& section, Range range, float* out) {
  PARAPET_ASSIGN_OR_RETURN(
      const SectionReader reader,
      SectionReader::Create(disk, snapshot, layout, file_prefix));
  return reader.Read(section, range, out);
}

absl::Status ExportSnapshot(Disk& disk, const Snapshot& snapshot,
                            const std::string& path) {
  const std::string temporary = path + ".tmp";
  absl::Status status = ExportTo(disk, snapshot, temporary);
  if (status.ok()) status = disk.Rename(temporary, path);
  if (status.ok()) return disk.SyncDir(ParentPath(path));
  disk.RemoveAll(temporary)
      .IgnoreError();  // the first error is the one to tell
  return status;
}

}  // namespace parapet
