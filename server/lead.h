#ifndef PARAPET_SERVER_LEAD_H_
#define PARAPET_SERVER_LEAD_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "common/checkpoint.h"
#include "common/exact_sum.h"
#include "common/job.h"
#include "common/messages.h"
#include "common/sampler.h"
#include "server/audit.h"
#include "server/rules/chain.h"
#include "server/rules/distances.h"
#include "server/rules/pairwise.h"
#include "server/rules/plan.h"

namespace parapet {

struct LeadConfig {
  JobConfig job;
  PatienceConfig patience;
  SnapshotConfig snapshot;
  int evaluators = 0;
  uint64_t layout_hash = 0;
  uint64_t samples =
      0;  // of an epoch; 0 with data_split=own: the largest that a worker has
  std::vector<int64_t> shard_chunks;  // how many chunks each server owns
  uint64_t term = 1;
  // Where the job starts: 0s, or what a snapshot's manifest says.
  uint64_t version = 0, epoch = 0, position = 0;
  std::string resume_from;  // folder of the snapshot; empty: a fresh start
  std::function<std::string(int64_t)>
      describe;  // an element of the flat vector in words
};

// What the job came to, for the summary.
struct JobSummary {
  bool complete = false;  // reached its end, or was stopped as asked
  double final_loss = 0;  // mean over the samples of the last rounds (up to 20)
  std::optional<double> test_accuracy, test_loss;
  uint64_t evaluated_version = 0;
  uint64_t rounds = 0;            // version at the end
  uint64_t samples = 0;           // trained on in this run
  double samples_per_second = 0;  // without the first rounds
  uint64_t weights_hash = 0;
  uint64_t bytes_pushed = 0, bytes_published = 0;  // over all servers
  uint64_t skipped_evaluations = 0;
  std::array<double, kPhases> phases{};   // seconds, mean over the workers
  std::map<uint32_t, uint64_t> left_out;  // worker -> rounds
  std::map<uint32_t, uint64_t> strikes;   // worker -> rounds proven faulty in
  std::map<uint32_t, double> suspicion;   // see RoundRecord
  Code code = Code::kOk;
  std::string words;
};

// The job as a whole, as a pure state machine: who is in it, what happens in
// which round, when it is over. It lives in server 0 and never touches a
// tensor. See docs/architecture.md.
//
// Not thread-safe. Time is whatever the caller says. `random` makes session
// tokens.
class Lead {
 public:
  // A connection that asks to be admitted; only the caller knows what the
  // number means.
  using Via = uint64_t;

  // Events.
  struct HelloIn {
    Via via = 0;
    HelloMessage hello;
  };
  struct PingIn {
    Peer peer;
    PingMessage ping;
  };
  struct LeaveIn {
    Peer peer;
    std::string words;
  };
  struct CannotIn {  // a server cannot go on
    int server = 0;
    std::string words;
  };
  struct StopIn {  // somebody was asked to stop: the job stops
    std::string who;
  };
  struct LoadedIn {
    int server = 0;
    LoadedMessage message;
  };
  struct CompleteIn {
    int server = 0;
    CompleteMessage message;
  };
  struct ShardDoneIn {
    int server = 0;
    ShardDoneMessage message;
  };
  struct NormIn {
    int server = 0;
    NormMessage message;
  };
  struct ReportIn {
    int server = 0;
    ShardReportMessage message;
  };
  struct PlannedIn {  // the answer to MakePlan
    uint64_t round = 0;
    rules::Plan plan;
  };
  struct HashIn {
    Peer peer;
    VersionHashMessage message;
  };
  struct RoundDoneIn {
    uint32_t worker = 0;
    RoundDoneMessage message;
  };
  struct SnapshotDoneIn {
    Peer peer;
    SnapshotDoneMessage message;
  };
  struct CommittedIn {  // the answer to CommitIt
    uint64_t version = 0;
    absl::Status status;
  };
  struct EvalReportIn {
    uint32_t evaluator = 0;
    EvalReportMessage message;
  };
  struct TickIn {};
  using Event = std::variant<HelloIn, PingIn, LeaveIn, CannotIn, StopIn,
                             LoadedIn, CompleteIn, ShardDoneIn, NormIn,
                             ReportIn, PlannedIn, HashIn, RoundDoneIn,
                             SnapshotDoneIn, CommittedIn, EvalReportIn, TickIn>;

