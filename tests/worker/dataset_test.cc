#include "worker/dataset.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "common/sampler.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/idx_files.h"
#include "worker/model.h"

namespace parapet {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using testing_idx::Gzip;
using testing_idx::Idx;
using testing_idx::Write;

struct Samples {
  std::vector<float> inputs;
  std::vector<int32_t> labels;
};

Samples Gather(const Dataset& data, const std::vector<uint32_t>& indices) {
  Samples samples{std::vector<float>(indices.size() * data.shape().features()),
                  std::vector<int32_t>(indices.size())};
  data.Gather(indices, samples.inputs.data(), samples.labels.data());
  return samples;
}

Samples GatherAll(const Dataset& data) {
  std::vector<uint32_t> indices(data.samples());
  std::iota(indices.begin(), indices.end(), 0u);
  return Gather(data, indices);
}

// --- IDX folders ---

class IdxDataTest : public ::testing::Test {
 protected:
  IdxDataTest() {
    Put("train-images-idx3-ubyte",
        Idx({3, 1, 2}, {'\x00', '\x33', '\x66', '\x33', '\x00', '\xff'}));
    Put("train-labels-idx1-ubyte", Idx({3}, {9, 0, 4}));
    Put("t10k-images-idx3-ubyte", Idx({1, 1, 2}, {'\x33', '\xff'}));
    Put("t10k-labels-idx1-ubyte", Idx({1}, {7}));
  }

  void Put(const std::string& name, const std::string& bytes) {
    Write(dir_ / name, bytes);
  }
  absl::StatusOr<DataSplits> Load() {
    return LoadData("idx:" + dir_.path(), 1);
  }
  std::string Complaint() {
    const absl::Status status = Load().status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    return std::string(status.message());
  }

  TempDir dir_;
};

TEST_F(IdxDataTest, IsReadAndNormalised) {
  const absl::StatusOr<DataSplits> data = Load();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train->samples(), 3);
  EXPECT_EQ(data->test->samples(), 1);
  EXPECT_EQ(data->train->shape().height, 1);
  EXPECT_EQ(data->train->shape().width, 2);
  EXPECT_EQ(data->train->shape().classes, 10);
  // The training bytes are 0, 1, 2, 1, 0, 5 times 0x33: mean 1.5, variance 31 /
  // 6 - 2.25.
  const double deviation = std::sqrt(31.0 / 6 - 2.25);
  const Samples train = Gather(*data->train, {2, 0, 2});
  EXPECT_EQ(train.labels, (std::vector<int32_t>{4, 9, 4}));
  const double expected[] = {0, 5, 0, 1, 0, 5};
  for (int i = 0; i < 6; ++i)
    EXPECT_NEAR(train.inputs[i], (expected[i] - 1.5) / deviation, 1e-6);
  const Samples test = Gather(*data->test, {0});
  EXPECT_EQ(test.labels[0], 7);
  EXPECT_NEAR(test.inputs[1], (5 - 1.5) / deviation, 1e-6);
}

TEST_F(IdxDataTest, ImagesOfOneColourAreZero) {
  Put("train-images-idx3-ubyte", Idx({3, 1, 2}, std::string(6, 'x')));
  const absl::StatusOr<DataSplits> data = Load();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(GatherAll(*data->train).inputs, Each(0.0f));
}

TEST_F(IdxDataTest, PackedFilesAreTheSame) {
  const Samples plain = GatherAll(*Load()->train);
  std::filesystem::remove(dir_ / "train-images-idx3-ubyte");
  Put("train-images-idx3-ubyte.gz",
      Gzip(Idx({3, 1, 2}, {'\x00', '\x33', '\x66', '\x33', '\x00', '\xff'})));
  EXPECT_EQ(GatherAll(*Load()->train).inputs, plain.inputs);
}

TEST_F(IdxDataTest, NamesWhatIsWrong) {
  Put("train-labels-idx1-ubyte", Idx({3}, {9, 10, 4}));
  EXPECT_THAT(
      Complaint(),
      HasSubstr(
          "train-labels-idx1-ubyte: label 10 of sample 1 is out of range"));
  Put("train-labels-idx1-ubyte", Idx({2}, {9, 4}));
  EXPECT_THAT(Complaint(), HasSubstr("holds 3 images, but"));
  Put("train-labels-idx1-ubyte", Idx({3}, {9, 4}));
  EXPECT_THAT(Complaint(), HasSubstr("train-labels-idx1-ubyte: truncated"));
  Put("train-labels-idx1-ubyte", Idx({3}, {9, 4, 1}));
  Put("t10k-images-idx3-ubyte", Idx({1, 2, 1}, {'\x33', '\xff'}));
  EXPECT_THAT(Complaint(), HasSubstr("1x2, test images 2x1"));
  std::filesystem::remove(dir_ / "t10k-labels-idx1-ubyte");
  const absl::Status status = Load().status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(dir_ / "t10k-labels-idx1-ubyte"));
}

TEST_F(IdxDataTest, EveryTruncationOfEveryFileIsRefused) {
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
    const int64_t size = static_cast<int64_t>(entry.file_size());
    std::string bytes(size, '\0');
    std::ifstream(entry.path(), std::ios::binary).read(bytes.data(), size);
    for (int64_t cut = 0; cut < size; ++cut) {
      Write(entry.path(), bytes.substr(0, cut));
      EXPECT_THAT(Complaint(), HasSubstr(entry.path().filename())) << cut;
    }
    Write(entry.path(), bytes);
  }
  EXPECT_TRUE(Load().ok());
}

