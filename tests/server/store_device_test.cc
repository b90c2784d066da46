// The store over a device whose memory is not the process's: the same bits as
// in the host's memory.

#include <gtest/gtest.h>

#include <cstring>

#include "common/memory_disk.h"
#include "server/store.h"
#include "tests/sim/far_shard.h"

namespace parapet {
namespace {

constexpr uint64_t kSeed = 7;
constexpr int64_t kElements = 100;
const StepFacts kFacts = {0.1, 0.5, 0.25, 1};

class StoreOnDevice : public ::testing::TestWithParam<DType> {
 protected:
  StoreOnDevice() { optimizer_.kind = OptimizerKind::kAdam; }

  std::unique_ptr<Store> Make(const ShardDevice& device) {
    return std::make_unique<Store>(map_, 0, optimizer_, GetParam(), device,
                                   true);
  }

  // A step of each chunk to `version`, by a gradient that depends on it.
  void Step(const ShardDevice& device, uint64_t version, Store* store) {
    for (int64_t local = 0; local < store->chunks(); ++local) {
      const int64_t n = store->RangeOf(local).size();
      std::vector<float> gradient(n);
      for (int64_t j = 0; j < n; ++j)
        gradient[j] = 0.01f * static_cast<float>((j + local) % 7) - 0.02f;
      const Row row = {gradient.data(), DType::kFloat32, 1, 1};
      const StepTarget target = store->TargetOf(local);
      ASSERT_TRUE(device
                      .ReduceStep({}, {&row, 1}, nullptr,
                                  store->PreviousOf(local), n, optimizer_,
                                  kFacts, target)
                      .ok());
      store->Advance(local, version);
    }
  }

  static std::string Bytes(const Store& store, uint64_t version) {
    std::string all;
    for (int64_t local = 0; local < store.chunks(); ++local)
      all += store.Published(version, local).ToString();
    return all;
  }

  static std::vector<std::vector<float>> Values(const Store::Frozen& frozen) {
    std::vector<std::vector<float>> values;
    for (const Section& section : frozen.sections) {
      for (size_t i = 0; i < section.ranges.size(); ++i) {
        values.emplace_back(section.values[i],
                            section.values[i] + section.ranges[i].size());
      }
    }
    return values;
  }

  const Layout layout_ =
      *Layout::Create({{"a", {4, 10}, {Initializer::Kind::kUniform, 1}},
                       {"b", {60}, {Initializer::Kind::kUniform, 1}}});
  const ShardMap map_ = *ShardMap::Create(kElements, 1, 16, 8);
  OptimizerConfig optimizer_;
  const std::unique_ptr<Device> cpu_ = MakeCpuDevice();
  const std::unique_ptr<ShardDevice> host_ = MakeHostShardDevice(*cpu_);
  FarShard far_{*cpu_};
};

TEST_P(StoreOnDevice, IsThatInTheHostsMemory) {
  const auto near = Make(*host_), far = Make(far_);
  ASSERT_TRUE(near->Initialize(layout_, kSeed, 0).ok());
  ASSERT_TRUE(far->Initialize(layout_, kSeed, 0).ok());
  EXPECT_EQ(Bytes(*far, 0), Bytes(*near, 0));
  for (uint64_t version : {1, 2, 3}) {
    Step(*host_, version, near.get());
    Step(far_, version, far.get());
    EXPECT_EQ(Bytes(*far, version), Bytes(*near, version));
    EXPECT_EQ(*far->MasterHash(), *near->MasterHash());
    EXPECT_EQ(far->WireHash(version), near->WireHash(version));
  }
  const auto near_frozen = near->Freeze(), far_frozen = far->Freeze();
  Step(far_, 4, far.get());
  EXPECT_EQ(Values(*far_frozen), Values(*near_frozen));
}

TEST_P(StoreOnDevice, WhatIsPublishedIsNotTouchedByTheNextStep) {
  const auto far = Make(far_);
  ASSERT_TRUE(far->Initialize(layout_, kSeed, 0).ok());
  const Payload before = far->Published(0, 2);
  const std::string bytes = before.ToString();
  Step(far_, 1, far.get());
  Step(far_, 2, far.get());
  EXPECT_EQ(before.ToString(), bytes);
  far->Carry(2, 3);
  EXPECT_EQ(far->Published(3, 2).ToString(), far->Published(2, 2).ToString());
}

TEST_P(StoreOnDevice, ASnapshotIsLoadedThere) {
  const auto near = Make(*host_);
  ASSERT_TRUE(near->Initialize(layout_, kSeed, 0).ok());
  Step(*host_, 1, near.get());
  MemoryDisk disk;
  ASSERT_TRUE(disk.MakeDir("snap").ok());
  Manifest manifest;
  manifest.version = 1;
  manifest.layout_hash = layout_.hash();
  for (const Tensor& t : layout_.tensors()) manifest.tensors.push_back(t);
  const auto entry =
      WriteShardFile(disk, PartialPath("snap", 1), ServerFileName(0), layout_,
                     near->Freeze()->sections);
  ASSERT_TRUE(entry.ok()) << entry.status();
  manifest.files.push_back(*entry);
  ASSERT_TRUE(CommitSnapshot(disk, "snap", manifest, 1).ok());
  const auto snapshot = OpenSnapshot(disk, "snap/" + SnapshotName(1));
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();

  const auto far = Make(far_);
  ASSERT_TRUE(far->Load(disk, *snapshot, layout_).ok());
  EXPECT_EQ(Bytes(*far, 1), Bytes(*near, 1));
  EXPECT_EQ(Values(*far->Freeze()), Values(*near->Freeze()));
}

TEST_P(StoreOnDevice, FailuresAreErrors) {
  for (int calls : {0, 1, 5, 20, 40}) {
    FarShard far(*cpu_);
    const auto store = Make(far);
    far.FailAfter(calls);
    EXPECT_FALSE(store->Initialize(layout_, kSeed, 0).ok()) << calls;
  }
  const auto store = Make(far_);
  ASSERT_TRUE(store->Initialize(layout_, kSeed, 0).ok());
  far_.FailAfter(0);
  EXPECT_FALSE(store->Freeze().ok());
  EXPECT_FALSE(store->MasterHash().ok());
  EXPECT_EQ(store->AggregateOf(0), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Wires, StoreOnDevice,
                         ::testing::Values(DType::kFloat32, DType::kBFloat16));

}  // namespace
}  // namespace parapet