  // Effects. Those to peers go over their control connection; to server 0 they
  // are local.
  struct Admit {  // Welcome, with the token as session
    Via via = 0;
    Peer peer;
    uint64_t session = 0;
    WelcomeMessage message;
  };
  struct Refuse {
    Via via = 0;
    RefuseMessage message;
  };
  struct Tell {  // a message to one peer
    Peer peer;
    Body body;
  };
  struct TellServers {
    Body body;
  };
  struct TellAll {  // to servers, workers and evaluators
    Body body;
  };
  // Work out what the rule makes of a round: rules::MakePlan with these.
  struct MakePlan {
    uint64_t round = 0;
    std::vector<int> workers;
    std::vector<bool> finite;
    rules::Distances distances{0};
  };
  struct CommitIt {  // write the manifest and make the snapshot visible
    Manifest manifest;
  };
  struct Log {
    bool warning = false;
    std::string words;
  };
  struct Record {
    RoundRecord record;
  };
  struct Evaluated {
    EvalReportMessage report;
    bool last = false;
  };
  struct Finish {  // every goodbye is among the effects before this one
    JobSummary summary;
  };
  using Effect =
      std::variant<Admit, Refuse, Tell, TellServers, TellAll, MakePlan,
                   CommitIt, Log, Record, Evaluated, Finish>;

  // For the progress line.
  struct Progress {
    uint64_t version = 0, total = 0;  // total 0: not known
    uint64_t epoch = 0;
    double loss = 0;                // mean over the samples of the last rounds
    double samples_per_second = 0;  // over the last seconds
    std::optional<double> accuracy;
    size_t members = 0;
    std::vector<uint32_t> left_out;  // of the newest recorded round
    std::vector<RoundRecord::Suspicion> suspects;  // the most suspect first
  };

  // config.job.rule has been checked (CheckRule).
  Lead(const LeadConfig& config, std::function<uint64_t()> random,
       absl::Time now);

  std::vector<Effect> Handle(Event event, absl::Time now);
  absl::Time NextDeadline() const { return next_tick_; }

  bool finished() const { return finished_; }
  // The token of a peer that is in the job; 0 if it is not.
  uint64_t SessionOf(const Peer& peer) const;
  // What a peer needs to hear again after its connection broke: everything
  // still in force.
  std::vector<Body> Recap(Role role) const;
  Progress GetProgress(absl::Time now) const;
  uint64_t version() const { return version_; }

 private:
  enum class Stage { kGathering, kTraining, kEnding };

  struct Player {
    uint64_t session = 0;
    uint64_t nonce = 0;
    uint64_t samples = 0;
    std::string fingerprint;
    absl::Time heard;
    bool loaded = false;  // servers
    PingMessage last_ping;
    int left_out_in_a_row = 0;
    double suspicion = 0;
    bool gone = false;
    std::string why_gone;
  };
  struct OpenRound {
    std::map<int, IdSet> complete;         // by server, as reported
    std::map<int, ShardDoneMessage> done;  // by server
    std::map<int, ExactSum> norms;         // by server
    std::optional<IdSet> close;            // what was sent
    std::map<uint32_t, std::string> why;   // why a worker was closed out
    std::optional<double> scale;
    // Under a rule on distances.
    std::map<int, ShardReportMessage> reports;  // by server
    bool deciding = false;  // who takes part is settled: no Close any more
    std::optional<rules::Plan> plan;  // what was sent
    std::vector<Member> members;
    RoundFacts facts;
  };
  // Who was proven faulty in a round, by what, in words.
  using Faulty = std::map<uint32_t, std::string>;
  struct PendingSnapshot {
    uint64_t epoch = 0, position = 0;  // where it continues
    std::map<Peer, SnapshotDoneMessage> done;
    bool committing = false;
    std::optional<absl::Time> since;  // when the last server was done
  };

