#include "common/idx.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace parapet {
namespace {

constexpr int64_t kPiece = 1 << 20;
constexpr uint8_t kUnsignedByte = 8;

absl::Status Bad(const std::string& path, const std::string& what) {
  return absl::DataLossError(absl::StrCat(path, ": ", what));
}

// A file's bytes, unpacked if it is a gzip file (of one member or more).
class Source {
 public:
  explicit Source(std::string path) : path_(std::move(path)) {}
  ~Source() {
    if (packed_) inflateEnd(&zlib_);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  absl::Status Open();
  // Reads `size` bytes; fewer only at the end of the file.
  absl::StatusOr<int64_t> Read(uint8_t* out, int64_t size);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  absl::Status Refill();
  absl::StatusOr<int64_t> Unpack(uint8_t* out, int64_t size);
  // One call of inflate: takes from the buffer, writes to zlib_.next_out.
  absl::Status UnpackSome();

  const std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::array<uint8_t, 64 * 1024> buffer_;
  size_t begin_ = 0, end_ = 0;  // what is unread in the buffer
  bool at_end_ = false;         // of the file; the buffer may hold more
  bool packed_ = false;
  bool in_member_ = false;  // inside a gzip member
  z_stream zlib_ = {};
};

absl::Status Source::Open() {
  std::error_code error;
  // A pipe or a device could keep us waiting without end.
  if (!std::filesystem::is_regular_file(path_, error)) {
    return absl::NotFoundError(absl::StrCat(path_, ": no such regular file"));
  }
  file_.reset(std::fopen(path_.c_str(), "rb"));
  if (file_ == nullptr) return absl::ErrnoToStatus(errno, path_);
  std::setvbuf(file_.get(), nullptr, _IONBF, 0);
  PARAPET_RETURN_IF_ERROR(Refill());
  if (end_ < 2 || buffer_[0] != 0x1f || buffer_[1] != 0x8b)
    return absl::OkStatus();
  constexpr int kGzipOnly = 16;
  if (inflateInit2(&zlib_, MAX_WBITS + kGzipOnly) != Z_OK) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path_, ": no memory to unpack it"));
  }
  packed_ = in_member_ = true;
  return absl::OkStatus();
}

