#ifndef PARAPET_COMMON_SAFETENSORS_H_
#define PARAPET_COMMON_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/disk.h"
#include "common/hash.h"

namespace parapet {

// The safetensors format (https://github.com/huggingface/safetensors): 8 bytes
// with the length of the header, little-endian; the header, a JSON object name
// -> {dtype, shape, data_offsets}, with strings under "__metadata__"; then the
// tensors' bytes, row-major, little-endian, without holes or overlap.

inline constexpr int64_t kMaxSafetensorsHeader =
    100'000'000;  // as in the reference implementation

// Bytes of an element of "F32", "BF16", "F16", "I64", ...; 0 if there is no
// such type.
int64_t SafetensorsElementBytes(absl::string_view dtype);

struct SafeTensor {
  std::string name;
  std::string dtype = "F32";
  std::vector<int64_t> shape;  // empty: a scalar
  // Where its bytes are, counted from the end of the header. Set by reader and
  // writer.
  int64_t offset = 0;
  int64_t bytes = 0;
};

using SafetensorsMetadata = std::map<std::string, std::string>;

// Thread-safe once it is made.
class SafetensorsReader {
 public:
  // Checks the whole header, and that the file has just the size that it says.
  // DataLoss if not, naming the path; the disk's error otherwise.
  static absl::StatusOr<SafetensorsReader> Open(Disk& disk,
                                                const std::string& path);

  const std::string& path() const { return path_; }
  // In the order of their data.
  const std::vector<SafeTensor>& tensors() const { return tensors_; }
  const SafetensorsMetadata& metadata() const { return metadata_; }
  // Null if there is none of that name.
  const SafeTensor* Find(absl::string_view name) const;

  // Reads out.size() elements of an F32 tensor from element `first` on, counted
  // flat. InvalidArgument if it is of another type or has not so many; DataLoss
  // if the file has become shorter.
  absl::Status ReadFloats(const SafeTensor& tensor, int64_t first,
                          absl::Span<float> out) const;

 private:
  std::string path_;
  std::unique_ptr<ReadableFile> file_;
  int64_t data_begin_ = 0;
  std::vector<SafeTensor> tensors_;
  absl::flat_hash_map<std::string, size_t> index_;
  SafetensorsMetadata metadata_;
};

// Writes a file from its beginning and hashes it on the way. Not thread-safe.
class SafetensorsWriter {
 public:
  // Writes the header; the data follow in the order of `tensors`.
  // InvalidArgument for a name that is there twice, is "__metadata__" or not
  // UTF-8, an unknown type, a negative or overflowing shape, or a header over
  // the limit.
  static absl::StatusOr<SafetensorsWriter> Create(
      Disk& disk, const std::string& path, std::vector<SafeTensor> tensors,
      const SafetensorsMetadata& metadata);
  // The next bytes of the data, cut anywhere. OutOfRange if they are more than
  // the header announced.
  absl::Status Append(absl::Span<const std::byte> bytes);
  // Syncs and closes; FailedPrecondition if data are missing. Nothing may
  // follow.
  absl::Status Finish();

  int64_t file_bytes() const { return file_bytes_; }
  uint64_t hash() const {
    return hash_.Digest();
  }  // HashBytes of the file so far

 private:
  SafetensorsWriter() = default;
  absl::Status Write(absl::Span<const std::byte> bytes);

  std::string path_;
  std::unique_ptr<WritableFile> file_;
  StreamingHash hash_;
  int64_t file_bytes_ = 0;
  int64_t data_left_ = 0;
};

}  // namespace parapet

#endif  // PARAPET_COMMON_SAFETENSORS_H_
