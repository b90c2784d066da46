#include "common/executor.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parapet {
namespace {

using ::testing::ElementsAre;

TEST(InlineExecutorTest, WorksAtOnceAndReportsLater) {
  const auto executor = MakeInlineExecutor();
  std::vector<int> events;
  executor->Submit([&] { events.push_back(1); }, [&] { events.push_back(11); });
  executor->Submit([&] { events.push_back(2); }, [&] { events.push_back(12); });
  EXPECT_THAT(events, ElementsAre(1, 2));
  EXPECT_EQ(executor->RunDone(), 2);
  EXPECT_THAT(events, ElementsAre(1, 2, 11, 12));
  EXPECT_EQ(executor->RunDone(), 0);
}

TEST(InlineExecutorTest, WhatIsSubmittedByADoneIsDoneNextTime) {
  const auto executor = MakeInlineExecutor();
  int ended = 0;
  executor->Submit([] {}, [&] { executor->Submit([] {}, [&] { ++ended; }); });
  EXPECT_EQ(executor->RunDone(), 1);
  EXPECT_EQ(ended, 0);
  EXPECT_EQ(executor->RunDone(), 1);
  EXPECT_EQ(ended, 1);
}

// Counts wake-ups, and lets the owner wait for one.
class Bell {
 public:
  void Ring() {
    MutexLock lock(&mutex_);
    ++rings_;
    rang_.SignalAll();
  }
  void WaitFor(int rings) {
    MutexLock lock(&mutex_);
    while (rings_ < rings)
      ASSERT_TRUE(rang_.WaitFor(&mutex_, absl::Seconds(30)));
  }

 private:
  Mutex mutex_;
  CondVar rang_;
  int rings_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST(PoolExecutorTest, WorksElsewhereAndReportsOnTheOwnersThread) {
  Bell bell;
  const auto executor = MakePoolExecutor(3, [&bell] { bell.Ring(); });
  constexpr int kPieces = 200;
  std::atomic<int> worked{0};
  std::atomic<int> here{0};
  int ended = 0;
  const std::thread::id owner = std::this_thread::get_id();
  for (int i = 0; i < kPieces; ++i) {
    executor->Submit(
        [&] {
          ++worked;
          if (std::this_thread::get_id() == owner) ++here;
        },
        [&] {
          EXPECT_EQ(std::this_thread::get_id(), owner);
          ++ended;
        });
  }
  bell.WaitFor(kPieces);
  int reported = 0;
  while (reported < kPieces) {
    const int more = executor->RunDone();
    ASSERT_GT(more, 0);
    reported += more;
  }
  EXPECT_EQ(worked, kPieces);
  EXPECT_EQ(here, 0);
  EXPECT_EQ(ended, kPieces);
  EXPECT_EQ(executor->RunDone(), 0);
}

TEST(PoolExecutorTest, PiecesRunAtOnce) {
  Bell bell;
  const auto executor = MakePoolExecutor(2, [&bell] { bell.Ring(); });
  absl::Notification first, second;
  // Each waits for the other.
  executor->Submit(
      [&] {
        first.Notify();
        second.WaitForNotification();
      },
      [] {});
  executor->Submit(
      [&] {
        second.Notify();
        first.WaitForNotification();
      },
      [] {});
  bell.WaitFor(2);
  EXPECT_EQ(executor->RunDone(), 2);
}

TEST(PoolExecutorTest, EndingWaitsForWhatHasBegunAndDropsTheRest) {
  absl::Notification begun, go_on;
  std::atomic<int> worked{0};
  int ended = 0;
  auto executor = MakePoolExecutor(1, [] {});
  executor->Submit(
      [&] {
        begun.Notify();
        go_on.WaitForNotification();
        ++worked;
      },
      [&] { ++ended; });
  for (int i = 0; i < 10; ++i) {
    executor->Submit([&] { ++worked; }, [&] { ++ended; });
  }
  begun.WaitForNotification();
  std::thread ender([&executor] { executor.reset(); });
  // The ender drops the queue before it waits for the thread, which it can only
  // join once this lets go. Either way nothing that was queued may be reported.
  go_on.Notify();
  ender.join();
  EXPECT_GE(worked, 1);
  EXPECT_EQ(ended, 0);
}

TEST(InlineExecutorTest, WhatIsAbandonedIsNotReported) {
  const auto executor = MakeInlineExecutor();
  int ended = 0;
  executor->Submit([] {}, [&] { ++ended; });
  executor->Abandon();
  EXPECT_EQ(executor->RunDone(), 0);
  EXPECT_EQ(ended, 0);
}

// The owner's memory may go as soon as Abandon returns, and with it what the
// closures hold.
TEST(PoolExecutorTest, AbandoningWaitsForWhatHasBegunAndDropsTheRest) {
  const auto executor = MakePoolExecutor(1, [] {});
  absl::Notification begun, go_on;
  std::atomic<bool> worked = false, queued = false;
  int ended = 0;
  auto held = std::make_shared<int>(0);
  executor->Submit(
      [&, held] {
        begun.Notify();
        go_on.WaitForNotification();
        worked = true;
      },
      [&, held] { ++ended; });
  // The first goes on when the second has been dropped.
  auto dropped =
      std::shared_ptr<void>(nullptr, [&go_on](void*) { go_on.Notify(); });
  executor->Submit([&, dropped] { queued = true; }, [&, held] { ++ended; });
  dropped.reset();
  begun.WaitForNotification();
  executor->Abandon();
  EXPECT_TRUE(worked);
  EXPECT_FALSE(queued);
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_EQ(executor->RunDone(), 0);
  EXPECT_EQ(ended, 0);
}

TEST(PoolExecutorTest, WorksOnAfterItWasAbandoned) {
  Bell bell;
  const auto executor = MakePoolExecutor(1, [&bell] { bell.Ring(); });
  executor->Submit([] {}, [] { FAIL(); });
  executor->Abandon();
  int ended = 0;
  executor->Submit([] {}, [&] { ++ended; });
  const absl::Time until = absl::Now() + absl::Seconds(30);
  while (executor->RunDone() == 0) ASSERT_LT(absl::Now(), until);
  EXPECT_EQ(ended, 1);
}

TEST(PoolExecutorTest, CanBeSubmittedToFromADone) {
  Bell bell;
  const auto executor = MakePoolExecutor(1, [&bell] { bell.Ring(); });
  int ended = 0;
  executor->Submit([] {}, [&] { executor->Submit([] {}, [&] { ++ended; }); });
  bell.WaitFor(1);
  EXPECT_EQ(executor->RunDone(), 1);
  bell.WaitFor(2);
  EXPECT_EQ(executor->RunDone(), 1);
  EXPECT_EQ(ended, 1);
}

}  // namespace
}  // namespace parapet
