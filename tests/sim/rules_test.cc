// Every rule in whole jobs: the same bits and the same selections for any
// number of servers, those of the rule on the whole vector.

#include <gtest/gtest.h>

#include <optional>

#include "common/memory_disk.h"
#include "tests/sim/check.h"
#include "tests/sim/cluster.h"
#include "tests/sim/reference.h"
#include "tests/sim/seeds.h"

namespace parapet::sim {
namespace {

// Enough for bulyan with one liar of two that could be borne by most.
constexpr int kWorkers = 8;

Scenario JobWith(const std::string& rule, int servers) {
  Scenario scenario;
  scenario.job.rule = rule;
  scenario.job.byzantine = 1;
  scenario.job.servers = servers;
  scenario.job.workers = kWorkers;
  scenario.job.rounds = 8;
  scenario.job.batch = 4;
  scenario.job.leaf = scenario.job.chunk = 16;
  scenario.job.optimizer.kind = OptimizerKind::kMomentum;
  scenario.job.schedule.lr = 0.02;
  scenario.job.max_bad_rounds = 1000;
  scenario.samples = 1000;
  scenario.rule_secret = 99;
  scenario.tensors = {{"a", {13, 17}, {Initializer::Kind::kUniform, 0.5}},
                      {"b", {11}, {Initializer::Kind::kUniform, 0.5}}};
  scenario.faults[3] = {Behaviour::kLiar, 1};
  return scenario;
}

class EveryRule : public ::testing::TestWithParam<std::string> {
 protected:
  // Records of a run that follows the reference at every version.
  std::vector<RoundRecord> Run(const Scenario& scenario) {
    MemoryDisk disk;
    Reference reference(scenario, *device_);
    const RunResult result = RunChecked(scenario, *device_, &disk, &reference);
    weights_ = reference.weights();
    return result.ledger.records;
  }
  // As the audit file would have it.
  static std::vector<std::string> Account(
      const std::vector<RoundRecord>& records) {
    std::vector<std::string> lines;
    for (const RoundRecord& record : records)
      lines.push_back(AuditLine(record));
    return lines;
  }

  const std::unique_ptr<Device> device_ = MakeCpuDevice();
  std::vector<float> weights_;
};

TEST_P(EveryRule, IsThatOfTheWholeVectorForAnyNumberOfServers) {
  for (double clip_norm : {0.0, 0.5}) {
    std::optional<std::vector<float>> weights;
    std::optional<std::vector<std::string>> account;
    for (int servers : {1, 2, 3, 7}) {
      Scenario scenario = JobWith(GetParam(), servers);
      scenario.job.clip_norm = clip_norm;
      scenario.seed = static_cast<uint64_t>(servers);
      const auto lines = Account(Run(scenario));
      EXPECT_EQ(lines.size(), 8u);
      if (weights) {
        EXPECT_EQ(weights_, *weights) << servers;
        EXPECT_EQ(lines, *account) << servers;
      }
      weights = weights_;
      account = lines;
    }
  }
}

// What was measured is what is reduced, whatever its sender does to it then.
TEST_P(EveryRule, PushesThatChangeOnceTheyAreMeasured) {
  Scenario scenario = JobWith(GetParam(), 2);
  scenario.pushes_change = true;
  EXPECT_EQ(Run(scenario).size(), 8u);
}

std::string NameOfTest(const ::testing::TestParamInfo<std::string>& info) {
  std::string name;
  for (char c : info.param) name += isalnum(c) ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, EveryRule, ::testing::ValuesIn(SomeRules()),
                         NameOfTest);

}  // namespace
}  // namespace parapet::sim