  void On(HelloIn& event);
  void On(PingIn& event);
  void On(LeaveIn& event);
  void On(CannotIn& event);
  void On(StopIn& event);
  void On(LoadedIn& event);
  void On(CompleteIn& event);
  void On(ShardDoneIn& event);
  void On(NormIn& event);
  void On(ReportIn& event);
  void On(PlannedIn& event);
  void On(HashIn& event);
  void On(RoundDoneIn& event);
  void On(SnapshotDoneIn& event);
  void On(CommittedIn& event);
  void On(EvalReportIn& event);
  void On(TickIn& event);

  // lead_admit.cc: who is in the job.
  std::optional<RefuseMessage> Objection(const HelloMessage& hello) const;
  std::optional<RefuseMessage> AlreadyHere(const HelloMessage& hello) const;
  Player& Enter(const HelloMessage& hello);
  void Welcome(Via via, const Peer& peer, const Player& player);
  uint64_t NewSession() const;
  bool AllPresent() const;
  std::string Missing() const;
  void Begin();
  void CheckAlive();
  void Lose(const Peer& peer, const std::string& why);
  void SendAway(uint32_t worker, Code code, const std::string& words);

  // lead_lease.cc: what happens when.
  void IssueLeases();
  void IssueLease(uint64_t rounds);
  RoundFacts NextFacts();
  void AddMarks(bool epoch_ended, Lease* lease);
  void AddStopMarks(Lease* lease);
  void MarkSnapshot(Lease* lease);
  void MarkEvaluation(Lease* lease);
  bool AtEnd() const;
  uint64_t TotalRounds() const;
  uint64_t Ahead() const;
  void StopSoon(Code code, const std::string& words);
  uint64_t NominalSamples() const;
  std::vector<Member> MembersOf(Role role) const;

  // lead_rounds.cc: rounds as they go.
  OpenRound* Find(uint64_t round);
  void AdvanceVersion();
  void NoteSpeed(uint64_t round, const OpenRound& open);
  void RecordRound(uint64_t round, const OpenRound& open);
  uint64_t SamplesOf(const OpenRound& open) const;
  std::vector<uint32_t> AddLeftOut(const OpenRound& open, const IdSet& in,
                                   RoundRecord* record);
  void AddWholeShards(const OpenRound& open, const IdSet& in,
                      RoundRecord* record) const;
  static int64_t FirstBad(const OpenRound& open);
  void JudgeBadRound(const RoundRecord& record, int64_t first);
  void CheckDeadlines();
  bool HasSilentShard(const OpenRound& open) const;
  static std::vector<uint32_t> MissingFrom(const OpenRound& open,
                                           const IdSet& complete);
  bool IsQuorumOver(const IdSet& complete);
  void NameSlowWorkers(const std::vector<uint32_t>& missing);
  void NameSlowServers();
  void WarnOfWaiting(const std::vector<std::string>& whom);
  IdSet CompleteEverywhere(uint64_t round, OpenRound& open);
  void CloseRound(uint64_t round, OpenRound& open, const IdSet& workers,
                  const std::string& why);
  void CloseWithout(uint32_t worker, const std::string& why);
  void TooFew(uint64_t round, const IdSet& there);
  void TrySendScale(uint64_t round, OpenRound& open);
  absl::Duration RoundDeadline() const;

