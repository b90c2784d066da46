#include "tools/load_malformed.h"

#include "common/layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parapet {
namespace {

// Most must not even be read; what can be read asks for what no stranger gets.
TEST(LoadMalformedTest, AreMostlyNoMessages) {
  const WireLimits limits = LimitsFor(ShardMap::Create(100000, 2).value());
  Random random(5);
  int readable = 0, long_ones = 0;
  constexpr int kMany = 2000;
  for (int i = 0; i < kMany; ++i) {
    const LoadFrames frames = MakeMalformed(&random);
    ASSERT_FALSE(frames.header.empty());
    long_ones += frames.header.size() > 4096 ? 1 : 0;
    const absl::StatusOr<Message> message =
        Decode(frames.header, Payload::FromString(frames.payload), limits);
    if (!message.ok()) continue;
    ++readable;
    EXPECT_EQ(message->session == 0 || message->term == 0, true);
  }
  EXPECT_GT(readable, kMany / 10);
  EXPECT_LT(readable, kMany / 2);
  EXPECT_GT(long_ones, 0);
}

TEST(LoadMalformedTest, AreTheSameForTheSameSeed) {
  Random a(5), b(5);
  for (int i = 0; i < 100; ++i) {
    const LoadFrames one = MakeMalformed(&a), other = MakeMalformed(&b);
    EXPECT_EQ(one.header, other.header);
    EXPECT_EQ(one.payload, other.payload);
  }
}

}  // namespace
}  // namespace parapet
