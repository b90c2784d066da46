#include "server/store.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/hash.h"
#include "common/memory_disk.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parapet {
namespace {

using ::testing::Each;

constexpr uint64_t kSeed = 7;
constexpr int64_t kElements = 100;

Layout MakeLayout() {
  const Initializer uniform{Initializer::Kind::kUniform, 1};
  return *Layout::Create({{"a", {4, 10}, uniform}, {"b", {60}, uniform}});
}

// Chunks of 16 elements: seven, of which the last has four.
ShardMap MapOf(int servers, int64_t chunk = 16) {
  return *ShardMap::Create(kElements, servers, chunk, 8);
}

OptimizerConfig Optimizer(OptimizerKind kind) {
  OptimizerConfig optimizer;
  optimizer.kind = kind;
  return optimizer;
}

std::vector<float> FloatsOf(const Payload& payload) {
  std::vector<float> values(payload.size() / sizeof(float));
  std::memcpy(values.data(), payload.data(), payload.size());
  return values;
}

std::vector<float> InitialWeights(Range range) {
  std::vector<float> values(range.size());
  Initialize(MakeLayout(), kSeed, range, values.data());
  return values;
}

class StoreTest : public testing::Test {
 protected:
  std::unique_ptr<Store> Make(const ShardMap& map, int server,
                              OptimizerKind kind = OptimizerKind::kSgd,
                              DType wire = DType::kFloat32) {
    auto store =
        std::make_unique<Store>(map, server, Optimizer(kind), wire, *device_);
    EXPECT_TRUE(store->Initialize(layout_, kSeed, 0).ok());
    return store;
  }

  // A step that sets every weight of a chunk to `value`, the moments to
  // `value` + 1 and + 2, and what is sent to `sent`.
  static void Step(Store* store, int64_t local, uint64_t version, float value,
                   uint16_t sent = 0) {
    const StepTarget target = store->TargetOf(local);
    const int64_t n = store->RangeOf(local).size();
    std::fill(target.out, target.out + n, value);
    if (target.moment1)
      std::fill(target.moment1, target.moment1 + n, value + 1);
    if (target.moment2)
      std::fill(target.moment2, target.moment2 + n, value + 2);
    if (target.publish) {
      auto* out = static_cast<uint16_t*>(target.publish);
      std::fill(out, out + n, sent);
    }
    store->Advance(local, version);
  }

