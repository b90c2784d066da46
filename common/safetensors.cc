#include "common/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/json_parse.h"
#include "common/status_macros.h"

namespace parapet {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little,
              "files are read and written as they lie");

constexpr char kMetadataKey[] = "__metadata__";
constexpr int kMaxDepth = 8;
constexpr int64_t kLengthBytes = 8;
constexpr int64_t kDataAlignment =
    8;  // of the data in the file, as the reference writes it

// Bytes of a tensor, or an error if the product overflows; the reference
// refuses that too, even if a zero follows.
absl::StatusOr<int64_t> TensorBytes(const SafeTensor& tensor) {
  int64_t bytes = SafetensorsElementBytes(tensor.dtype);
  if (bytes == 0)
    return absl::InvalidArgumentError(
        absl::StrCat("unknown dtype '", tensor.dtype, "'"));
  for (int64_t dimension : tensor.shape) {
    if (dimension < 0)
      return absl::InvalidArgumentError("the shape has a negative dimension");
    if (dimension > 0 &&
        bytes > std::numeric_limits<int64_t>::max() / dimension) {
      return absl::InvalidArgumentError("the shape has too many elements");
    }
    bytes *= dimension;
  }
  return bytes;
}

absl::StatusOr<SafeTensor> ParseTensor(const std::string& name,
                                       const json& entry) {
  SafeTensor tensor;
  tensor.name = name;
  PARAPET_ASSIGN_OR_RETURN(tensor.dtype, JsonString(entry, "dtype"));
  PARAPET_ASSIGN_OR_RETURN(tensor.shape, JsonCounts(entry, "shape"));
  PARAPET_ASSIGN_OR_RETURN(const std::vector<int64_t> offsets,
                           JsonCounts(entry, "data_offsets"));
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    return absl::InvalidArgumentError(
        "data_offsets are not a begin and an end");
  }
  tensor.offset = offsets[0];
  tensor.bytes = offsets[1] - offsets[0];
  PARAPET_ASSIGN_OR_RETURN(const int64_t needed, TensorBytes(tensor));
  if (needed != tensor.bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("its shape needs ", needed,
                     " bytes but its data_offsets hold ", tensor.bytes));
  }
  return tensor;
}

absl::StatusOr<SafetensorsMetadata> ParseMetadata(const json& entry) {
  if (!entry.is_object())
    return absl::InvalidArgumentError("__metadata__ is not an object");
  SafetensorsMetadata metadata;
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat("__metadata__ '", key, "' is not a string"));
    }
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

// Sorts tensors by place and checks that they fill [0, data_bytes) without
// holes or overlap.
absl::Status CheckPlaces(std::vector<SafeTensor>& tensors, int64_t data_bytes) {
  std::sort(tensors.begin(), tensors.end(),
            [](const SafeTensor& a, const SafeTensor& b) {
              return a.offset != b.offset ? a.offset < b.offset
                                          : a.bytes < b.bytes;
            });
  int64_t at = 0;
  for (const SafeTensor& tensor : tensors) {
    if (tensor.offset != at) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor '", tensor.name, "' begins at byte ", tensor.offset,
          " of the data, but the one before ends at ", at));
    }
    at += tensor.bytes;  // no overflow: offset + bytes was read as one number
  }
  if (at != data_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the header describes ", at,
                     " bytes of data, the file has ", data_bytes));
  }
  return absl::OkStatus();
}

struct Header {
  std::vector<SafeTensor> tensors;
  SafetensorsMetadata metadata;
};

absl::StatusOr<Header> ParseHeader(absl::string_view text, int64_t data_bytes) {
  if (text.empty() || text[0] != '{') {
    return absl::InvalidArgumentError("the header does not begin with '{'");
  }
  PARAPET_ASSIGN_OR_RETURN(const json object, ParseJson(text, kMaxDepth));
  Header header;
  for (const auto& [name, entry] : object.items()) {
    if (name == kMetadataKey) {
      PARAPET_ASSIGN_OR_RETURN(header.metadata, ParseMetadata(entry));
      continue;
    }
    absl::StatusOr<SafeTensor> tensor = ParseTensor(name, entry);
    if (!tensor.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor '", name, "': ", tensor.status().message()));
    }
    header.tensors.push_back(*std::move(tensor));
  }
  PARAPET_RETURN_IF_ERROR(CheckPlaces(header.tensors, data_bytes));
  return header;
}

