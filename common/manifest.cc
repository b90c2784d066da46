#include "common/manifest.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/hash.h"
#include "common/json_parse.h"
#include "common/layout.h"
#include "common/status_macros.h"

namespace parapet {
namespace {

using nlohmann::json;

constexpr char kFormat[] = "parapet snapshot 1";
constexpr char kHashKey[] = "hash";
constexpr int kMaxDepth = 8;
constexpr size_t kMaxFileName = 200;
constexpr int64_t kMaxFileBytes = int64_t{1} << 52;

// Over the text in one line, so that it does not depend on spaces. `object` has
// no hash in it.
absl::StatusOr<uint64_t> SelfHash(const json& object) {
  PARAPET_ASSIGN_OR_RETURN(const std::string text, DumpJson(object));
  return HashBytes(text.data(), text.size());
}

json TensorsJson(const std::vector<TensorSpec>& tensors) {
  json list = json::array();
  for (const TensorSpec& tensor : tensors) {
    list.push_back({{"name", tensor.name}, {"shape", tensor.shape}});
  }
  return list;
}

json FilesJson(const std::vector<FileEntry>& files) {
  json list = json::array();
  for (const FileEntry& file : files) {
    list.push_back({{"name", file.name},
                    {"bytes", file.bytes},
                    {"hash", HexText(file.hash)}});
  }
  return list;
}

json ManifestJson(const Manifest& manifest) {
  json object;
  object["format"] = kFormat;
  object["version"] = manifest.version;
  object["layout_hash"] = HexText(manifest.layout_hash);
  object["tensors"] = TensorsJson(manifest.tensors);
  object["job"] = manifest.job;
  object["weights_hash"] = HexText(manifest.weights_hash);
  object["epoch"] = manifest.epoch;
  object["position"] = manifest.position;
  object["term"] = manifest.term;
  object["files"] = FilesJson(manifest.files);
  // Kept as text: parsing and writing it again could change its numbers.
  object["lead_state"] = manifest.lead_state;
  return object;
}

absl::StatusOr<const json*> JsonList(const json& object, const char* key,
                                     int64_t most) {
  PARAPET_ASSIGN_OR_RETURN(const json* list, JsonMember(object, key));
  if (!list->is_array() || static_cast<int64_t>(list->size()) > most) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", key, "' is not an array of at most ", most, " elements"));
  }
  return list;
}

absl::Status ParseTensors(const json& object, Manifest& manifest) {
  PARAPET_ASSIGN_OR_RETURN(const json* list,
                           JsonList(object, "tensors", Layout::kMaxTensors));
  for (const json& entry : *list) {
    TensorSpec tensor;
    PARAPET_ASSIGN_OR_RETURN(tensor.name, JsonString(entry, "name"));
    PARAPET_ASSIGN_OR_RETURN(tensor.shape, JsonCounts(entry, "shape"));
    manifest.tensors.push_back(std::move(tensor));
  }
  PARAPET_ASSIGN_OR_RETURN(const Layout layout,
                           Layout::Create(manifest.tensors));
  if (layout.hash() == manifest.layout_hash) return absl::OkStatus();
  return absl::InvalidArgumentError("'layout_hash' is not that of 'tensors'");
}

absl::StatusOr<FileEntry> ParseFile(const json& entry) {
  FileEntry file;
  PARAPET_ASSIGN_OR_RETURN(file.name, JsonString(entry, "name"));
  PARAPET_RETURN_IF_ERROR(CheckFileName(file.name));
  PARAPET_ASSIGN_OR_RETURN(const uint64_t bytes, JsonUint(entry, "bytes"));
  if (bytes > kMaxFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.name, " cannot have ", bytes, " bytes"));
  }
  file.bytes = static_cast<int64_t>(bytes);
  PARAPET_ASSIGN_OR_RETURN(file.hash, JsonHex(entry, "hash"));
  return file;
}