  const Layout layout_ = MakeLayout();
  const std::unique_ptr<Device> device_ = MakeCpuDevice();
};

TEST_F(StoreTest, BeginsWithTheInitialWeightsOfItsChunks) {
  const ShardMap map = MapOf(2);
  for (int server : {0, 1}) {
    const auto store = Make(map, server);
    ASSERT_EQ(store->chunks(), server == 0 ? 4 : 3);
    for (int64_t local = 0; local < store->chunks(); ++local) {
      const Range range = store->RangeOf(local);
      EXPECT_EQ(range, map.ChunkRange(server + 2 * local));
      EXPECT_EQ(FloatsOf(store->Published(0, local)), InitialWeights(range));
    }
  }
}

TEST_F(StoreTest, AShardMayBeEmpty) {
  const auto store = Make(MapOf(9), 8);
  EXPECT_EQ(store->chunks(), 0);
  EXPECT_EQ(*store->MasterHash(), 0u);
  EXPECT_EQ(store->WireHash(0), 0u);
}

TEST_F(StoreTest, AStepLeavesWhatIsPublishedAlone) {
  const auto store = Make(MapOf(1), 0);
  const Payload before = store->Published(0, 2);
  const std::vector<float> values = FloatsOf(before);
  Step(store.get(), 2, 1, 5);
  Step(store.get(), 2, 2, 6);
  EXPECT_EQ(FloatsOf(before), values);
  EXPECT_EQ(FloatsOf(store->Published(0, 2)), values);
  EXPECT_THAT(FloatsOf(store->Published(1, 2)), Each(5));
  EXPECT_THAT(FloatsOf(store->Published(2, 2)), Each(6));
  // Other chunks have no version 1 yet.
  EXPECT_TRUE(store->Published(1, 1).empty());
}

TEST_F(StoreTest, AStepReadsTheWeightsOfTheStepBefore) {
  for (DType wire : {DType::kFloat32, DType::kBFloat16}) {
    const auto store = Make(MapOf(1), 0, OptimizerKind::kSgd, wire);
    EXPECT_EQ(store->TargetOf(3).in[5], InitialWeights(store->RangeOf(3))[5]);
    Step(store.get(), 3, 1, 5);
    EXPECT_EQ(store->TargetOf(3).in[5], 5);
  }
}

// On a float32 wire what is sent is the weights themselves, not a copy.
TEST_F(StoreTest, WeightsAreWrittenOnce) {
  const auto store = Make(MapOf(1), 0);
  const StepTarget target = store->TargetOf(1);
  EXPECT_EQ(target.publish, nullptr);
  store->Advance(1, 1);
  EXPECT_EQ(static_cast<const void*>(store->Published(1, 1).data()),
            static_cast<const void*>(target.out));
}

TEST_F(StoreTest, TheChunksOfAVersionLieSideBySide) {
  for (const DType wire : {DType::kFloat32, DType::kBFloat16}) {
    const ShardMap map = MapOf(1, 32);
    const auto store = Make(map, 0, OptimizerKind::kSgd, wire);
    for (uint64_t version = 0; version < 4; ++version) {
      for (int64_t local = 1; local < store->chunks(); ++local) {
        const Payload below = store->Published(version, local - 1);
        EXPECT_EQ(store->Published(version, local).data(),
                  below.data() + below.size());
      }
      // In the order in which they are pushed.
      for (int64_t local = store->chunks(); local-- > 0;)
        Step(store.get(), local, version + 1, 1);
    }
  }
}

// Where some of a version's chunks were carried, the next one's lie side by
// side again.
TEST_F(StoreTest, CarriedChunksDoNotSplitLaterVersions) {
  for (const DType wire : {DType::kFloat32, DType::kBFloat16}) {
    const auto store = Make(MapOf(1, 32), 0, OptimizerKind::kSgd, wire);
    // A later chunk than those that are carried, before them and after.
    Step(store.get(), 3, 1, 1);
    store->Carry(0, 1);
    Step(store.get(), 2, 1, 1);
    store->Carry(1, 1);
    for (uint64_t version = 2; version < 4; ++version) {
      for (int64_t local = 0; local < store->chunks(); ++local)
        Step(store.get(), local, version, 1);
      for (int64_t local = 1; local < store->chunks(); ++local) {
        const Payload below = store->Published(version, local - 1);
        EXPECT_EQ(store->Published(version, local).data(),
                  below.data() + below.size());
      }
    }
  }
}

// Two versions of the weights take turns when nobody holds an older one.
TEST_F(StoreTest, TheMemoryOfAVersionIsUsedAgain) {
  const auto store = Make(MapOf(1), 0);
  std::set<const void*> places;
  for (uint64_t version = 0; version < 9; ++version) {
    if (version > 1) store->Drop(version - 2);
    places.insert(store->Published(version, 0).data());
    for (int64_t local = store->chunks(); local-- > 0;)
      Step(store.get(), local, version + 1, 1);
  }
  EXPECT_LE(places.size(), 3u);
}

// Also when one chunk is ahead of the others, or carried.
TEST_F(StoreTest, AChunkNeverHasTheMemoryOfAnother) {
  const auto store = Make(MapOf(1), 0);
  Step(store.get(), 2, 1, 5);
  Step(store.get(), 1, 1, 6);
  store->Carry(0, 1);
  Step(store.get(), 2, 2, 7);
  Step(store.get(), 0, 2, 8);
  EXPECT_EQ(FloatsOf(store->Published(1, 0)),
            InitialWeights(store->RangeOf(0)));
  EXPECT_THAT(FloatsOf(store->Published(1, 1)), Each(6));
  EXPECT_THAT(FloatsOf(store->Published(1, 2)), Each(5));
  EXPECT_THAT(FloatsOf(store->Published(2, 2)), Each(7));
  EXPECT_THAT(FloatsOf(store->Published(2, 0)), Each(8));
}

TEST_F(StoreTest, ANarrowWireIsPublishedApartFromTheWeights) {
  const auto store = Make(MapOf(1), 0, OptimizerKind::kSgd, DType::kBFloat16);
  std::vector<std::byte> encoded(16 * 2);
  const std::vector<float> initial = InitialWeights(store->RangeOf(1));
  device_->Encode(initial.data(), 16, DType::kBFloat16, 1, encoded.data());
  const Payload first = store->Published(0, 1);
  ASSERT_EQ(first.size(), encoded.size());
  EXPECT_EQ(std::memcmp(first.data(), encoded.data(), encoded.size()), 0);

  const StepTarget target = store->TargetOf(1);
  EXPECT_EQ(target.publish_dtype, DType::kBFloat16);
  ASSERT_NE(target.publish, nullptr);
  EXPECT_EQ(target.in, target.out);  // nobody else sees them
  store->Advance(1, 1);
  EXPECT_EQ(static_cast<const void*>(store->Published(1, 1).data()),
            target.publish);
  EXPECT_EQ(std::memcmp(first.data(), encoded.data(), encoded.size()), 0);
  EXPECT_EQ(store->Published(0, 6).size(), 4 * 2u);  // the short chunk
}

TEST_F(StoreTest, MomentsBeginAtZeroAndAreThoseOfTheOptimizer) {
  struct Case {
    OptimizerKind kind;
    int moments;
  };
  for (const Case& c :
       {Case{OptimizerKind::kSgd, 0}, Case{OptimizerKind::kMomentum, 1},
        Case{OptimizerKind::kAdamW, 2}}) {
    const auto store = Make(MapOf(1), 0, c.kind);
    const StepTarget target = store->TargetOf(0);
    EXPECT_EQ(target.moment1 != nullptr, c.moments > 0);
    EXPECT_EQ(target.moment2 != nullptr, c.moments > 1);
    for (const float* moment : {target.moment1, target.moment2}) {
      if (moment == nullptr) continue;
      EXPECT_THAT(std::vector<float>(moment, moment + 16), Each(0));
    }
    store->Advance(0, 1);
    EXPECT_EQ(store->TargetOf(0).moment1, target.moment1);
  }
}

TEST_F(StoreTest, ACarriedVersionIsTheOneBefore) {
  for (DType wire : {DType::kFloat32, DType::kFloat16}) {
    const auto store = Make(MapOf(1), 0, OptimizerKind::kSgd, wire);
    Step(store.get(), 2, 1, 5, 9);
    store->Carry(2, 2);
    EXPECT_EQ(store->Published(2, 2).data(), store->Published(1, 2).data());
    store->Drop(1);
    EXPECT_FALSE(store->Published(2, 2).empty());
    EXPECT_EQ(store->TargetOf(2).in[0], 5);
  }
}

TEST_F(StoreTest, ADroppedVersionLivesOnWithWhoIsBeingSentIt) {
  const auto store = Make(MapOf(1), 0);
  const Payload held = store->Published(0, 2);
  const std::vector<float> values = FloatsOf(held);
  for (uint64_t v = 1; v < 9; ++v) {
    Step(store.get(), 2, v, static_cast<float>(v));
    store->Drop(v - 1);
    EXPECT_TRUE(store->Published(v - 1, 2).empty());
  }
  EXPECT_EQ(FloatsOf(held), values);
  store->Drop(100);  // never was
}

TEST_F(StoreTest, AggregatesAreKeptUntilTheyAreDropped) {
  const auto store = Make(MapOf(1), 0);
  EXPECT_FALSE(store->HasAggregate(1));
  float* aggregate = store->AggregateOf(1);
  aggregate[15] = 3;
  EXPECT_TRUE(store->HasAggregate(1));
  EXPECT_FALSE(store->HasAggregate(0));
  EXPECT_EQ(store->AggregateOf(1), aggregate);
  store->DropAggregates();
  EXPECT_FALSE(store->HasAggregate(1));
}

TEST_F(StoreTest, HashesAddUpToTheSameForAnyNumberOfServersAndAnyChunk) {
  const std::vector<float> all = InitialWeights({0, kElements});
  const uint64_t whole = HashLeaves(
      {reinterpret_cast<const std::byte*>(all.data()), all.size() * 4}, 0, 4,
      8);
  uint64_t narrow = 0;
  for (int servers : {1, 2, 3, 9}) {
    for (int64_t chunk : {8, 16, 64}) {
      const ShardMap map = MapOf(servers, chunk);
      uint64_t master = 0, wire = 0, narrow_wire = 0;
      for (int server = 0; server < servers; ++server) {
        const auto store = Make(map, server);
        master += *store->MasterHash();
        wire += store->WireHash(0);
        narrow_wire += Make(map, server, OptimizerKind::kSgd, DType::kBFloat16)
                           ->WireHash(0);
      }
      EXPECT_EQ(master, whole);
      EXPECT_EQ(wire, whole);
      if (narrow == 0) narrow = narrow_wire;
      EXPECT_EQ(narrow_wire, narrow);
      EXPECT_NE(narrow_wire, whole);
    }
  }
}

TEST_F(StoreTest, TheHashIsOfTheNewestWeights) {
  const auto store = Make(MapOf(1), 0);
  const uint64_t before = *store->MasterHash();
  Step(store.get(), 2, 1, 5);
  EXPECT_NE(*store->MasterHash(), before);
}

TEST_F(StoreTest, WhatIsFrozenStaysAsItWas) {
  for (DType wire : {DType::kFloat32, DType::kBFloat16}) {
    const auto store = Make(MapOf(1), 0, OptimizerKind::kAdam, wire);
    for (int64_t i = 0; i < store->chunks(); ++i) Step(store.get(), i, 1, 5);
    const Store::Frozen frozen = *store->Freeze();
    for (int64_t i = 0; i < store->chunks(); ++i) Step(store.get(), i, 2, 50);
    store->Drop(1);
    for (int64_t i = 0; i < store->chunks(); ++i) Step(store.get(), i, 3, 60);
    ASSERT_EQ(frozen.sections.size(), 3u);
    for (size_t s = 0; s < 3; ++s) {
      const Section& section = frozen.sections[s];
      ASSERT_EQ(section.ranges.size(), 7u);
      for (size_t i = 0; i < 7; ++i) {
        const float* v = section.values[i];
        EXPECT_THAT(std::vector<float>(v, v + section.ranges[i].size()),
                    Each(static_cast<float>(5 + s)));
      }
    }
  }
}

TEST_F(StoreTest, ThePreviousAggregateIsKeptWhereTheRuleNeedsIt) {
  EXPECT_EQ(Make(MapOf(1), 0)->PreviousOf(0), nullptr);
  Store store(MapOf(1), 0, Optimizer(OptimizerKind::kSgd), DType::kFloat32,
              *device_, true);
  ASSERT_TRUE(store.Initialize(layout_, kSeed, 0).ok());
  for (int64_t i = 0; i < store.chunks(); ++i) {
    float* previous = store.PreviousOf(i);
    ASSERT_NE(previous, nullptr);
    const int64_t size = store.RangeOf(i).size();
    EXPECT_THAT(std::vector<float>(previous, previous + size), Each(0));
    std::fill(previous, previous + size, 7.0f);
  }
  const Store::Frozen frozen = *store.Freeze();
  for (int64_t i = 0; i < store.chunks(); ++i) store.PreviousOf(i)[0] = 8;
  ASSERT_EQ(frozen.sections.size(), 2u);
  EXPECT_EQ(frozen.sections[1].name, "previous");
  ASSERT_EQ(frozen.sections[1].values.size(), 7u);
  EXPECT_EQ(frozen.sections[1].values[6][0], 7);
}

// ---- Snapshots --------------------------------------------------------------

class StoreLoadTest : public StoreTest {
 protected:
  // A snapshot of version 3, written by `servers` servers: every weight is its
  // chunk's number, moments are one and two more.
  Snapshot WriteSnapshot(int servers) {
    const ShardMap map = MapOf(servers);
    Manifest manifest;
    manifest.version = 3;
    manifest.layout_hash = layout_.hash();
    for (const Tensor& t : layout_.tensors()) manifest.tensors.push_back(t);
    for (int server = 0; server < servers; ++server) {
      const auto store = Make(map, server, OptimizerKind::kAdam);
      for (int64_t i = 0; i < store->chunks(); ++i) {
        Step(store.get(), i, 1, static_cast<float>(map.ChunkOf(server, i)));
      }
      const auto entry =
          WriteShardFile(disk_, PartialPath("snap", 3), ServerFileName(server),
                         layout_, store->Freeze()->sections);
      EXPECT_TRUE(entry.ok()) << entry.status();
      if (entry.ok()) manifest.files.push_back(*entry);
    }
    EXPECT_TRUE(CommitSnapshot(disk_, "snap", manifest, 1).ok());
    auto snapshot = OpenSnapshot(disk_, "snap/" + SnapshotName(3));
    EXPECT_TRUE(snapshot.ok()) << snapshot.status();
    return snapshot.ok() ? *snapshot : Snapshot();
  }

