#include "common/messages.h"

#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parapet {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

IdSet SetOf(const std::vector<uint32_t>& ids) {
  IdSet set;
  for (uint32_t id : ids) set.Insert(id);
  return set;
}

TEST(MessagesTest, PeersHaveNames) {
  EXPECT_EQ(NameOf(Peer{Role::kWorker, 3}), "worker 3");
  EXPECT_EQ(NameOf(Peer{Role::kEvaluator, 0}), "evaluator 0");
  EXPECT_EQ(NameOf(Peer{Role::kServer, 4294967295u}), "server 4294967295");
}

TEST(MessagesTest, EveryCodeHasANameOfItsOwn) {
  std::set<std::string> names;
  for (uint16_t code = 0; code <= static_cast<uint16_t>(Code::kStopped);
       ++code) {
    names.insert(NameOf(static_cast<Code>(code)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(Code::kStopped) + 1);
  EXPECT_FALSE(names.contains("unknown"));
  // Codes come from the network.
  EXPECT_STREQ(NameOf(static_cast<Code>(16)), "unknown");
  EXPECT_STREQ(NameOf(static_cast<Code>(65535)), "unknown");
}

TEST(MessagesTest, ExitCodesAreThoseOfTheManual) {
  EXPECT_EQ(ExitCodeOf(Code::kOk), 0);
  EXPECT_EQ(ExitCodeOf(Code::kStopped), 0);
  EXPECT_EQ(ExitCodeOf(Code::kFailed), 1);
  EXPECT_EQ(ExitCodeOf(Code::kLost), 3);
  EXPECT_EQ(ExitCodeOf(Code::kTooFew), 4);
  EXPECT_EQ(ExitCodeOf(Code::kBadRounds), 4);
  for (Code code : {Code::kJobDiffers, Code::kAlreadyHere, Code::kLeftOut,
                    static_cast<Code>(999)}) {
    EXPECT_EQ(ExitCodeOf(code), 5);
  }
}

TEST(MessagesTest, PhasesHaveNames) {
  std::set<std::string> names;
  for (int phase = 0; phase < kPhases; ++phase) {
    names.insert(NameOf(static_cast<Phase>(phase)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kPhases));
}

TEST(IdSetTest, HoldsWhatIsPutIn) {
  IdSet set;
  EXPECT_TRUE(set.Empty());
  EXPECT_FALSE(set.Contains(0));
  EXPECT_THAT(set.ToVector(), IsEmpty());
  for (uint32_t id : {70, 3, 3, 0}) set.Insert(id);
  EXPECT_EQ(set.Count(), 3);
  EXPECT_THAT(set.ToVector(), ElementsAre(0, 3, 70));
  EXPECT_TRUE(set.Contains(70));
  EXPECT_FALSE(set.Contains(71));
  EXPECT_FALSE(set.Contains(4294967295u));
  set.Erase(3);
  set.Erase(3);
  set.Erase(4294967295u);
  EXPECT_THAT(set.ToVector(), ElementsAre(0, 70));
}

TEST(IdSetTest, IntersectKeepsWhatIsInBoth) {
  IdSet set = SetOf({1, 2, 5, 90});
  set.Intersect(SetOf({2, 5, 7}));
  EXPECT_THAT(set.ToVector(), ElementsAre(2, 5));
  set.Intersect(SetOf({2, 5, 900}));
  EXPECT_THAT(set.ToVector(), ElementsAre(2, 5));
  set.Intersect(IdSet());
  EXPECT_TRUE(set.Empty());
}

TEST(IdSetTest, EqualSetsAreEqualHoweverTheyCameToBe) {
  IdSet set = SetOf({1, 900});
  EXPECT_FALSE(set == SetOf({1}));
  set.Erase(900);
  EXPECT_TRUE(set == SetOf({1}));
  set.Erase(1);
  EXPECT_TRUE(set == IdSet());
}

}  // namespace
}  // namespace parapet