absl::StatusOr<int64_t> ReadHeaderLength(const ReadableFile& file) {
  if (file.size() < kLengthBytes) {
    return absl::DataLossError(
        absl::StrCat("the file has only ", file.size(), " bytes"));
  }
  uint64_t length = 0;
  PARAPET_RETURN_IF_ERROR(
      file.Read(0, {reinterpret_cast<std::byte*>(&length), kLengthBytes}));
  const uint64_t most =
      std::min(kMaxSafetensorsHeader, file.size() - kLengthBytes);
  if (length > most) {
    return absl::DataLossError(absl::StrCat(
        "a header of ", length, " bytes is not possible: at most ", most));
  }
  return static_cast<int64_t>(length);
}

absl::StatusOr<Header> ReadHeader(const ReadableFile& file,
                                  int64_t* data_begin) {
  PARAPET_ASSIGN_OR_RETURN(const int64_t length, ReadHeaderLength(file));
  std::string text(static_cast<size_t>(length), '\0');
  auto* bytes = reinterpret_cast<std::byte*>(text.data());
  PARAPET_RETURN_IF_ERROR(file.Read(kLengthBytes, {bytes, text.size()}));
  *data_begin = kLengthBytes + length;
  absl::StatusOr<Header> header = ParseHeader(text, file.size() - *data_begin);
  if (!header.ok()) return absl::DataLossError(header.status().message());
  return header;
}

absl::StatusOr<std::string> HeaderText(const std::vector<SafeTensor>& tensors,
                                       const SafetensorsMetadata& metadata) {
  json object = json::object();
  if (!metadata.empty()) object[kMetadataKey] = metadata;
  for (const SafeTensor& tensor : tensors) {
    if (tensor.name == kMetadataKey || object.contains(tensor.name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a tensor cannot be named '", tensor.name, "', or is there twice"));
    }
    object[tensor.name] = {
        {"dtype", tensor.dtype},
        {"shape", tensor.shape},
        {"data_offsets", {tensor.offset, tensor.offset + tensor.bytes}}};
  }
  PARAPET_ASSIGN_OR_RETURN(std::string text, DumpJson(object));
  text.resize(
      (text.size() + kDataAlignment - 1) / kDataAlignment * kDataAlignment,
      ' ');
  if (static_cast<int64_t>(text.size()) > kMaxSafetensorsHeader) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a header of ", text.size(), " bytes is over the format's limit of ",
        kMaxSafetensorsHeader, ": too many tensors in one file"));
  }
  return text;
}

// Gives each tensor its place. Returns the size of the data.
absl::StatusOr<int64_t> PlaceTensors(std::vector<SafeTensor>& tensors) {
  int64_t at = 0;
  for (SafeTensor& tensor : tensors) {
    absl::StatusOr<int64_t> bytes = TensorBytes(tensor);
    if (bytes.ok() && *bytes > std::numeric_limits<int64_t>::max() - at) {
      bytes = absl::InvalidArgumentError("the tensors are too large together");
    }
    if (!bytes.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor '", tensor.name, "': ", bytes.status().message()));
    }
    tensor.offset = at;
    tensor.bytes = *bytes;
    at += *bytes;
  }
  return at;
}

}  // namespace

int64_t SafetensorsElementBytes(absl::string_view dtype) {
  if (dtype == "F64" || dtype == "I64" || dtype == "U64") return 8;
  if (dtype == "F32" || dtype == "I32" || dtype == "U32") return 4;
  if (dtype == "F16" || dtype == "BF16" || dtype == "I16" || dtype == "U16")
    return 2;
  if (dtype == "I8" || dtype == "U8" || dtype == "BOOL") return 1;
  if (dtype == "F8_E5M2" || dtype == "F8_E4M3") return 1;
  return 0;
}