TEST(LoadDataTest, RefusesASpecInWords) {
  EXPECT_TRUE(absl::IsInvalidArgument(LoadData("cifar", 1).status()));
  EXPECT_TRUE(absl::IsNotFound(LoadData("idx:/no/such/folder", 1).status()));
}

// --- Fashion-MNIST ---

class FashionMnistTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    absl::StatusOr<DataSplits> data = LoadData("fashion-mnist", 1);
    ASSERT_TRUE(data.ok()) << data.status();
    data_ = new DataSplits(*std::move(data));
  }
  static void TearDownTestSuite() {
    delete data_;
    data_ = nullptr;
  }
  static DataSplits* data_;
};

DataSplits* FashionMnistTest::data_ = nullptr;

TEST_F(FashionMnistTest, IsWhole) {
  ASSERT_EQ(data_->train->samples(), 60000);
  ASSERT_EQ(data_->test->samples(), 10000);
  const Samples train = GatherAll(*data_->train);
  for (int32_t label = 0; label < 10; ++label) {
    EXPECT_EQ(std::count(train.labels.begin(), train.labels.end(), label),
              6000);
  }
  EXPECT_EQ(train.labels[0], 9);
  double sum = 0, squares = 0;
  for (double x : train.inputs) {
    sum += x;
    squares += x * x;
  }
  const double count = static_cast<double>(train.inputs.size());
  // 0.2860 and 0.3530 are rounded to four digits.
  EXPECT_NEAR(sum / count, 0, 0.0001 / 0.353);
  EXPECT_NEAR(squares / count, 1, 3 * 0.0001 / 0.353);
  EXPECT_EQ(train.inputs[0], static_cast<float>(-0.2860 / 0.3530));
}

// Plain SGD; returns the accuracy on the test set.
double Accuracy(const DataSplits& data, const std::string& spec, int64_t batch,
                int rounds, float lr) {
  const std::unique_ptr<Model> model =
      *MakeModel(spec, data.train->shape(), {});
  const int64_t elements = model->layout().elements();
  std::vector<float> weights(elements), gradient(elements);
  Initialize(model->layout(), 1, {0, elements}, weights.data());
  const std::vector<uint32_t> order =
      EpochPermutation(1, 0, data.train->samples());
  for (int r = 0; r < rounds; ++r) {
    const Samples s = Gather(*data.train, {order.begin() + r * batch,
                                           order.begin() + (r + 1) * batch});
    const Batch part{s.inputs.data(), s.labels.data(), batch};
    EXPECT_TRUE(model->Train(weights.data(), part, gradient.data(), {}).ok());
    for (int64_t e = 0; e < elements; ++e) weights[e] -= lr * gradient[e];
  }
  const Samples s = GatherAll(*data.test);
  const int64_t count = std::min<int64_t>(data.test->samples(), 1000);
  const PassResult result = *model->Evaluate(
      weights.data(), {s.inputs.data(), s.labels.data(), count});
  return static_cast<double>(result.correct) /
         static_cast<double>(result.samples);
}

TEST_F(FashionMnistTest, IsLearnt) {
  EXPECT_GT(Accuracy(*data_, "mlp:256,128", 32, 100, 0.05f), 0.65);
  EXPECT_GT(Accuracy(*data_, "cnn:small", 16, 40, 0.05f), 0.45);
}

// --- Synthetic ---

TEST(SyntheticTest, IsAPureFunctionOfSeedAndSample) {
  const DataSplits data = *LoadData("synthetic:6,3,50", 8);
  EXPECT_EQ(data.train->samples(), 50);
  EXPECT_EQ(data.test->samples(), 10);
  EXPECT_EQ(data.train->shape().features(), 6);
  EXPECT_EQ(data.train->shape().classes, 3);
  const Samples train = GatherAll(*data.train);
  // Further samples change none of those before them: the test set follows the
  // training set.
  const Samples longer = GatherAll(*LoadData("synthetic:6,3,60", 8)->train);
  EXPECT_TRUE(std::equal(train.inputs.begin(), train.inputs.end(),
                         longer.inputs.begin()));
  EXPECT_TRUE(std::equal(train.labels.begin(), train.labels.end(),
                         longer.labels.begin()));
  const Samples test = GatherAll(*data.test);
  EXPECT_TRUE(std::equal(test.inputs.begin(), test.inputs.end(),
                         longer.inputs.begin() + 50 * 6));
  EXPECT_NE(GatherAll(*LoadData("synthetic:6,3,50", 9)->train).inputs,
            train.inputs);
}

TEST(SyntheticTest, HasDeviationOne) {
  double squares = 0;
  const Samples samples =
      GatherAll(*LoadData("synthetic:200,50,2000", 8)->train);
  for (double x : samples.inputs) squares += x * x;
  // 50 centres of 200 features, and the noise: within five standard errors,
  // about 0.03.
  EXPECT_NEAR(squares / static_cast<double>(samples.inputs.size()), 1, 0.03);
  for (int32_t label : samples.labels) {
    ASSERT_GE(label, 0);
    ASSERT_LT(label, 50);
  }
}

TEST(SyntheticTest, IsLearnable) {
  EXPECT_GT(
      Accuracy(*LoadData("synthetic:20,4,2000", 5), "softmax", 32, 60, 0.2f),
      0.9);
  EXPECT_GT(
      Accuracy(*LoadData("synthetic:784,10,2000", 5), "mlp:32", 32, 60, 0.1f),
      0.8);
}

}  // namespace
}  // namespace parapet
