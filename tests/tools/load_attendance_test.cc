#include "tools/load_attendance.h"

#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parapet {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

AttackPlan Plan(AttackKind kind, int workers, int attackers) {
  return {.attack = {.kind = kind},
          .text = "",
          .workers = workers,
          .attackers = attackers};
}

Lease LeaseOf(uint64_t from, uint64_t until, const std::vector<uint32_t>& ids) {
  Lease lease;
  lease.from = from;
  lease.until = until;
  for (const uint32_t id : ids) lease.members.push_back({id, 1});
  return lease;
}

std::vector<int> All(const LoadTurnout& turnout) {
  std::vector<int> all = turnout.honest;
  all.insert(all.end(), turnout.attackers.begin(), turnout.attackers.end());
  return all;
}

std::set<std::vector<int>> Candidates(const LoadAttendance& attendance,
                                      uint64_t round, int server) {
  std::set<std::vector<int>> all;
  for (int i = 0;; ++i) {
    const auto turnout = attendance.Candidate(round, server, i);
    if (!turnout.has_value()) return all;
    all.insert(All(*turnout));
  }
}

TEST(LoadAttendanceTest, WithoutALeaseItIsEverybody) {
  const LoadAttendance attendance(Plan(AttackKind::kNone, 3, 0), 0, 0);
  EXPECT_THAT(Candidates(attendance, 0, 0), ElementsAre(ElementsAre(0, 1, 2)));
}

TEST(LoadAttendanceTest, MembersAreThoseOfTheRoundsLease) {
  LoadAttendance attendance(Plan(AttackKind::kNone, 4, 0), 0, 0);
  attendance.NoteLease(LeaseOf(0, 2, {0, 1, 2, 3}));
  attendance.NoteLease(LeaseOf(2, 4, {0, 2}));
  EXPECT_THAT(Candidates(attendance, 1, 0),
              ElementsAre(ElementsAre(0, 1, 2, 3)));
  EXPECT_THAT(Candidates(attendance, 2, 0), ElementsAre(ElementsAre(0, 2)));
  // Not heard of yet.
  EXPECT_THAT(Candidates(attendance, 9, 0), ElementsAre(ElementsAre(0, 2)));
}

TEST(LoadAttendanceTest, WhoHasNotPushedIsOutAndTheLastMayBeLate) {
  // Players 1 to 3 are ours.
  LoadAttendance attendance(Plan(AttackKind::kNone, 5, 0), 1, 3);
  attendance.NoteLease(LeaseOf(0, 1, {0, 1, 2, 3, 4}));
  for (const int id : {3, 1}) attendance.NotePush(id, 0);
  EXPECT_THAT(All(*attendance.Candidate(0, 0, 0)), ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(All(*attendance.Candidate(0, 0, 1)), ElementsAre(0, 3, 4));
  EXPECT_THAT(All(*attendance.Candidate(0, 0, 2)), ElementsAre(0, 4));
  EXPECT_EQ(attendance.Candidate(0, 0, 3), std::nullopt);
}

TEST(LoadAttendanceTest, SilentAttackersAreNeverThere) {
  const LoadAttendance attendance(Plan(AttackKind::kSilent, 4, 2), 0, 0);
  for (const int server : {0, 1})
    EXPECT_THAT(Candidates(attendance, 3, server),
                ElementsAre(ElementsAre(0, 1)));
}

TEST(LoadAttendanceTest, PartialAttackersMayBeThereOnOtherServersOnly) {
  const LoadAttendance attendance(Plan(AttackKind::kPartial, 4, 2), 0, 0);
  EXPECT_THAT(Candidates(attendance, 3, 0), ElementsAre(ElementsAre(0, 1)));
  EXPECT_THAT(All(*attendance.Candidate(3, 1, 0)), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(All(*attendance.Candidate(3, 1, 1)), ElementsAre(0, 1));
}

TEST(LoadAttendanceTest, OthersMayBeInOrOutInAllWays) {
  const LoadAttendance attendance(Plan(AttackKind::kFlood, 5, 3), 0, 0);
  EXPECT_EQ(Candidates(attendance, 0, 0).size(), 8u);
  // Or only together, where they are many.
  const LoadAttendance many(Plan(AttackKind::kFlood, 200, 100), 0, 0);
  EXPECT_EQ(Candidates(many, 0, 0).size(), 2u);
  EXPECT_EQ(many.Candidate(0, 0, 0)->count(), 200);
  EXPECT_EQ(many.Candidate(0, 0, 1)->count(), 100);
}

TEST(LoadAttendanceTest, NobodyMayBeThere) {
  LoadAttendance attendance(Plan(AttackKind::kNone, 2, 0), 0, 2);
  attendance.NoteLease(LeaseOf(0, 1, {0, 1}));
  EXPECT_THAT(All(*attendance.Candidate(0, 0, 0)), IsEmpty());
}

}  // namespace
}  // namespace parapet
