// What an attacker works out of the honest workers' vectors is what they push,
// bit for bit.
#include "worker/honest_vectors.h"

#include <memory>

#include "common/checkpoint.h"
#include "common/memory_disk.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/dataset.h"

namespace parapet {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kSeed = 3, kSamples = 200;
constexpr double kBeta = 0.9;

// A worker with a model and samples of its own: nothing is shared with another.
class Replica {
 public:
  Replica()
      : data_(std::move(*LoadData("synthetic:12,4,200", kSeed))),
        model_(*MakeModel("mlp:8", data_.train->shape(), {})),
        device_(MakeCpuDevice()) {}

  Contribution contribution(double beta) const {
    return {model_.get(), device_.get(), beta};
  }
  GatherShare gather() {
    return [this](uint64_t epoch, const Share& share) {
      const auto permutation = EpochPermutation(kSeed, epoch, kSamples);
      inputs_.resize(share.count * data_.train->shape().features());
      labels_.resize(share.count);
      data_.train->Gather(
          absl::MakeConstSpan(permutation).subspan(share.begin, share.count),
          inputs_.data(), labels_.data());
      return Batch{inputs_.data(), labels_.data(),
                   static_cast<int64_t>(share.count)};
    };
  }
  const Layout& layout() const { return model_->layout(); }

 private:
  DataSplits data_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Device> device_;
  std::vector<float> inputs_;
  std::vector<int32_t> labels_;
};

std::vector<float> WeightsOf(const Layout& layout, uint64_t version) {
  std::vector<float> weights(layout.elements());
  Initialize(layout, kSeed + version, {0, layout.elements()}, weights.data());
  return weights;
}

// What workers push, each with its own model, in rounds of 22 samples.
class HonestWorker {
 public:
  explicit HonestWorker(double beta)
      : beta_(beta), momentum(replica_.layout().elements()) {}

  std::vector<float> Push(uint64_t position, uint64_t members, uint64_t index,
                          const std::vector<float>& weights) {
    std::vector<float> vector(weights.size());
    const Share share = ShareOf(position, 22, members, index);
    EXPECT_TRUE(replica_.contribution(beta_)
                    .Compute(weights.data(), replica_.gather()(1, share),
                             momentum.data(), vector.data())
                    .ok());
    return vector;
  }

 private:
  Replica replica_;
  const double beta_;

 public:
  std::vector<float> momentum;
};

void ExpectVectors(const HonestVectors& known,
                   const std::vector<std::vector<float>>& pushed) {
  ASSERT_EQ(known.vectors().size(), pushed.size());
  for (size_t k = 0; k < pushed.size(); ++k) {
    const std::vector<float> vector(known.vectors()[k],
                                    known.vectors()[k] + pushed[k].size());
    EXPECT_EQ(vector, pushed[k]) << "of worker " << known.ids()[k];
  }
}

TEST(HonestVectorsTest, AreWhatTheyPush) {
  for (const double beta : {0.0, kBeta}) {
    Replica replica;
    HonestVectors known(replica.contribution(beta), 3, replica.gather());
    MemoryDisk disk;
    ASSERT_TRUE(known.Prepare(disk, "").ok());
    std::vector<HonestWorker> workers;
    for (int k = 0; k < 3; ++k) workers.emplace_back(beta);
    for (uint64_t round = 0; round < 4; ++round) {
      const std::vector<float> weights = WeightsOf(replica.layout(), round);
      const uint64_t position = 22 * round;
      std::vector<std::vector<float>> pushed;
      for (uint64_t k = 0; k < 3; ++k)
        pushed.push_back(workers[k].Push(position, 5, k, weights));
      const std::vector<uint32_t> members = {0, 1, 2, 3, 4};
      ASSERT_TRUE(known.Learn(1, position, 22, members, weights.data()).ok());
      EXPECT_THAT(known.ids(), ElementsAre(0, 1, 2));
      ExpectVectors(known, pushed);
    }
  }
}

TEST(HonestVectorsTest, SharesAreThoseOfWhoIsThere) {
  Replica replica;
  HonestVectors known(replica.contribution(0), 3, replica.gather());
  MemoryDisk disk;
  ASSERT_TRUE(known.Prepare(disk, "").ok());
  const std::vector<float> weights = WeightsOf(replica.layout(), 0);
  HonestWorker zero(0), two(0);
  const std::vector<uint32_t> members = {0, 2, 3};
  ASSERT_TRUE(known.Learn(1, 40, 22, members, weights.data()).ok());
  EXPECT_THAT(known.ids(), ElementsAre(0, 2));
  ExpectVectors(known,
                {zero.Push(40, 3, 0, weights), two.Push(40, 3, 1, weights)});
  // With one sample for all, who gets none is not among them.
  ASSERT_TRUE(known.Learn(1, 0, 1, members, weights.data()).ok());
  EXPECT_THAT(known.ids(), ElementsAre(0));
}

TEST(HonestVectorsTest, MomentumComesFromTheSnapshot) {
  Replica replica;
  const int64_t d = replica.layout().elements();
  MemoryDisk disk;
  const std::string folder = "/s/step-000000000007";
  std::vector<float> momentum(d);
  for (int64_t j = 0; j < d; ++j) momentum[j] = static_cast<float>(j);
  ASSERT_TRUE(disk.MakeDir(PartialPath("/s", 7)).ok());
  const Section section{"momentum", {{0, d}}, {momentum.data()}};
  const auto file =
      WriteShardFile(disk, PartialPath("/s", 7), WorkerFileName(1),
                     replica.layout(), {section});
  ASSERT_TRUE(file.ok()) << file.status();
  const std::vector<float> weights = WeightsOf(replica.layout(), 0);
  const Section shard{"weights", {{0, d}}, {weights.data()}};
  const auto server = WriteShardFile(
      disk, PartialPath("/s", 7), ServerFileName(0), replica.layout(), {shard});
  ASSERT_TRUE(server.ok()) << server.status();
  Manifest manifest;
  manifest.version = 7;
  manifest.files = {*server, *file};
  for (const Tensor& tensor : replica.layout().tensors())
    manifest.tensors.push_back(tensor);
  manifest.layout_hash = replica.layout().hash();
  ASSERT_TRUE(CommitSnapshot(disk, "/s", manifest, 3).ok());

  HonestVectors known(replica.contribution(kBeta), 2, replica.gather());
  ASSERT_TRUE(known.Prepare(disk, folder).ok());
  HonestWorker zero(kBeta), one(kBeta);
  one.momentum = momentum;
  const std::vector<uint32_t> members = {0, 1, 2};
  ASSERT_TRUE(known.Learn(1, 0, 22, members, weights.data()).ok());
  ExpectVectors(known,
                {zero.Push(0, 3, 0, weights), one.Push(0, 3, 1, weights)});
}

}  // namespace
}  // namespace parapet
