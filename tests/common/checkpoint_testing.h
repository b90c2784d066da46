#ifndef PARAPET_TESTS_COMMON_CHECKPOINT_TESTING_H_
#define PARAPET_TESTS_COMMON_CHECKPOINT_TESTING_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint.h"
#include "common/hash.h"
#include "common/rng.h"
#include "common/status_macros.h"

namespace parapet {

// Small snapshots for tests: a model whose tensors lie across chunks of 8
// elements.
inline constexpr int64_t kToyLeaf = 4, kToyChunk = 8;

inline std::vector<TensorSpec> ToyTensors() {
  return {{"empty.first", {0}, {}}, {"fc1.weight", {5, 7}, {}},
          {"scale", {}, {}},        {"empty/middle", {0, 3}, {}},
          {"fc1.bias", {7}, {}},    {"a/b-1/2-3", {2, 1, 2}, {}},
          {"last", {6}, {}},        {"empty.last", {2, 0}, {}}};
}

inline Layout ToyLayout() { return Layout::Create(ToyTensors()).value(); }

// Any bits at all: NaNs and negative zeros must come back as they were.
inline std::vector<float> ToyValues(int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    const uint32_t bits = random.Next32();
    std::memcpy(&value, &bits, sizeof(value));
  }
  return values;
}

inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  return a.empty() ||
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline Section ChunksOf(const ShardMap& map, int server,
                        const std::string& name,
                        const std::vector<float>& values) {
  Section section{name, {}, {}};
  for (int64_t local = 0; local < map.ChunksOf(server); ++local) {
    section.ranges.push_back(map.ChunkRange(map.ChunkOf(server, local)));
    section.values.push_back(values.data() + section.ranges.back().begin);
  }
  return section;
}

struct ToyState {
  std::vector<float> weights, moment, momentum;
  ToyState(const Layout& layout, uint64_t seed)
      : weights(ToyValues(layout.elements(), seed * 3)),
        moment(ToyValues(layout.elements(), seed * 3 + 1)),
        momentum(ToyValues(layout.elements(), seed * 3 + 2)) {}
};

// Everything that servers and one worker write before the lead commits.
inline absl::StatusOr<Manifest> WriteToyFiles(Disk& disk,
                                              const std::string& dir,
                                              const Layout& layout,
                                              uint64_t version, int servers,
                                              const ToyState& state) {
  const std::string folder = PartialPath(dir, version);
  PARAPET_ASSIGN_OR_RETURN(
      const ShardMap map,
      ShardMap::Create(layout.elements(), servers, kToyChunk, kToyLeaf));
  Manifest manifest;
  manifest.version = version;
  manifest.layout_hash = layout.hash();
  for (const Tensor& tensor : layout.tensors())
    manifest.tensors.push_back(tensor);
  manifest.job = "model=mlp\nnote=\"x\"\n";
  manifest.weights_hash =
      HashLeaves(absl::MakeConstSpan(
                     reinterpret_cast<const std::byte*>(state.weights.data()),
                     state.weights.size() * sizeof(float)),
                 0, sizeof(float), kToyLeaf);
  manifest.epoch = 3;
  manifest.position = 60000;
  manifest.term = ~uint64_t{0};
  manifest.lead_state = "{ \"strikes\": [1.50] }";
  for (int server = 0; server < servers; ++server) {
    PARAPET_ASSIGN_OR_RETURN(
        FileEntry entry,
        WriteShardFile(disk, folder,
                       absl::StrCat("server-", server, ".safetensors"), layout,
                       {ChunksOf(map, server, "weights", state.weights),
                        ChunksOf(map, server, "moment1", state.moment)}));
    manifest.files.push_back(std::move(entry));
  }
  PARAPET_ASSIGN_OR_RETURN(
      FileEntry entry,
      WriteShardFile(
          disk, folder, "worker-3.safetensors", layout,
          {{"momentum", {{0, layout.elements()}}, {state.momentum.data()}}}));
  manifest.files.push_back(std::move(entry));
  return manifest;
}

inline absl::Status WriteToySnapshot(Disk& disk, const std::string& dir,
                                     uint64_t version, int servers,
                                     uint64_t seed, int keep = 3) {
  const Layout layout = ToyLayout();
  PARAPET_ASSIGN_OR_RETURN(const Manifest manifest,
                           WriteToyFiles(disk, dir, layout, version, servers,
                                         ToyState(layout, seed)));
  return CommitSnapshot(disk, dir, manifest, keep);
}

// Whether a snapshot holds just what WriteToySnapshot wrote with that seed.
inline bool HoldsToyState(Disk& disk, const Snapshot& snapshot, uint64_t seed) {
  const Layout layout = ToyLayout();
  const ToyState state(layout, seed);
  const Range all{0, layout.elements()};
  const auto same = [&](const char* prefix, const char* section,
                        const std::vector<float>& values) {
    std::vector<float> found(values.size());
    return ReadSection(disk, snapshot, layout, prefix, section, all,
                       found.data())
               .ok() &&
           SameBits(found, values);
  };
  return same("server-", "weights", state.weights) &&
         same("server-", "moment1", state.moment) &&
         same("worker-3.", "momentum", state.momentum);
}

}  // namespace parapet

#endif  // PARAPET_TESTS_COMMON_CHECKPOINT_TESTING_H_
