#include "common/npy.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"

namespace parapet {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr absl::string_view kMagic("\x93NUMPY", 6);
constexpr int64_t kMaxHeader = 64 * 1024;  // that of version 1.0 at the most
constexpr size_t kMaxDimensions = 8;
constexpr int64_t kAlignment = 64;  // of the data, in files that we write

template <typename... Words>
absl::Status Bad(const std::string& path, const Words&... words) {
  return absl::DataLossError(absl::StrCat("'", path, "': ", words...));
}

// What a file's header says.
struct Header {
  bool float64 = false;
  bool fortran = false;
  std::vector<int64_t> shape;
  int64_t data = 0;  // where the values begin
};

// Reads the Python dictionary of a header: {'descr': '<f4', 'fortran_order':
// False, 'shape': (3, 4), }, keys in any order.
class Literal {
 public:
  explicit Literal(absl::string_view text) : text_(text) {}

  // Skips spaces, then takes `c` if it is next.
  bool Take(char c) {
    text_ = absl::StripLeadingAsciiWhitespace(text_);
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  std::optional<std::string> Quoted() {
    const char quote = Take('\'') ? '\'' : Take('"') ? '"' : '\0';
    const size_t end =
        quote == '\0' ? absl::string_view::npos : text_.find(quote);
    if (end == absl::string_view::npos) return std::nullopt;
    std::string word(text_.substr(0, end));
    text_.remove_prefix(end + 1);
    return word;
  }
  std::optional<bool> Boolean() {
    const absl::string_view word = Word();
    if (word == "True") return true;
    if (word == "False") return false;
    return std::nullopt;
  }
  // "(3, 4)", "(3,)" or "()".
  std::optional<std::vector<int64_t>> Tuple() {
    std::vector<int64_t> numbers;
    if (!Take('(')) return std::nullopt;
    while (!Take(')')) {
      int64_t number = 0;
      if (numbers.size() == kMaxDimensions + 1 ||
          !absl::SimpleAtoi(Word(), &number) || number < 0)
        return std::nullopt;
      numbers.push_back(number);
      if (Take(',')) continue;
      if (!Take(')') || numbers.size() == 1)
        return std::nullopt;  // (3) is none
      break;
    }
    return numbers;
  }
  // What is left, but for spaces.
  absl::string_view rest() const { return absl::StripAsciiWhitespace(text_); }

 private:
  absl::string_view Word() {
    text_ = absl::StripLeadingAsciiWhitespace(text_);
    size_t end = 0;
    while (end < text_.size() &&
           absl::ascii_isalnum(static_cast<unsigned char>(text_[end])))
      ++end;
    const absl::string_view word = text_.substr(0, end);
    text_.remove_prefix(end);
    return word;
  }

  absl::string_view text_;
};

absl::Status SetType(const std::string& path, const std::string& type,
                     Header* header) {
  header->float64 = type == "<f8";
  if (type == "<f4" || type == "<f8") return absl::OkStatus();
  return Bad(path, "holds values of type '", type.substr(0, 40),
             "'; expected little-endian float32 ('<f4') or float64 ('<f8')");
}

absl::Status ParseEntry(const std::string& path, const std::string& key,
                        Literal* literal, Header* header) {
  if (key == "descr") {
    const auto type = literal->Quoted();
    if (!type) {
      return Bad(path,
                 "its header gives no simple type of value; expected "
                 "'<f4' or '<f8'");
    }
    return SetType(path, *type, header);
  }
  if (key == "fortran_order") {
    const auto fortran = literal->Boolean();
    if (!fortran) return Bad(path, "fortran_order is neither True nor False");
    header->fortran = *fortran;
    return absl::OkStatus();
  }
  auto shape = literal->Tuple();
  if (!shape) return Bad(path, "its shape is not a tuple of whole numbers");
  if (shape->size() > kMaxDimensions)
    return Bad(path, "has more than ", kMaxDimensions, " dimensions");
  header->shape = *std::move(shape);
  return absl::OkStatus();
}

absl::Status ParseDictionary(const std::string& path, absl::string_view text,
                             Header* header) {
  static constexpr absl::string_view kKeys[] = {"descr", "fortran_order",
                                                "shape"};
  bool seen[std::size(kKeys)] = {};
  Literal literal(text);
  if (!literal.Take('{')) return Bad(path, "its header is not a dictionary");
  while (!literal.Take('}')) {
    const auto key = literal.Quoted();
    const auto* known =
        std::find(std::begin(kKeys), std::end(kKeys), key.value_or(""));
    if (known == std::end(kKeys) || !literal.Take(':'))
      return Bad(path, "its header is not {'descr', 'fortran_order', 'shape'}");
    if (std::exchange(seen[known - std::begin(kKeys)], true))
      return Bad(path, "its header gives ", *known, " twice");
    PARAPET_RETURN_IF_ERROR(ParseEntry(path, *key, &literal, header));
    if (literal.Take(',')) continue;
    if (!literal.Take('}')) return Bad(path, "its header does not end");
    break;
  }
  if (!literal.rest().empty())
    return Bad(path, "something follows the dictionary in its header");
  for (size_t k = 0; k < std::size(kKeys); ++k) {
    if (!seen[k]) return Bad(path, "its header has no ", kKeys[k]);
  }
  return absl::OkStatus();
}

uint64_t LittleEndian(absl::Span<const std::byte> bytes) {
  uint64_t number = 0;
  for (size_t i = bytes.size(); i > 0; --i)
    number = number << 8 | static_cast<uint64_t>(bytes[i - 1]);
  return number;
}

absl::StatusOr<Header> ReadHeader(const std::string& path,
                                  const ReadableFile& file) {
  std::byte start[12] = {};
  if (file.size() < 12)
    return Bad(path, "is no .npy file: it has ", file.size(), " bytes");
  PARAPET_RETURN_IF_ERROR(file.Read(0, absl::MakeSpan(start)));
  if (std::memcmp(start, kMagic.data(), kMagic.size()) != 0)
    return Bad(path, "is no .npy file: it does not begin with \\x93NUMPY");
  const int major = static_cast<int>(start[6]);
  const int minor = static_cast<int>(start[7]);
  if (major < 1 || major > 3 || minor != 0) {
    return Bad(path, "has version ", major, ".", minor,
               " of the format; expected 1.0, 2.0 or 3.0");
  }
  const int width = major == 1 ? 2 : 4;
  const auto length = static_cast<int64_t>(
      LittleEndian(absl::MakeConstSpan(start).subspan(8, width)));
  Header header;
  header.data = 8 + width + length;
  if (length > kMaxHeader || header.data > file.size()) {
    return Bad(path, "its header claims ", length, " bytes; there are ",
               file.size() - 8 - width, ", and ", kMaxHeader,
               " are the most that is read");
  }
  std::string text(length, '\0');
  PARAPET_RETURN_IF_ERROR(file.Read(
      8 + width,
      absl::MakeSpan(reinterpret_cast<std::byte*>(text.data()), text.size())));
  PARAPET_RETURN_IF_ERROR(ParseDictionary(path, text, &header));
  return header;
}

absl::StatusOr<int64_t> CountElements(const std::string& path,
                                      const Header& header,
                                      int64_t max_elements) {
  int64_t elements = 1;
  for (int64_t extent : header.shape) {
    if (extent != 0 && elements > max_elements / extent) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "'", path, "': has the shape (", absl::StrJoin(header.shape, ", "),
          "), over ", max_elements, " values"));
    }
    elements *= extent;
  }
  return elements;
}