  MemoryDisk disk_;
};

TEST_F(StoreLoadTest, ASnapshotIsLoadedByAnyNumberOfServers) {
  ASSERT_TRUE(disk_.MakeDir("snap").ok());
  const Snapshot snapshot = WriteSnapshot(3);
  for (int servers : {1, 2, 5}) {
    const ShardMap map = MapOf(servers);
    for (int server = 0; server < servers; ++server) {
      Store store(map, server, Optimizer(OptimizerKind::kAdam), DType::kFloat32,
                  *device_);
      const absl::Status status = store.Load(disk_, snapshot, layout_);
      ASSERT_TRUE(status.ok()) << status;
      for (int64_t i = 0; i < store.chunks(); ++i) {
        const auto chunk = static_cast<float>(map.ChunkOf(server, i));
        EXPECT_THAT(FloatsOf(store.Published(3, i)), Each(chunk));
        const StepTarget target = store.TargetOf(i);
        EXPECT_EQ(target.in[0], chunk);
        EXPECT_EQ(target.moment1[0], chunk + 1);
        EXPECT_EQ(target.moment2[0], chunk + 2);
      }
    }
  }
}

TEST_F(StoreLoadTest, ThePreviousAggregateIsLoadedByAnyNumberOfServers) {
  ASSERT_TRUE(disk_.MakeDir("snap").ok());
  Store writer(MapOf(1), 0, Optimizer(OptimizerKind::kSgd), DType::kFloat32,
               *device_, true);
  ASSERT_TRUE(writer.Initialize(layout_, kSeed, 3).ok());
  for (int64_t i = 0; i < writer.chunks(); ++i)
    writer.PreviousOf(i)[0] = static_cast<float>(i + 1);
  Manifest manifest;
  manifest.version = 3;
  manifest.layout_hash = layout_.hash();
  for (const Tensor& t : layout_.tensors()) manifest.tensors.push_back(t);
  const auto entry =
      WriteShardFile(disk_, PartialPath("snap", 3), ServerFileName(0), layout_,
                     writer.Freeze()->sections);
  ASSERT_TRUE(entry.ok()) << entry.status();
  manifest.files.push_back(*entry);
  ASSERT_TRUE(CommitSnapshot(disk_, "snap", manifest, 1).ok());
  const auto snapshot = OpenSnapshot(disk_, "snap/" + SnapshotName(3));
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  for (int server = 0; server < 3; ++server) {
    Store store(MapOf(3), server, Optimizer(OptimizerKind::kSgd),
                DType::kFloat32, *device_, true);
    ASSERT_TRUE(store.Load(disk_, *snapshot, layout_).ok());
    for (int64_t i = 0; i < store.chunks(); ++i) {
      EXPECT_EQ(store.PreviousOf(i)[0],
                static_cast<float>(MapOf(3).ChunkOf(server, i) + 1));
      EXPECT_EQ(store.PreviousOf(i)[1], 0);
    }
  }
}

// The job may have had another rule before.
TEST_F(StoreLoadTest, WithoutAPreviousAggregateItBeginsAtZero) {
  ASSERT_TRUE(disk_.MakeDir("snap").ok());
  const Snapshot snapshot = WriteSnapshot(1);
  Store store(MapOf(1), 0, Optimizer(OptimizerKind::kAdam), DType::kFloat32,
              *device_, true);
  ASSERT_TRUE(store.Load(disk_, snapshot, layout_).ok());
  EXPECT_EQ(store.PreviousOf(0)[0], 0);
}

TEST_F(StoreLoadTest, ASnapshotOfAnotherModelIsRefused) {
  ASSERT_TRUE(disk_.MakeDir("snap").ok());
  const Snapshot snapshot = WriteSnapshot(1);
  const Layout other = *Layout::Create({{"c", {kElements}, {}}});
  Store store(MapOf(1), 0, Optimizer(OptimizerKind::kSgd), DType::kFloat32,
              *device_);
  EXPECT_FALSE(store.Load(disk_, snapshot, other).ok());
}

}  // namespace
}  // namespace parapet
