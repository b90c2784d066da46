#include "tests/sim/check.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/sim/seeds.h"

namespace parapet::sim {
namespace {

class Checker {
 public:
  Checker(const Scenario& scenario, const RunResult& result,
          Reference* reference)
      : scenario_(scenario), result_(result), reference_(*reference) {}

  std::vector<std::string> Run() {
    CheckServers();
    CheckClients();
    for (const RoundRecord& record : result_.ledger.records) {
      CheckRecord(record);
    }
    CheckFollows(reference_.Follow(result_.ledger, scenario_.MakeMap()));
    CheckEnd();
    CheckLog();
    return std::move(complaints_);
  }

 private:
  template <typename... Words>
  void Complain(const Words&... words) {
    complaints_.push_back(absl::StrCat(words...));
  }

  bool Honest(uint32_t worker) const {
    return !scenario_.faults.contains(worker);
  }
  bool MayBeLost(uint32_t worker) const {
    return scenario_.may_lose_honest || !Honest(worker);
  }
  bool Hostile() const {
    return std::any_of(scenario_.faults.begin(), scenario_.faults.end(),
                       [](const auto& f) {
                         return f.second.behaviour == Behaviour::kHostile;
                       });
  }

  // Where honest workers may be lost, all of them may be.
  bool LostAllHonest() const {
    if (!scenario_.may_lose_honest) return false;
    for (const auto& [peer, ended] : result_.clients) {
      const bool counts = peer.role == Role::kWorker && Honest(peer.id);
      if (!counts || !ended) continue;
      if (ended->code == Code::kOk || ended->code == Code::kTooFew)
        return false;
    }
    return true;
  }

  void CheckServers() {
    if (result_.hung) Complain("the run hangs");
    for (size_t s = 0; s < result_.servers.size(); ++s) {
      const auto& outcome = result_.servers[s];
      if (!outcome) {
        Complain("server ", s, " did not end");
      } else if (outcome->code == Code::kTooFew && LostAllHonest()) {
        gave_up_ = true;
      } else if (outcome->code != Code::kOk) {
        Complain("server ", s, " ended with ", NameOf(outcome->code), ": ",
                 outcome->words);
      }
    }
  }

  void CheckClients() {
    for (const auto& [peer, ended] : result_.clients) {
      const bool worker = peer.role == Role::kWorker;
      if (worker ? MayBeLost(peer.id) : scenario_.may_lose_honest) continue;
      if (!ended) {
        Complain(NameOf(peer), " did not end");
      } else if (ended->code != Code::kOk) {
        Complain(NameOf(peer), " ended with ", NameOf(ended->code), ": ",
                 ended->words);
      }
    }
  }

  // Members are those who took part, those left out and why, and those who
  // abstained: nobody is missing from the account, nobody is in it twice.
  void CheckRecord(const RoundRecord& record) {
    const Ledger& ledger = result_.ledger;
    std::set<uint32_t> members,
        in(record.participants.begin(), record.participants.end());
    const auto leased = ledger.members.find(record.round);
    if (leased == ledger.members.end()) {
      return Complain("round ", record.round, " was never leased");
    }
    for (const Member& member : leased->second) members.insert(member.id);
    if (in.size() != record.participants.size()) {
      Complain("round ", record.round, " names a participant twice");
    }
    std::set<uint32_t> out;
    for (const RoundRecord::LeftOut& left : record.left_out) {
      out.insert(left.worker);
      CheckLeftOut(record, left, in.contains(left.worker));
    }
    for (uint32_t worker : record.abstained) {
      if (in.contains(worker) || out.contains(worker))
        Complain("round ", record.round, ": worker ", worker,
                 " abstained and did not");
      const bool did = ledger.abstained.contains({worker, record.round});
      if (!did && Honest(worker)) {
        Complain("round ", record.round, ": worker ", worker,
                 " is said to have abstained");
      }
    }
    for (uint32_t worker : in) {
      if (!members.contains(worker)) {
        Complain("round ", record.round, ": worker ", worker,
                 " took part and is no member");
      }
    }
    for (uint32_t worker : members) {
      const bool abstained = ledger.abstained.contains({worker, record.round});
      if (in.contains(worker) || out.contains(worker) || abstained) continue;
      if (!Honest(worker) && Hostile()) continue;  // it may have abstained
      Complain("round ", record.round, " says nothing of worker ", worker);
    }
    for (const RoundRecord::Exception& e : record.exceptions) {
      if (!in.contains(e.what.worker)) continue;
      Complain("round ", record.round, ": worker ", e.what.worker,
               " took part and is an exception");
    }
  }

  void CheckLeftOut(const RoundRecord& record, const RoundRecord::LeftOut& left,
                    bool took_part) {
    if (left.why.empty()) {
      Complain("round ", record.round, " does not say why worker ", left.worker,
               " was left out");
    }
    if (took_part) {
      Complain("round ", record.round, " has worker ", left.worker,
               " both in and left out");
    }
    if (!MayBeLost(left.worker)) {
      Complain("round ", record.round, " leaves out worker ", left.worker,
               ", which did nothing wrong: ", left.why);
    }
  }