absl::Status ParseFiles(const json& object, Manifest& manifest) {
  PARAPET_ASSIGN_OR_RETURN(const json* list,
                           JsonList(object, "files", kMaxSnapshotFiles));
  absl::flat_hash_set<std::string> names;
  for (const json& entry : *list) {
    PARAPET_ASSIGN_OR_RETURN(FileEntry file, ParseFile(entry));
    if (!names.insert(file.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("'files' has ", file.name, " twice"));
    }
    manifest.files.push_back(std::move(file));
  }
  if (manifest.files.empty())
    return absl::InvalidArgumentError("'files' is empty");
  return absl::OkStatus();
}

// Removes the hash from `object`.
absl::Status CheckSelfHash(json& object) {
  PARAPET_ASSIGN_OR_RETURN(const uint64_t said, JsonHex(object, kHashKey));
  object.erase(kHashKey);
  PARAPET_ASSIGN_OR_RETURN(const uint64_t found, SelfHash(object));
  if (said == found) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "its content does not match its hash: it was altered");
}

}  // namespace

absl::Status CheckFileName(absl::string_view name) {
  bool good = !name.empty() && name.size() <= kMaxFileName && name[0] != '.' &&
              name[0] != '-' && absl::EndsWith(name, ".safetensors");
  for (char c : name)
    good = good && (absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-');
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", PrintableText(name),
                   "' cannot be the name of a snapshot's file: letters, "
                   "digits, '.', '_' and '-' only, and "
                   "'.safetensors' at the end"));
}

absl::StatusOr<std::string> ManifestText(const Manifest& manifest) {
  json object = ManifestJson(manifest);
  PARAPET_ASSIGN_OR_RETURN(const uint64_t hash, SelfHash(object));
  object[kHashKey] = HexText(hash);
  PARAPET_ASSIGN_OR_RETURN(std::string text, DumpJson(object, 1));
  PARAPET_RETURN_IF_ERROR(ParseManifest(text).status());
  return text + "\n";
}

absl::StatusOr<Manifest> ParseManifest(absl::string_view text) {
  if (static_cast<int64_t>(text.size()) >= kMaxManifestBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a manifest of ", text.size(), " bytes is over the ",
                     kMaxManifestBytes, " allowed"));
  }
  PARAPET_ASSIGN_OR_RETURN(json object, ParseJson(text, kMaxDepth));
  PARAPET_ASSIGN_OR_RETURN(const std::string format,
                           JsonString(object, "format"));
  if (format != kFormat) {
    return absl::InvalidArgumentError(absl::StrCat(
        "its format is '", PrintableText(format), "', not '", kFormat, "'"));
  }
  PARAPET_RETURN_IF_ERROR(CheckSelfHash(object));
  Manifest manifest;
  PARAPET_ASSIGN_OR_RETURN(manifest.version, JsonUint(object, "version"));
  PARAPET_ASSIGN_OR_RETURN(manifest.layout_hash,
                           JsonHex(object, "layout_hash"));
  PARAPET_RETURN_IF_ERROR(ParseTensors(object, manifest));
  PARAPET_ASSIGN_OR_RETURN(manifest.job, JsonString(object, "job"));
  PARAPET_ASSIGN_OR_RETURN(manifest.weights_hash,
                           JsonHex(object, "weights_hash"));
  PARAPET_ASSIGN_OR_RETURN(manifest.epoch, JsonUint(object, "epoch"));
  PARAPET_ASSIGN_OR_RETURN(manifest.position, JsonUint(object, "position"));
  PARAPET_ASSIGN_OR_RETURN(manifest.term, JsonUint(object, "term"));
  PARAPET_RETURN_IF_ERROR(ParseFiles(object, manifest));
  PARAPET_ASSIGN_OR_RETURN(manifest.lead_state,
                           JsonString(object, "lead_state"));
  return manifest;
}

}  // namespace parapet
