#include "tools/aggregate.h"

#include <cmath>
#include <sstream>

#include "common/memory_disk.h"
#include "common/npy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace parapet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class AggregateTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::vector<int64_t>& shape,
             const std::vector<float>& values) {
    ASSERT_TRUE(WriteNpy(disk_, path, shape, values).ok());
  }
  int Run(std::vector<std::string> args) {
    out_.str("");
    err_.str("");
    args.insert(args.begin(), "--input=/x.npy");
    return RunAggregate(disk_, args, out_, err_);
  }
  // The last line of standard output.
  nlohmann::json Explained() {
    std::string text = out_.str();
    text.pop_back();
    return nlohmann::json::parse(text.substr(text.rfind('\n') + 1));
  }

  MemoryDisk disk_;
  std::ostringstream out_, err_;
};

TEST_F(AggregateTest, PrintsNineDigits) {
  Write("/x.npy", {3, 2}, {0.1f, 1e10f, 0.1f, -3, 0.1f, 2});
  ASSERT_EQ(Run({"--rule=median", "--byzantine=1"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "0.100000001\n2\n");
  EXPECT_THAT(err_.str(), IsEmpty());
}

TEST_F(AggregateTest, WritesFloat32) {
  Write("/x.npy", {2, 2}, {1, 2, 2, 4});
  ASSERT_EQ(Run({"--output=/y.npy"}), 0) << err_.str();
  EXPECT_THAT(out_.str(), IsEmpty());
  const auto array = ReadNpy(disk_, "/y.npy", 10);
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_THAT(array->shape, ElementsAre(2));
  EXPECT_THAT(array->values, ElementsAre(1.5f, 3));
}

TEST_F(AggregateTest, ExplainsOnTheLastLine) {
  Write("/x.npy", {5, 1}, {0, 1, 6, 9, 13});
  ASSERT_EQ(Run({"--rule=krum", "--byzantine=1", "--explain"}), 0)
      << err_.str();
  EXPECT_EQ(out_.str().substr(0, 2), "9\n");
  const nlohmann::json json = Explained();
  EXPECT_EQ(json["selected"], nlohmann::json({3}));
  EXPECT_EQ(json["weights"], nlohmann::json({0, 0, 0, 1, 0}));
  // Of 9: 3 to 6 and 4 to 13, squared.
  EXPECT_EQ(json["scores"], nlohmann::json({37, 26, 34, 25, 65}));
  EXPECT_EQ(json["stages"].size(), 1u);
  EXPECT_EQ(json["bad"], false);
}

TEST_F(AggregateTest, ShardsDoNotMatter) {
  std::vector<float> values(9 * 40000);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = std::sin(static_cast<float>(i * i % 1000003));
  Write("/x.npy", {9, 40000}, values);
  for (const char* rule : {"--rule=nnm + trimmed_mean", "--rule=krum",
                           "--rule=bucketing(2) + median"}) {
    std::vector<std::string> seen;
    for (const char* shards : {"--shards=1", "--shards=2", "--shards=7"}) {
      ASSERT_EQ(Run({rule, "--byzantine=2", shards, "--output=/y.npy"}), 0);
      seen.push_back(*ReadWholeFile(disk_, "/y.npy", 1 << 20));
    }
    EXPECT_EQ(seen[0], seen[1]) << rule;
    EXPECT_EQ(seen[0], seen[2]) << rule;
  }
}

TEST_F(AggregateTest, NamesTheRowsLeftOut) {
  Write("/x.npy", {4, 2}, {1, 1, NAN, 1, 2, 2, 3, 3});
  ASSERT_EQ(Run({"--rule=nnm + median", "--byzantine=1", "--explain"}), 0);
  EXPECT_THAT(err_.str(), HasSubstr("row 1 is left out: it sent a value"));
  EXPECT_EQ(Explained()["left_out"][0]["row"], 1);
  EXPECT_EQ(Explained()["weights"][1], 0);
  ASSERT_EQ(Run({"--rule=median", "--byzantine=1"}), 0);
  EXPECT_THAT(err_.str(), HasSubstr("row 1 is left out at 1 coordinate: "));
  EXPECT_EQ(out_.str(), "2\n1.5\n");
}

TEST_F(AggregateTest, ABadRoundIsZeroAndSaysSo) {
  Write("/x.npy", {4, 1}, {1, NAN, NAN, 3});
  ASSERT_EQ(Run({"--rule=mda", "--byzantine=1", "--explain"}), 0);
  EXPECT_EQ(out_.str().substr(0, 2), "0\n");
  EXPECT_THAT(err_.str(), HasSubstr("the round is bad, its aggregate 0: 2 of "
                                    "4 contributions"));
  EXPECT_EQ(Explained()["bad"], true);
  ASSERT_EQ(Run({"--rule=median", "--byzantine=1", "--explain"}), 0);
  EXPECT_THAT(err_.str(), HasSubstr("the round is bad: 1 coordinates"));
  EXPECT_EQ(Explained()["bad_values"], nlohmann::json({0, 1, 1, 0}));
}

TEST_F(AggregateTest, TheAggregateOfTheRoundBefore) {
  Write("/x.npy", {3, 2}, {1, 1, 1, 1, 1, 1});
  Write("/p.npy", {1, 2}, {1, 1});
  const std::vector<std::string> args = {
      "--rule=centered_clip(tau=0.1, iterations=1)", "--byzantine=1"};
  ASSERT_EQ(Run(args), 0);
  EXPECT_EQ(out_.str(), "0.0707106814\n0.0707106814\n");
  ASSERT_EQ(Run({args[0], args[1], "--previous=/p.npy"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "1\n1\n");
  Write("/p.npy", {3}, {1, 1, 1});
  EXPECT_EQ(Run({args[0], args[1], "--previous=/p.npy"}), 5);
  EXPECT_THAT(err_.str(), HasSubstr("the rows have 2 coordinates"));
  Write("/p.npy", {2}, {1, NAN});
  EXPECT_EQ(Run({args[0], args[1], "--previous=/p.npy"}), 5);
}

TEST_F(AggregateTest, ExitCodes) {
  EXPECT_EQ(Run({}), 5);  // there is no such file
  Write("/x.npy", {6}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(Run({}), 5);
  EXPECT_THAT(err_.str(), HasSubstr("has the shape (6); expected two"));
  Write("/x.npy", {6, 1}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(Run({"--rule=kurm"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("there is no rule 'kurm'"));
  EXPECT_EQ(Run({"--rule=krum", "--byzantine=2"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("needs at least 7 workers"));
  EXPECT_EQ(Run({"--shards=0"}), 2);
  EXPECT_EQ(Run({"--bogus"}), 2);
  EXPECT_EQ(Run({"--output=/no/such/folder/y.npy"}), 1);
  Write("/x.npy", {5, 1}, {1, 2, 3, 4, NAN});
  EXPECT_EQ(Run({"--rule=monna(4)", "--byzantine=2"}), 4);
  EXPECT_THAT(err_.str(), HasSubstr("row 4 is left out: it sent a value"));
  EXPECT_THAT(err_.str(), HasSubstr("monna's pivot, worker 4"));
  EXPECT_EQ(out_.str(), "");
  Write("/x.npy", {3, 1}, {1, NAN, 2});
  EXPECT_EQ(Run({"--rule=krum"}), 4);
  EXPECT_THAT(err_.str(), HasSubstr("row 1 is left out: it sent a value"));
  EXPECT_THAT(err_.str(), HasSubstr("krum with f=0 needs at least 3"));
  EXPECT_EQ(Run({"--help"}), 0);
}

}  // namespace
}  // namespace parapet