absl::Status Source::Refill() {
  if (begin_ < end_ || at_end_) return absl::OkStatus();
  begin_ = 0;
  end_ = std::fread(buffer_.data(), 1, buffer_.size(), file_.get());
  if (std::ferror(file_.get())) return Bad(path_, "cannot be read");
  at_end_ = end_ == 0;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Source::Read(uint8_t* out, int64_t size) {
  if (packed_) return Unpack(out, size);
  int64_t done = 0;
  while (done < size) {
    PARAPET_RETURN_IF_ERROR(Refill());
    if (begin_ == end_) break;
    const int64_t part = std::min<int64_t>(size - done, end_ - begin_);
    std::copy_n(buffer_.data() + begin_, part, out + done);
    begin_ += part;
    done += part;
  }
  return done;
}

absl::StatusOr<int64_t> Source::Unpack(uint8_t* out, int64_t size) {
  zlib_.next_out = out;
  zlib_.avail_out = static_cast<uInt>(size);  // a piece at most
  while (zlib_.avail_out > 0) {
    PARAPET_RETURN_IF_ERROR(Refill());
    if (begin_ == end_ && !in_member_) break;
    if (begin_ == end_) return Bad(path_, "the gzip file is truncated");
    PARAPET_RETURN_IF_ERROR(UnpackSome());
  }
  return size - zlib_.avail_out;
}

absl::Status Source::UnpackSome() {
  if (!in_member_) inflateReset(&zlib_);
  in_member_ = true;
  zlib_.next_in = buffer_.data() + begin_;
  zlib_.avail_in = static_cast<uInt>(end_ - begin_);
  const int result = inflate(&zlib_, Z_NO_FLUSH);
  begin_ = end_ - zlib_.avail_in;
  if (result == Z_STREAM_END) in_member_ = false;
  if (result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR)
    return absl::OkStatus();
  return Bad(
      path_,
      absl::StrCat("the gzip file is damaged, or followed by trailing bytes",
                   zlib_.msg == nullptr ? "" : ": ",
                   zlib_.msg == nullptr ? "" : zlib_.msg));
}

absl::Status ReadExactly(Source* source, const std::string& path, uint8_t* out,
                         int64_t size, const char* what) {
  PARAPET_ASSIGN_OR_RETURN(int64_t read, source->Read(out, size));
  if (read == size) return absl::OkStatus();
  return Bad(path, absl::StrCat("truncated in its ", what));
}

absl::Status CheckMagic(const std::string& path, const uint8_t* magic,
                        int rank) {
  if (magic[0] == 0 && magic[1] == 0 && magic[2] == kUnsignedByte &&
      magic[3] == rank) {
    return absl::OkStatus();
  }
  const uint32_t found =
      uint32_t{magic[0]} << 24 | magic[1] << 16 | magic[2] << 8 | magic[3];
  const uint32_t wanted =
      uint32_t{kUnsignedByte} << 8 | static_cast<uint32_t>(rank);
  return Bad(
      path,
      absl::StrCat("bad magic number 0x", absl::Hex(found, absl::kZeroPad8),
                   ", an IDX file of ", rank, " dimension(s) of bytes has 0x",
                   absl::Hex(wanted, absl::kZeroPad8)));
}

absl::StatusOr<std::vector<int64_t>> ReadHeader(Source* source,
                                                const std::string& path,
                                                int rank) {
  uint8_t word[4];
  PARAPET_RETURN_IF_ERROR(ReadExactly(source, path, word, 4, "magic number"));
  PARAPET_RETURN_IF_ERROR(CheckMagic(path, word, rank));
  std::vector<int64_t> dims;
  int64_t bytes = 1;
  for (int i = 0; i < rank; ++i) {
    PARAPET_RETURN_IF_ERROR(ReadExactly(source, path, word, 4, "dimensions"));
    dims.push_back(int64_t{word[0]} << 24 | word[1] << 16 | word[2] << 8 |
                   word[3]);
    if (dims.back() == 0)
      return Bad(path, absl::StrCat("wrong size: dimension ", i, " is 0"));
    bytes *= dims.back();  // below 2^31 times 2^32
    if (bytes > kMaxIdxBytes) {
      return Bad(path,
                 absl::StrCat("wrong size: it claims ", bytes,
                              " values or more, the limit is ", kMaxIdxBytes));
    }
  }
  return dims;
}

absl::Status ReadValues(Source* source, const std::string& path, int64_t size,
                        std::vector<uint8_t>* values) {
  while (static_cast<int64_t>(values->size()) < size) {
    const int64_t done = values->size(), part = std::min(size - done, kPiece);
    values->resize(done + part);
    PARAPET_ASSIGN_OR_RETURN(int64_t read,
                             source->Read(values->data() + done, part));
    if (read == part) continue;
    return Bad(path, absl::StrCat("truncated: ", done + read, " of ", size,
                                  " values"));
  }
  // Reading on also has zlib compare the checksum.
  uint8_t further;
  PARAPET_ASSIGN_OR_RETURN(int64_t more, source->Read(&further, 1));
  if (more == 0) return absl::OkStatus();
  return Bad(path, absl::StrCat("trailing bytes after its ", size, " values"));
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> ReadIdxHeader(const std::string& path,
                                                   int rank) {
  Source source(path);
  PARAPET_RETURN_IF_ERROR(source.Open());
  return ReadHeader(&source, path, rank);
}

absl::StatusOr<IdxArray> ReadIdx(const std::string& path, int rank) {
  Source source(path);
  PARAPET_RETURN_IF_ERROR(source.Open());
  IdxArray array;
  PARAPET_ASSIGN_OR_RETURN(array.dims, ReadHeader(&source, path, rank));
  int64_t size = 1;
  for (int64_t dimension : array.dims) size *= dimension;
  PARAPET_RETURN_IF_ERROR(ReadValues(&source, path, size, &array.values));
  return array;
}

}  // namespace parapet
