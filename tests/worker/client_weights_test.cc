// Weights that a client's user reads where they were received.

#include <vector>

#include "tests/worker/client_fixture.h"
#include "worker/client.h"

namespace parapet {
namespace {

using ::testing::Each;

using ClientWeightsTest = ClientTesting;

TEST_F(ClientWeightsTest, WeightsInOnePieceAreReadWhereTheyAre) {
  Client& client = Joined();
  Servers().GiveLease(0, 1);
  Servers().GiveVersionInOnePiece(0);
  client.BeginRound(NextOf(client));
  std::vector<float> replica(kElements, -1);
  const auto weights = client.Weights({3, 30}, replica.data());
  ASSERT_TRUE(weights.ok());
  for (int64_t i = 3; i < 30; ++i)
    EXPECT_EQ((*weights)[i - 3], FakeServers::WeightOf(0, i / 8)) << i;
  EXPECT_THAT(replica, Each(-1));
  const auto others = client.Weights({30, kElements}, replica.data());
  ASSERT_TRUE(others.ok());
  EXPECT_EQ(*others, *weights + 27);
}

TEST_F(ClientWeightsTest, WeightsInPiecesAreFetched) {
  Client& client = Joined();
  Servers().GiveLease(0, 1);
  Servers().GiveVersion(0);
  client.BeginRound(NextOf(client));
  std::vector<float> replica(kElements, -1);
  const auto weights = client.Weights({7, 9}, replica.data());
  ASSERT_TRUE(weights.ok());
  EXPECT_EQ(*weights, replica.data() + 7);
  for (int64_t i = 0; i < kElements; ++i)
    EXPECT_EQ(replica[i], i < 16 ? FakeServers::WeightOf(0, i / 8) : -1);
  // Within one chunk they are in one piece.
  const auto within = client.Weights({17, 20}, replica.data());
  ASSERT_TRUE(within.ok());
  EXPECT_EQ(**within, FakeServers::WeightOf(0, 2));
  EXPECT_EQ(replica[17], -1);
}

TEST_F(ClientWeightsTest, NewerVersionsLeaveThoseOfTheRoundAlone) {
  Client& client = Joined();
  Servers().GiveLease(0, 9, {{Mark::Kind::kHash, 2}, {Mark::Kind::kHash, 3}});
  Servers().GiveVersionInOnePiece(0);
  client.BeginRound(NextOf(client));
  std::vector<float> replica(kElements);
  const auto weights = client.Weights({0, 8}, replica.data());
  ASSERT_TRUE(weights.ok());
  const std::vector<float> first(8, FakeServers::WeightOf(0, 0));
  Servers().GiveVersion(1);
  Servers().GiveVersion(2);
  // The client tells of a version that is whole.
  Servers().Wait<VersionHashMessage>(1);
  EXPECT_EQ(std::vector<float>(*weights, *weights + 8), first);
  // The next round's are others; its own go when there is a newer version.
  client.BeginRound(NextOf(client));
  Servers().GiveVersion(3);
  Servers().Wait<VersionHashMessage>(2);
  EXPECT_THAT(std::vector<float>(*weights, *weights + 8),
              Each(FakeServers::kSpoilt));
}

}  // namespace
}  // namespace parapet
