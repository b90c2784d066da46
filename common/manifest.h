#ifndef PARAPET_COMMON_MANIFEST_H_
#define PARAPET_COMMON_MANIFEST_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint.h"

namespace parapet {

// manifest.json: a Manifest as JSON, with a hash of itself, so that an altered
// one is noticed.

inline constexpr char kManifestName[] = "manifest.json";
inline constexpr int64_t kMaxManifestBytes = int64_t{256} << 20;
inline constexpr int64_t kMaxSnapshotFiles = 100'000;

// InvalidArgument, in words, if ParseManifest would refuse it.
absl::StatusOr<std::string> ManifestText(const Manifest& manifest);

// InvalidArgument for anything but a whole and sensible manifest: its own hash,
// the layout hash over the tensors, plain and different file names, and every
// number in range.
absl::StatusOr<Manifest> ParseManifest(absl::string_view text);

// Whether `name` may be a snapshot's data file: no path, and nothing that a
// shell or system reads otherwise.
absl::Status CheckFileName(absl::string_view name);

}  // namespace parapet

#endif  // PARAPET_COMMON_MANIFEST_H_