void Narrow(absl::Span<const double> from, float* to, int64_t* overflowed) {
  for (size_t i = 0; i < from.size(); ++i) {
    to[i] = static_cast<float>(from[i]);
    if (std::isinf(to[i]) && std::isfinite(from[i])) ++*overflowed;
  }
}

absl::Status ReadValues(const ReadableFile& file, const Header& header,
                        NpyArray* array) {
  if (!header.float64) {
    return file.Read(
        header.data,
        absl::MakeSpan(reinterpret_cast<std::byte*>(array->values.data()),
                       array->values.size() * sizeof(float)));
  }
  const size_t piece = kDiskPiece / sizeof(double);
  std::vector<double> buffer(std::min(piece, array->values.size()));
  for (size_t at = 0; at < array->values.size(); at += piece) {
    const auto part = absl::MakeSpan(buffer).subspan(
        0, std::min(piece, array->values.size() - at));
    PARAPET_RETURN_IF_ERROR(
        file.Read(header.data + static_cast<int64_t>(at * sizeof(double)),
                  absl::MakeSpan(reinterpret_cast<std::byte*>(part.data()),
                                 part.size() * sizeof(double))));
    Narrow(part, &array->values[at], &array->overflowed);
  }
  return absl::OkStatus();
}

// From the first index fastest to the last index fastest.
std::vector<float> ToCOrder(const std::vector<float>& values,
                            absl::Span<const int64_t> shape) {
  std::vector<float> ordered(values.size());
  std::vector<int64_t> index(shape.size());
  for (float& value : ordered) {
    int64_t at = 0;
    for (size_t k = shape.size(); k > 0; --k)
      at = at * shape[k - 1] + index[k - 1];
    value = values[at];
    for (size_t k = shape.size(); k > 0; --k) {
      if (++index[k - 1] < shape[k - 1]) break;
      index[k - 1] = 0;
    }
  }
  return ordered;
}