absl::StatusOr<SafetensorsReader> SafetensorsReader::Open(
    Disk& disk, const std::string& path) {
  SafetensorsReader reader;
  reader.path_ = path;
  PARAPET_ASSIGN_OR_RETURN(reader.file_, disk.Open(path));
  absl::StatusOr<Header> header =
      ReadHeader(*reader.file_, &reader.data_begin_);
  if (!header.ok()) {
    return absl::Status(header.status().code(),
                        absl::StrCat("'", path, "': ",
                                     PrintableText(header.status().message())));
  }
  reader.tensors_ = std::move(header->tensors);
  reader.metadata_ = std::move(header->metadata);
  for (size_t i = 0; i < reader.tensors_.size(); ++i)
    reader.index_[reader.tensors_[i].name] = i;
  return reader;
}

const SafeTensor* SafetensorsReader::Find(absl::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

absl::Status SafetensorsReader::ReadFloats(const SafeTensor& tensor,
                                           int64_t first,
                                           absl::Span<float> out) const {
  const int64_t elements = tensor.bytes / static_cast<int64_t>(sizeof(float));
  const int64_t count = static_cast<int64_t>(out.size());
  if (tensor.dtype != "F32" || first < 0 || first > elements ||
      count > elements - first) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path_, "': tensor '", tensor.name, "' has ", elements,
                     " elements of ", tensor.dtype, ", not F32 elements ",
                     first, " + ", count));
  }
  const int64_t at =
      data_begin_ + tensor.offset + first * static_cast<int64_t>(sizeof(float));
  return file_->Read(at, {reinterpret_cast<std::byte*>(out.data()),
                          out.size() * sizeof(float)});
}

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Create(
    Disk& disk, const std::string& path, std::vector<SafeTensor> tensors,
    const SafetensorsMetadata& metadata) {
  SafetensorsWriter writer;
  writer.path_ = path;
  PARAPET_ASSIGN_OR_RETURN(writer.data_left_, PlaceTensors(tensors));
  PARAPET_ASSIGN_OR_RETURN(const std::string text,
                           HeaderText(tensors, metadata));
  PARAPET_ASSIGN_OR_RETURN(writer.file_, disk.Create(path));
  const uint64_t length = text.size();
  PARAPET_RETURN_IF_ERROR(writer.Write(
      {reinterpret_cast<const std::byte*>(&length), sizeof(length)}));
  PARAPET_RETURN_IF_ERROR(writer.Write(
      {reinterpret_cast<const std::byte*>(text.data()), text.size()}));
  return writer;
}

absl::Status SafetensorsWriter::Append(absl::Span<const std::byte> bytes) {
  const int64_t count = static_cast<int64_t>(bytes.size());
  if (count > data_left_) {
    return absl::OutOfRangeError(absl::StrCat("'", path_, "': ", count,
                                              " bytes of data, only ",
                                              data_left_, " announced"));
  }
  data_left_ -= count;
  return Write(bytes);
}

absl::Status SafetensorsWriter::Finish() {
  if (data_left_ != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "'", path_, "': ", data_left_, " bytes of data are missing"));
  }
  return file_->SyncAndClose();
}

absl::Status SafetensorsWriter::Write(absl::Span<const std::byte> bytes) {
  // In pieces, so that a piece is hashed while it is still in the cache.
  for (size_t at = 0; at < bytes.size(); at += kDiskPiece) {
    const absl::Span<const std::byte> piece = bytes.subspan(at, kDiskPiece);
    hash_.Update(piece);
    PARAPET_RETURN_IF_ERROR(file_->Append(piece));
    file_bytes_ += static_cast<int64_t>(piece.size());
  }
  return absl::OkStatus();
}

}  // namespace parapet
