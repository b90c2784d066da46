// Jobs that cannot end well: nothing waits for ever, and who is to blame is
// named.

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/memory_disk.h"
#include "tests/sim/cluster.h"
#include "tests/sim/seeds.h"

namespace parapet::sim {
namespace {

// Everybody is there by then, and nobody has ended.
constexpr absl::Duration kMidway = absl::Milliseconds(1300);

class SimulatedEnding : public ::testing::Test {
 protected:
  static Scenario Plain(uint64_t seed) {
    Scenario scenario = MakeScenario(seed, Mood::kCalm);
    scenario.patience.round_deadline = absl::Seconds(2);
    scenario.patience.dead_after = absl::Seconds(4);
    scenario.patience.insufficient_for = absl::Seconds(10);
    scenario.patience.start_timeout = absl::Seconds(15);
    scenario.shortest_work = absl::Milliseconds(150);
    scenario.longest_work = absl::Milliseconds(300);
    scenario.job.rounds = 12;
    scenario.job.epochs = 0;
    scenario.credit_window = 0;
    // Every server has chunks, and every worker samples in every round.
    scenario.tensors = {{"t", {23, 9}, {Initializer::Kind::kUniform, 0.5}}};
    scenario.job.chunk = 16;
    scenario.samples = 10000;
    scenario.own_samples.clear();
    scenario.job.data_split = "shared";
    return scenario;
  }

  // Everybody who is left ended with that code, soon enough, and the lead (or,
  // if there is none, everybody) named `whom`.
  static void Expect(const Scenario& scenario, const RunResult& result,
                     Code code, const std::string& whom,
                     absl::Duration at_most) {
    std::vector<std::string> wrong;
    const auto check = [&](const std::string& name, Code got,
                           const std::string& words) {
      // Rounds without anybody count as left out for all.
      if (code == Code::kTooFew && got == Code::kLeftOut) return;
      if (got != code) {
        wrong.push_back(
            absl::StrCat(name, " ended with ", NameOf(got), ": ", words));
      }
      if (!absl::StrContains(words, whom)) {
        wrong.push_back(
            absl::StrCat(name, " does not name ", whom, ": ", words));
      }
    };
    for (size_t s = 0; s < result.servers.size(); ++s) {
      if (!result.servers[s]) continue;
      check(absl::StrCat("server ", s), result.servers[s]->code,
            result.servers[s]->words);
    }
    for (const auto& [peer, ended] : result.clients) {
      if (ended) check(NameOf(peer), ended->code, ended->words);
    }
    if (result.hung) wrong.push_back("the run hangs");
    if (result.took > at_most) wrong.push_back("it took too long");
    Report(wrong, scenario, result);
  }

  static Scenario WithAll(Scenario scenario, Behaviour behaviour) {
    for (int w = 0; w < scenario.job.workers; ++w) {
      scenario.faults[static_cast<uint32_t>(w)] = {behaviour, 2};
    }
    return scenario;
  }

  const std::unique_ptr<Device> device_ = MakeCpuDevice();
  MemoryDisk disk_;
};

TEST_F(SimulatedEnding, TheLeadCrashes) {
  ForSeeds(5, [&](uint64_t seed) {
    const Scenario scenario = Plain(seed);
    Cluster cluster(scenario, device_.get(), &disk_);
    cluster.CrashAfter("server-0", kMidway);
    const RunResult result = cluster.Run();
    Expect(scenario, result, Code::kLost, "lead", absl::Seconds(15));
  });
}

TEST_F(SimulatedEnding, AServerCrashes) {
  ForSeeds(5, [&](uint64_t seed) {
    Scenario scenario = Plain(seed);
    scenario.job.servers = 3;
    scenario.linger = true;
    Cluster cluster(scenario, device_.get(), &disk_);
    cluster.CrashAfter("server-2", kMidway);
    const RunResult result = cluster.Run();
    Expect(scenario, result, Code::kLost, "server 2 is lost",
           absl::Seconds(15));
  });
}

// Its shard would wait for another decision, and the lead for its shard.
TEST_F(SimulatedEnding, AServerCannotDoWhatTheLeadDecided) {
  ForSeeds(5, [&](uint64_t seed) {
    Scenario scenario = Plain(seed);
    scenario.job.servers = 3;
    scenario.job.workers = 5;
    scenario.job.rule = "krum";
    scenario.job.byzantine = 1;
    scenario.linger = true;
    Cluster cluster(scenario, device_.get(), &disk_);
    cluster.AlterLead([](Body& body) {
      auto* decision = std::get_if<DecisionMessage>(&body);
      if (decision == nullptr || decision->round < 3) return;
      decision->workers.back() += 100;
    });
    const RunResult result = cluster.Run();
    Expect(scenario, result, Code::kFailed,
           "cannot go on: round 3: the lead decided on gradients that are not "
           "here",
           absl::Seconds(15));
  });
}

TEST_F(SimulatedEnding, AWorkerNeverComes) {
  ForSeeds(5, [&](uint64_t seed) {
    Scenario scenario = Plain(seed);
    scenario.job.workers = 3;
    scenario.linger = true;
    Cluster cluster(scenario, device_.get(), &disk_);
    cluster.NeverStart("worker-1");
    const RunResult result = cluster.Run();
    Expect(scenario, result, Code::kLost, "worker 1", absl::Seconds(20));
    EXPECT_TRUE(result.Logged("has waited"));
  });
}

TEST_F(SimulatedEnding, AllWorkersAreSilent) {
  ForSeeds(5, [&](uint64_t seed) {
    Scenario scenario = WithAll(Plain(seed), Behaviour::kSilent);
    scenario.linger = true;
    const RunResult result = Cluster(scenario, device_.get(), &disk_).Run();
    Expect(scenario, result, Code::kTooFew, "too few", absl::Minutes(1));
  });
}

TEST_F(SimulatedEnding, AllWorkersCrash) {
  ForSeeds(5, [&](uint64_t seed) {
    Scenario scenario = WithAll(Plain(seed), Behaviour::kCrash);
    scenario.linger = true;
    const RunResult result = Cluster(scenario, device_.get(), &disk_).Run();
    Expect(scenario, result, Code::kTooFew, "", absl::Minutes(1));
  });
}

TEST_F(SimulatedEnding, StoppedBeforeEverybodyHasCome) {
  ForSeeds(5, [&](uint64_t seed) {
    Scenario scenario = Plain(seed);
    scenario.job.servers = 3;
    scenario.linger = true;
    Cluster cluster(scenario, device_.get(), &disk_);
    cluster.NeverStart("worker-0");
    cluster.StopAfter(seed % 2 == 0 ? "server-0" : "server-1",
                      absl::Seconds(2));
    const RunResult result = cluster.Run();
    Expect(scenario, result, Code::kStopped, "was asked to stop",
           absl::Seconds(4));
  });
}

// What makes a seed worth printing.
TEST_F(SimulatedEnding, ARunIsAPureFunctionOfItsSeed) {
  ForSeeds(5, [&](uint64_t seed) {
    const Scenario scenario = MakeScenario(seed, Mood::kMixed);
    MemoryDisk first_disk, second_disk;
    const RunResult first = Cluster(scenario, device_.get(), &first_disk).Run();
    const RunResult second =
        Cluster(scenario, device_.get(), &second_disk).Run();
    EXPECT_EQ(first.took, second.took);
    EXPECT_EQ(first.log, second.log);
  });
}

}  // namespace
}  // namespace parapet::sim