  // lead_rule.cc: what the rule makes of a round, and the account of it.
  bool Enough(const IdSet& workers) const { return WhyTooFew(workers).empty(); }
  std::string WhyTooFew(const IdSet& workers) const;
  bool ReportMakesSense(const ReportIn& event, const OpenRound& open) const;
  void TryDecide(uint64_t round, OpenRound& open);
  std::vector<uint32_t> Reported(const OpenRound& open) const;
  void Decide(uint64_t round, OpenRound& open, rules::Plan plan);
  void AddPlan(const OpenRound& open, RoundRecord* record, Faulty* faulty);
  void AddAbstained(const OpenRound& open, RoundRecord* record) const;
  void AddStrikes(const OpenRound& open, RoundRecord* record,
                  Faulty* faulty) const;
  void AddBadValues(const OpenRound& open, RoundRecord* record, Faulty* faulty);
  void Suspect(const OpenRound& open, const Faulty& faulty,
               RoundRecord* record);
  void StrikeFaulty(uint64_t round, const Faulty& faulty);
  std::vector<RoundRecord::Suspicion> Suspects() const;

  // lead_end.cc: snapshots, hashes and the end.
  void TryCommit();
  void CommitSnapshotOf(uint64_t version, PendingSnapshot& pending);
  bool ServersHashed(uint64_t version) const;
  void CheckHashes(uint64_t version);
  void CheckEnd();
  std::vector<uint32_t> WithoutTheEnd() const;
  bool EverythingIn(std::string* missing) const;
  void End(Code code, const std::string& words);
  void Warn(std::string words) {
    effects_.push_back(Log{true, std::move(words)});
  }
  void Note(std::string words) {
    effects_.push_back(Log{false, std::move(words)});
  }

  const LeadConfig config_;
  const rules::Chain chain_;
  const std::function<uint64_t()> random_;
  absl::Time now_;
  absl::Time next_tick_;
  std::vector<Effect> effects_;

  Stage stage_ = Stage::kGathering;
  bool finished_ = false;
  absl::Time began_waiting_;  // for everybody to be there
  absl::Time next_patience_;
  std::map<Peer, Player> players_;

  // Leases.
  uint64_t until_ = 0;    // of the last lease
  uint64_t samples_ = 0;  // of an epoch
  Cursor cursor_;
  std::vector<Lease> leases_;  // those not yet over
  std::optional<uint64_t> stop_version_;
  Code stop_code_ = Code::kOk;  // why it stops there
  std::string stop_words_;
  absl::Time stop_deadline_ = absl::InfiniteFuture();
  absl::Time ending_since_;  // when every shard had the stop version
  bool evaluating_ = false;  // a mark was given and its report is not here yet
  uint64_t evaluation_version_ = 0;
  uint64_t skipped_evaluations_ = 0;
  bool last_evaluated_ = false;

  // Rounds.
  uint64_t version_ = 0;  // the newest that every shard has
  std::map<uint64_t, OpenRound> rounds_;
  std::map<int, uint64_t> shard_version_;
  std::map<int, std::pair<uint64_t, uint64_t>>
      bytes_;          // by server: pushed, published
  absl::Time opened_;  // when version_ was reached
  std::optional<absl::Time> quorum_since_;
  std::optional<absl::Time> too_few_since_;
  std::vector<absl::Duration>
      recent_rounds_;  // the last durations, newest last
  int bad_rounds_ = 0;

  // Snapshots and hashes.
  std::map<uint64_t, PendingSnapshot> snapshots_;
  std::map<uint64_t, std::map<Peer, VersionHashMessage>> hashes_;
  std::set<uint64_t> checked_hashes_;

  // For the summary and the progress line.
  struct LossPoint {
    double loss_sum = 0;
    uint64_t samples = 0;
    IdSet from;  // who has reported
  };
  std::map<uint64_t, LossPoint> losses_;  // by round, the last 20
  std::vector<std::pair<absl::Time, uint64_t>>
      speed_;  // (time, samples so far), the last seconds
  std::optional<std::pair<absl::Time, uint64_t>> steady_since_;
  absl::Time last_round_at_;
  uint64_t samples_done_ = 0;
  std::vector<uint32_t> last_left_out_;
  JobSummary summary_;
};

}  // namespace parapet

#endif  // PARAPET_SERVER_LEAD_H_