  void CheckFollows(const std::vector<std::string>& wrong) {
    for (const std::string& words : wrong) Complain(words);
    for (const std::string& words : result_.ledger.complaints) Complain(words);
  }

  // The job went as far as it should, and all who stayed have the same end.
  void CheckEnd() {
    if (result_.servers.empty() || !result_.servers[0]) return;
    const auto& summary = result_.servers[0]->summary;
    if (!summary) return Complain("the lead has no summary");
    if (summary->rounds != reference_.version()) {
      Complain("the summary has ", summary->rounds, " rounds, the records ",
               reference_.version());
    }
    const auto rounds = static_cast<uint64_t>(scenario_.job.rounds);
    const bool stopped =
        gave_up_ || scenario_.stop_after != absl::InfiniteDuration();
    if (!stopped && rounds > 0 && summary->rounds != rounds) {
      Complain("ended at version ", summary->rounds, " of ", rounds);
    }
    if (!stopped && scenario_.job.epochs > 0) CheckEpochs();
    if (summary->code == Code::kOk &&
        summary->weights_hash != reference_.WeightsHash()) {
      Complain("the summary's weights hash is not that of the weights");
    }
    CheckEvaluation(*summary);
    for (const auto& [peer, ended] : result_.clients) {
      if (!ended || ended->code != Code::kOk) continue;
      const auto newest = result_.ledger.newest.find(peer);
      const bool has = newest != result_.ledger.newest.end() &&
                       newest->second == summary->rounds;
      if (!has) Complain(NameOf(peer), " ended well without the last version");
    }
  }

  // The last version is always measured, unless its evaluator was lost.
  void CheckEvaluation(const JobSummary& summary) {
    if (scenario_.job.evaluators == 0 || scenario_.may_lose_honest) return;
    if (summary.test_accuracy && summary.evaluated_version == summary.rounds) {
      return;
    }
    Complain("version ", summary.evaluated_version,
             " was evaluated last, and not ", summary.rounds);
  }

  // Every sample of every epoch was given out once.
  void CheckEpochs() {
    if (!scenario_.own_samples.empty()) return;
    uint64_t samples = 0;
    for (const RoundRecord& record : result_.ledger.records) {
      const auto facts = result_.ledger.facts.find(record.round);
      if (facts != result_.ledger.facts.end()) samples += facts->second.samples;
    }
    const auto epochs = static_cast<uint64_t>(scenario_.job.epochs);
    if (samples == epochs * scenario_.samples) return;
    Complain(samples, " samples in ", epochs, " epochs of ", scenario_.samples);
  }

  // Nobody is accused of what he did not do.
  void CheckLog() {
    const std::string differs = "holds other weights of version";
    for (const std::string& line : result_.log) {
      if (!absl::StrContains(line, differs)) continue;
      const bool lied = std::any_of(
          scenario_.faults.begin(), scenario_.faults.end(), [&](const auto& f) {
            return absl::StrContains(line,
                                     absl::StrCat("worker ", f.first, " "));
          });
      if (!lied) Complain(line);
    }
    for (const RoundRecord& record : result_.ledger.records) {
      for (const auto& strike : record.strikes) {
        if (!Honest(strike.worker)) continue;
        Complain("round ", record.round, ": worker ", strike.worker,
                 " was struck for ", NameOf(strike.code));
      }
    }
    if (Hostile() || scenario_.stranger) return;
    for (const auto& [code, count] : result_.refusals) {
      if (code == Code::kWrongSession) continue;
      Complain(count, " refusals for ", NameOf(code), " with nobody hostile");
    }
  }

  const Scenario& scenario_;
  const RunResult& result_;
  Reference& reference_;
  bool gave_up_ = false;
  std::vector<std::string> complaints_;
};

}  // namespace

std::vector<std::string> CheckSnapshot(const Scenario& scenario, Disk& disk,
                                       const Reference& reference) {
  if (scenario.snapshot.dir.empty()) return {};
  std::vector<std::string> wrong;
  const auto snapshot = FindSnapshot(disk, scenario.snapshot.dir, &wrong);
  if (!snapshot.ok()) return {snapshot.status().ToString()};
  if (snapshot->manifest.version != reference.version()) {
    wrong.push_back(absl::StrCat("the newest snapshot is of version ",
                                 snapshot->manifest.version, ", not ",
                                 reference.version()));
  }
  std::vector<float> weights(reference.weights().size());
  const absl::Status read =
      ReadSection(disk, *snapshot, scenario.MakeLayout(), "server-", "weights",
                  {0, static_cast<int64_t>(weights.size())}, weights.data());
  if (!read.ok()) wrong.push_back(read.ToString());
  if (weights != reference.weights()) {
    wrong.push_back("the last snapshot has other weights");
  }
  return wrong;
}

std::vector<std::string> CheckRun(const Scenario& scenario,
                                  const RunResult& result,
                                  Reference* reference) {
  return Checker(scenario, result, reference).Run();
}

RunResult RunChecked(const Scenario& scenario, const Device& device, Disk* disk,
                     Reference* reference) {
  RunResult result = Cluster(scenario, &device, disk).Run();
  Report(CheckRun(scenario, result, reference), scenario, result);
  return result;
}

}  // namespace parapet::sim
