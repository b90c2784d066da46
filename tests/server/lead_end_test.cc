// The lead: snapshots, weights hashes, evaluations and the end of the job.

#include <string>
#include <vector>

#include "server/lead.h"
#include "tests/server/lead_fixture.h"

namespace parapet {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A job that writes a snapshot of version 2 on its way.
LeadConfig WithSnapshots(int servers, int workers, int64_t rounds = 100) {
  LeadConfig config = JobOf(servers, workers, rounds);
  config.snapshot.dir = "snap";
  config.snapshot.every = 2;
  return config;
}

bool Commits(const LeadEffects& effects) {
  return !AllOf<Lead::CommitIt>(effects).empty();
}

// ---- Snapshots --------------------------------------------------------------

TEST(LeadSnapshotTest, IsCommittedOnceEveryServerHasItsFileAndItsHash) {
  LeadTesting t(WithSnapshots(2, 1));
  t.Gather();
  t.FinishRound(0, {0});
  t.FinishRound(1, {0});
  EXPECT_FALSE(Commits(t.SnapshotDone(ServerPeer(1), 2)));
  EXPECT_FALSE(Commits(t.Hash(ServerPeer(0), 2, 10, 1)));
  EXPECT_FALSE(Commits(t.SnapshotDone(ServerPeer(0), 2)));
  EXPECT_FALSE(Commits(t.PassTime(absl::Seconds(60))));
  const auto commit = TheOne<Lead::CommitIt>(t.Hash(ServerPeer(1), 2, 11, 1));
  EXPECT_EQ(commit.manifest.version, 2u);
  EXPECT_EQ(commit.manifest.term, 5u);
  EXPECT_EQ(commit.manifest.layout_hash, 77u);
  EXPECT_EQ(commit.manifest.epoch, 0u);
  EXPECT_EQ(commit.manifest.position, 8u);  // two rounds of 4
  EXPECT_EQ(commit.manifest.weights_hash, 21u);
  EXPECT_THAT(commit.manifest.files, SizeIs(2));
  EXPECT_THAT(commit.manifest.job, HasSubstr("batch=4"));
  // Only once.
  EXPECT_FALSE(Commits(t.SnapshotDone(ServerPeer(1), 2)));
  EXPECT_FALSE(Commits(t.PassTime(absl::Seconds(1))));
}

TEST(LeadSnapshotTest, WaitsForWorkersThatHaveMomentum) {
  LeadConfig config = WithSnapshots(1, 2);
  config.job.worker_momentum = 0.9;
  config.patience.grace = absl::Seconds(20);
  for (const bool late : {false, true}) {
    LeadTesting t(config);
    t.Gather();
    t.FinishRound(0, {0, 1});
    t.FinishRound(1, {0, 1});
    t.Hashes(2, {0, 1});
    EXPECT_FALSE(Commits(t.SnapshotDone(WorkerPeer(1), 2)));
    EXPECT_FALSE(Commits(t.SnapshotDone(ServerPeer(0), 2)));
    EXPECT_FALSE(Commits(t.PassTime(absl::Milliseconds(9950))));
    const LeadEffects all = late ? t.PassTime(absl::Milliseconds(50))
                                 : t.SnapshotDone(WorkerPeer(0), 2);
    EXPECT_THAT(TheOne<Lead::CommitIt>(all).manifest.files,
                SizeIs(late ? 2 : 3));
  }
}

TEST(LeadSnapshotTest, AWorkerHasOneFileWhateverItSays) {
  LeadConfig config = WithSnapshots(1, 2);
  config.job.worker_momentum = 0.9;
  LeadTesting t(config);
  t.Gather();
  SnapshotDoneMessage lie{2, true, {"server-000", 1, 1}, ""};
  t.Do(Lead::SnapshotDoneIn{WorkerPeer(1), lie});
  lie.file.name = "../../etc/passwd";
  t.Do(Lead::SnapshotDoneIn{WorkerPeer(0), lie});
  t.Hashes(2, {0, 1});
  const auto commit = TheOne<Lead::CommitIt>(t.SnapshotDone(ServerPeer(0), 2));
  std::vector<std::string> names;
  for (const FileEntry& f : commit.manifest.files) names.push_back(f.name);
  EXPECT_THAT(names, testing::UnorderedElementsAre(
                         WorkerFileName(0), WorkerFileName(1), "server 0"));
}

TEST(LeadSnapshotTest, GoesWithoutAWorkerThatCouldNotWrite) {
  LeadConfig config = WithSnapshots(1, 1);
  config.job.worker_momentum = 0.9;
  LeadTesting t(config);
  t.Gather();
  t.SnapshotDone(WorkerPeer(0), 2, false);
  t.Hashes(2, {0});
  const LeadEffects all = t.SnapshotDone(ServerPeer(0), 2);
  EXPECT_THAT(TheOne<Lead::CommitIt>(all).manifest.files, SizeIs(1));
  EXPECT_THAT(Warnings(all), HasSubstr("without worker 0: disk full"));
}

TEST(LeadSnapshotTest, IsGivenUpWhenAServerCannotWrite) {
  LeadTesting t(WithSnapshots(2, 1));
  t.Gather();
  EXPECT_THAT(Warnings(t.SnapshotDone(ServerPeer(1), 2, false)),
              HasSubstr("no snapshot of version 2: server 1: disk full"));
  t.Hashes(2, {0});
  EXPECT_FALSE(Commits(t.SnapshotDone(ServerPeer(0), 2)));
}

TEST(LeadSnapshotTest, OfAnUnknownVersionIsIgnored) {
  LeadTesting t(WithSnapshots(1, 1));
  t.Gather();
  EXPECT_THAT(t.SnapshotDone(WorkerPeer(0), 3), IsEmpty());
  EXPECT_THAT(t.SnapshotDone(WorkerPeer(0), ~uint64_t{0}), IsEmpty());
}

// A disk can be slower than many rounds with a hash each.
TEST(LeadSnapshotTest, IsCommittedHoweverManyHashesComeInBetween) {
  LeadConfig config = WithSnapshots(1, 1);
  config.job.hash_every = 1;
  LeadTesting t(config);
  t.Gather();
  for (uint64_t r = 0; r < 40; ++r) {
    t.FinishRound(r, {0});
    t.Hashes(r + 1, {0});
  }
  EXPECT_TRUE(Commits(t.SnapshotDone(ServerPeer(0), 2)));
}

TEST(LeadSnapshotTest, IsCommittedWhateverHashesAWorkerMakesUp) {
  LeadTesting t(WithSnapshots(1, 1));
  t.Gather();
  t.FinishRound(0, {0});
  t.FinishRound(1, {0});
  t.Hash(ServerPeer(0), 2, 10, 1);
  for (uint64_t i = 0; i < 100; ++i) {
    t.Hash(WorkerPeer(0), i, 0, 1);
    t.Hash(WorkerPeer(0), ~i, 0, 1);
  }
  EXPECT_TRUE(Commits(t.SnapshotDone(ServerPeer(0), 2)));
}

// ---- The end ----------------------------------------------------------------

bool Finished(const LeadEffects& effects) {
  return !AllOf<Lead::Finish>(effects).empty();
}

TEST(LeadEndTest, WaitsForEverything) {
  LeadConfig config = JobOf(2, 2, 3);
  config.snapshot.dir = "snap";
  config.evaluators = 1;
  LeadTesting t(config);
  t.Gather();
  for (uint64_t r = 0; r < 3; ++r) t.FinishRound(r, {0, 1});
  EXPECT_FALSE(Finished(t.Hash(ServerPeer(0), 3, 10, 1)));
  EXPECT_FALSE(Finished(t.Hash(ServerPeer(1), 3, 11, 1)));
  EXPECT_FALSE(Finished(t.Hash(WorkerPeer(0), 3, 0, 2)));
  EXPECT_FALSE(Finished(t.Hash(WorkerPeer(1), 3, 0, 2)));
  t.SnapshotDone(ServerPeer(0), 3);
  EXPECT_TRUE(Commits(t.SnapshotDone(ServerPeer(1), 3)));
  EXPECT_FALSE(Finished(t.Do(Lead::CommittedIn{3, absl::OkStatus()})));
  const LeadEffects all = t.Report(3);
  EXPECT_TRUE(TheOne<Lead::Evaluated>(all).last);
  ASSERT_EQ(Told<ByeMessage>(all).size(), 1u);
  EXPECT_EQ(Told<ByeMessage>(all)[0].code, Code::kOk);
  const JobSummary summary = TheOne<Lead::Finish>(all).summary;
  EXPECT_TRUE(summary.complete);
  EXPECT_EQ(summary.rounds, 3u);
  EXPECT_EQ(summary.weights_hash, 21u);
  EXPECT_EQ(summary.evaluated_version, 3u);
  EXPECT_EQ(summary.test_accuracy, 0.5);
  EXPECT_EQ(summary.test_loss, 2);
  EXPECT_TRUE(std::holds_alternative<Lead::Finish>(all.back()));
}

TEST(LeadEndTest, WhoHoldsOtherWeightsIsNamed) {
  LeadConfig config = JobOf(2, 2, 1);
  LeadTesting t(config);
  t.Gather();
  t.FinishRound(0, {0, 1});
  t.Hash(WorkerPeer(0), 1, 0, 2);
  t.Hash(WorkerPeer(1), 1, 0, 3);
  t.Hash(ServerPeer(0), 1, 10, 1);
  const std::string words = Warnings(t.Hash(ServerPeer(1), 1, 11, 1));
  EXPECT_THAT(words, HasSubstr("worker 1 holds other weights of version 1"));
  EXPECT_THAT(words, testing::Not(HasSubstr("worker 0")));
}

TEST(LeadEndTest, MadeUpHashesDoNotHideOtherWeights) {
  LeadTesting t(JobOf(1, 2, 100));
  t.Gather();
  for (uint64_t i = 0; i < 100; ++i) t.Hash(WorkerPeer(0), ~i, 0, 1);
  t.Hash(WorkerPeer(1), 1, 0, 3);
  EXPECT_THAT(Warnings(t.Hash(ServerPeer(0), 1, 10, 1)),
              HasSubstr("worker 1 holds other weights of version 1"));
}

TEST(LeadEndTest, SaysWhatItWaitsFor) {
  LeadConfig config = JobOf(1, 2, 1);
  config.snapshot.dir = "snap";
  config.evaluators = 1;
  config.patience.round_deadline = absl::Seconds(30);
  LeadTesting t(config);
  t.Gather();
  t.FinishRound(0, {0, 1});
  t.Hash(WorkerPeer(0), 1, 0, 1);
  EXPECT_THAT(Warnings(t.PassTime(absl::Milliseconds(9950))), IsEmpty());
  EXPECT_THAT(Warnings(t.PassTime(absl::Milliseconds(50))),
              testing::AllOf(HasSubstr("the snapshot of version 1"),
                             HasSubstr("the servers' weights hashes"),
                             HasSubstr("worker 1 to have"),
                             HasSubstr("the last evaluation"),
                             testing::Not(HasSubstr("worker 0 to have"))));
}

TEST(LeadEndTest, DoesNotWaitForever) {
  LeadConfig config = JobOf(1, 1, 100);
  config.patience.grace = absl::Seconds(5);
  LeadTesting t(config);
  t.Gather();
  t.Do(Lead::StopIn{"SIGTERM"});
  EXPECT_FALSE(Finished(t.PassTime(absl::Milliseconds(4950))));
  auto finish = TheOne<Lead::Finish>(t.PassTime(absl::Milliseconds(50)));
  EXPECT_EQ(finish.summary.code, Code::kFailed);
  EXPECT_THAT(finish.summary.words, HasSubstr("the stop version"));
  config = JobOf(1, 1, 1);
  config.evaluators = 1;
  LeadTesting ended(config);
  ended.Gather();
  ended.FinishRound(0, {0});
  ended.Hashes(1, {0});
  finish = TheOne<Lead::Finish>(ended.PassTime(absl::Minutes(11)));
  EXPECT_EQ(finish.summary.code, Code::kFailed);
  EXPECT_THAT(finish.summary.words, HasSubstr("the last evaluation"));
}

TEST(LeadEndTest, AWorkerThatOnlyAnswersPingsIsWaitedForLikeInARound) {
  LeadConfig config = JobOf(1, 2, 1);
  config.patience.round_deadline = absl::Seconds(3);
  LeadTesting t(config);
  t.Gather();
  t.FinishRound(0, {0, 1});
  t.Hashes(1, {0});
  EXPECT_FALSE(Finished(t.PassTime(absl::Milliseconds(2950))));
  EXPECT_TRUE(TheOne<Lead::Finish>(t.PassTime(absl::Milliseconds(50)))
                  .summary.complete);
}

TEST(LeadEndTest, DoesNotWaitForWhoIsLost) {
  LeadConfig config = JobOf(1, 2, 1);
  config.evaluators = 1;
  LeadTesting t(config);
  t.Gather();
  t.FinishRound(0, {0, 1});
  t.Hashes(1, {0});
  EXPECT_FALSE(Finished(t.Do(Lead::LeaveIn{EvaluatorPeer(0), "tired"})));
  t.Do(Lead::LeaveIn{WorkerPeer(1), "tired"});
  EXPECT_TRUE(TheOne<Lead::Finish>(t.PassTime(absl::Milliseconds(50)))
                  .summary.complete);
}

TEST(LeadEndTest, ALastSnapshotThatFailsIsAFailure) {
  LeadConfig config = JobOf(1, 1, 1);
  config.snapshot.dir = "snap";
  for (const bool server : {true, false}) {
    LeadTesting t(config);
    t.Gather();
    t.FinishRound(0, {0});
    t.Hashes(1, {0});
    LeadEffects all = t.SnapshotDone(ServerPeer(0), 1, !server);
    if (!server) {
      all = t.Do(Lead::CommittedIn{1, absl::DataLossError("no space")});
    }
    const auto finish = TheOne<Lead::Finish>(all);
    EXPECT_EQ(finish.summary.code, Code::kFailed);
    EXPECT_THAT(finish.summary.words,
                HasSubstr(server ? "disk full" : "no space"));
  }
}

TEST(LeadEndTest, ALostServerMattersUntilTheEnd) {
  LeadTesting t(JobOf(2, 1, 1));
  t.Gather();
  t.FinishRound(0, {0});
  t.Silence(ServerPeer(1));
  EXPECT_EQ(TheOne<Lead::Finish>(t.PassTime(absl::Seconds(11))).summary.code,
            Code::kLost);
}

TEST(LeadEndTest, ReportsWithoutSamplesAndOldOnesAreIgnored) {
  LeadConfig config = JobOf(1, 1, 3);
  config.evaluators = 1;
  LeadTesting t(config);
  t.Gather();
  EXPECT_THAT(t.Do(Lead::EvalReportIn{0, {2, 0, 0, 0, 0}}), IsEmpty());
  EXPECT_FALSE(TheOne<Lead::Evaluated>(t.Report(2)).last);
  EXPECT_THAT(t.Report(2), IsEmpty());
  EXPECT_THAT(t.Report(1), IsEmpty());
  EXPECT_EQ(t.lead().GetProgress(t.now()).accuracy, 0.5);
}

// It would wait for that shard for ever.
TEST(LeadEndTest, AServerThatCannotGoOnEndsTheJob) {
  LeadTesting t(JobOf(2, 2, 30));
  t.Gather();
  const LeadEffects effects = t.Do(Lead::CannotIn{1, "round 0: no such row"});
  const auto summary = TheOne<Lead::Finish>(effects).summary;
  EXPECT_EQ(summary.code, Code::kFailed);
  EXPECT_EQ(summary.words, "server 1 cannot go on: round 0: no such row");
  ASSERT_EQ(Told<ByeMessage>(effects).size(), 1u);
  EXPECT_EQ(Told<ByeMessage>(effects)[0].words, summary.words);
}

// ---- Summary and progress ---------------------------------------------------

TEST(LeadSummaryTest, AddsUpWhatWasDone) {
  LeadConfig config = JobOf(2, 2, 30);
  LeadTesting t(config);
  t.Gather();
  for (uint64_t r = 0; r < 30; ++r) {
    for (uint32_t w = 0; w < 2; ++w) {
      const auto sum = static_cast<double>(4 * r);
      t.Do(Lead::RoundDoneIn{w, {r, sum, 0, 4, {1, 0, 0, 0, 3}}});
    }
    t.PassTime(absl::Milliseconds(100));
    for (int s = 0; s < 2; ++s) {
      ShardDoneMessage done;
      done.round = r;
      done.participants = {0, 1};
      done.bytes_pushed = (r + 1) * 100;
      done.bytes_published = (r + 1) * 50;
      t.Do(Lead::ShardDoneIn{s, done});
    }
  }
  const auto summary = TheOne<Lead::Finish>(t.Hashes(30, {0, 1})).summary;
  EXPECT_EQ(summary.samples, 30 * 8u);
  EXPECT_EQ(summary.bytes_pushed, 6000u);
  EXPECT_EQ(summary.bytes_published, 3000u);
  // The mean of rounds 10 to 29, each with a loss of its number.
  EXPECT_EQ(summary.final_loss, 19.5);
  // 8 samples in 100 ms.
  EXPECT_NEAR(summary.samples_per_second, 80, 1e-9);
  EXPECT_NEAR(summary.phases[0], 30, 1e-9);
  EXPECT_NEAR(summary.phases[4], 90, 1e-9);
}

TEST(LeadSummaryTest, ProgressIsOfTheLastSeconds) {
  LeadTesting t(JobOf(1, 2, 1000));
  t.Gather();
  Lead::Progress progress = t.lead().GetProgress(t.now());
  EXPECT_EQ(progress.version, 0u);
  EXPECT_EQ(progress.total, 1000u);
  EXPECT_EQ(progress.members, 2u);
  EXPECT_EQ(progress.samples_per_second, 0);
  for (uint64_t r = 0; r < 150; ++r) {
    t.FinishRound(r, {0, 1}, absl::Milliseconds(100));
  }
  progress = t.lead().GetProgress(t.now());
  EXPECT_EQ(progress.version, 150u);
  EXPECT_EQ(progress.epoch, 1u);  // 125 rounds of 8 are an epoch
  EXPECT_NEAR(progress.samples_per_second, 80, 1);
}

// final_loss is a mean over workers and rounds, whatever one of them repeats.
TEST(LeadSummaryTest, ALossCountsOnceForEachWorkerAndRound) {
  LeadTesting t(JobOf(1, 2, 1000));
  t.Gather();
  const auto report = [&t](uint32_t worker, uint64_t round, double loss,
                           uint64_t samples) {
    t.Do(Lead::RoundDoneIn{worker, {round, loss, 0, samples, {}}});
    return t.lead().GetProgress(t.now()).loss;
  };
  EXPECT_EQ(report(0, 0, 12, 4), 3);
  EXPECT_EQ(report(0, 0, 1e9, 4), 3) << "told again";
  EXPECT_EQ(report(1, 0, 1e9, uint64_t{1} << 63), 3)
      << "more samples than --batch";
  EXPECT_EQ(report(1, 0, 20, 4), 4);
  // 20 rounds later that one is forgotten: a repeat must not count anew.
  for (uint64_t round = 1; round <= 20; ++round) {
    t.FinishRound(round - 1, {0, 1});
    report(0, round, 8, 4);
  }
  EXPECT_EQ(t.lead().GetProgress(t.now()).loss, 2);
  EXPECT_EQ(report(0, 0, 1e9, 4), 2);
}

// A worker that makes up rounds must not push out those that there are.
TEST(LeadSummaryTest, ALossOfARoundThatIsNotLeasedIsIgnored) {
  LeadTesting t(JobOf(1, 2, 1000));
  t.Gather();
  t.Do(Lead::RoundDoneIn{0, {0, 12, 0, 4, {}}});
  for (uint64_t i = 0; i < 30; ++i) {
    t.Do(Lead::RoundDoneIn{1, {~uint64_t{0} - i, 1e9, 0, 1, {}}});
    t.Do(Lead::RoundDoneIn{1, {2 + i, 1e9, 0, 1, {}}});
  }
  EXPECT_EQ(t.lead().GetProgress(t.now()).loss, 3);
}

}  // namespace
}  // namespace parapet