std::string HeaderText(absl::Span<const int64_t> shape) {
  std::string text = absl::StrCat(
      "{'descr': '<f4', 'fortran_order': False, 'shape': (",
      absl::StrJoin(shape, ", "), shape.size() == 1 ? ",), }" : "), }");
  const size_t before = kMagic.size() + 4;
  const size_t whole = before + text.size() + 1;
  text.append((kAlignment - whole % kAlignment) % kAlignment, ' ');
  text.push_back('\n');
  const auto length = static_cast<uint16_t>(text.size());
  return absl::StrCat(kMagic, absl::string_view("\x01\x00", 2),
                      std::string(1, static_cast<char>(length & 0xff)),
                      std::string(1, static_cast<char>(length >> 8)), text);
}

}  // namespace

absl::StatusOr<NpyArray> ReadNpy(Disk& disk, const std::string& path,
                                 int64_t max_elements) {
  PARAPET_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file,
                           disk.Open(path));
  PARAPET_ASSIGN_OR_RETURN(const Header header, ReadHeader(path, *file));
  PARAPET_ASSIGN_OR_RETURN(const int64_t elements,
                           CountElements(path, header, max_elements));
  const int64_t expected =
      elements * static_cast<int64_t>(header.float64 ? 8 : 4);
  if (file->size() - header.data != expected) {
    return Bad(path, "has ", file->size() - header.data,
               " bytes of values; the shape (",
               absl::StrJoin(header.shape, ", "), ") needs ", expected);
  }
  NpyArray array;
  array.shape = header.shape;
  array.values.resize(elements);
  PARAPET_RETURN_IF_ERROR(ReadValues(*file, header, &array));
  if (header.fortran && array.shape.size() > 1)
    array.values = ToCOrder(array.values, array.shape);
  return array;
}

absl::Status WriteNpy(Disk& disk, const std::string& path,
                      absl::Span<const int64_t> shape,
                      absl::Span<const float> values) {
  PARAPET_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file,
                           disk.Create(path));
  const std::string header = HeaderText(shape);
  PARAPET_RETURN_IF_ERROR(file->Append(absl::MakeConstSpan(
      reinterpret_cast<const std::byte*>(header.data()), header.size())));
  PARAPET_RETURN_IF_ERROR(file->Append(
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(values.data()),
                          values.size() * sizeof(float))));
  return file->SyncAndClose();
}

}  // namespace parapet
