#ifndef PARAPET_SERVER_ROUND_H_
#define PARAPET_SERVER_ROUND_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "common/lease.h"
#include "common/messages.h"
#include "common/payload.h"
#include "server/rules/plan.h"

namespace parapet {

// What a shard's rounds need to know of the job.
struct RoundConfig {
  int64_t chunks = 0;    // of this shard; may be 0
  uint64_t version = 0;  // where the job starts
  bool two_phase =
      false;  // clip_norm: reduce everything, hear the lead's scale, then step
  bool exchange = false;  // a rule on distances: measure every chunk, hear the
                          // lead's decision, then reduce
  bool report_always =
      false;  // quorum: the lead wants to know each time a worker is complete
  uint32_t max_samples = 1;  // of a worker in a round
  int64_t window = 0;        // credit: chunks that a worker may be ahead of the
                             // reduction; 0: no limit
  DType wire = DType::kFloat32;
  absl::Duration report_after = absl::Seconds(1);
  absl::Duration patience = absl::Seconds(10);
};

// One worker's values for one chunk.
struct Contribution {
  uint32_t worker = 0;
  uint32_t samples = 0;
  double scale = 1;
  Payload data;
};

// The rounds of one shard, as a pure state machine: it is told what came and
// what is done, and says what to do. It gathers every member's chunk, has it
// reduced in worker-id order once it is whole, and keeps track of who has
// received which version. Under a rule on distances it has whole chunks
// measured first, and reduces them all once the lead has decided from every
// shard's distances. It holds payloads without reading them. See
// docs/architecture.md, "The round".
//
// Chunks are named by their local number on this shard. The k-th chunk in the
// order of pushes has turn k = chunks - 1 - local. Credit is counted in turns
// over all rounds: round * chunks + turn.
//
// Not thread-safe. Time is whatever the caller says, as long as it does not run
// backwards.
class Round {
 public:
  // Events.
  struct LeaseIn {
    Lease lease;
  };
  struct PushIn {
    uint32_t worker = 0;
    uint64_t round = 0;
    int64_t local = 0;
    Contribution contribution;
    bool same_as_held = false;  // whether Held(...) has the same bytes;
                                // meaningless if there is none
  };
  struct AbstainIn {
    uint32_t worker = 0;
    uint64_t round = 0;
  };
  // A peer has a new data link and lacks these chunks of a version (none: it
  // has it whole). `mine` are the chunks that travel on that link.
  struct NeedIn {
    Peer peer;
    uint64_t version = 0;
    std::vector<bool> locals;
    std::vector<bool> mine;
  };
  // A worker has a new data link; `mine` are the chunks that travel on it.
  struct LinkIn {
    uint32_t worker = 0;
    uint16_t link = 0;
    std::vector<bool> mine;
  };
  struct ReducedIn {  // Reduce (or Carry) is done
    uint64_t round = 0;
    int64_t local = 0;
    std::vector<ShardDoneMessage::Bad> bad;
    int64_t bad_coordinates = 0;
    int64_t first_bad = -1;  // element of the flat vector
  };
  struct SteppedIn {  // Step is done (two_phase only)
    uint64_t round = 0;
    int64_t local = 0;
  };
  struct MeasuredIn {  // Measure is done (exchange only)
    uint64_t round = 0;
    int64_t local = 0;
  };
  struct DecisionIn {  // exchange only
    uint64_t round = 0;
    std::shared_ptr<const rules::Plan> plan;
  };
  struct CloseIn {
    uint64_t round = 0;
    IdSet workers;
  };
  struct ScaleIn {
    uint64_t round = 0;
    double scale = 1;
  };
  struct TickIn {};
  using Event =
      std::variant<LeaseIn, PushIn, AbstainIn, NeedIn, LinkIn, ReducedIn,
                   SteppedIn, MeasuredIn, DecisionIn, CloseIn, ScaleIn, TickIn>;

  // Effects.
  struct Reduce {  // make version round + 1 of a chunk (two_phase: its
                   // aggregate only)
    uint64_t round = 0;
    int64_t local = 0;
    std::vector<Contribution> rows;  // in worker-id order
    RoundFacts facts;
    bool step = true;
    // exchange: the decision, of whose workers `rows` are; null otherwise.
    std::shared_ptr<const rules::Plan> plan = nullptr;
  };
  // exchange: measure the distances between the rows of a chunk, which stay
  // held until the decision.
  struct Measure {
    uint64_t round = 0;
    int64_t local = 0;
    std::vector<Contribution> rows;  // in worker-id order, at least one
  };
  struct Step {  // two_phase: take the step with the aggregate kept from Reduce
    uint64_t round = 0;
    int64_t local = 0;
    RoundFacts facts;
    double scale = 1;
  };
  struct Carry {  // nobody took part: version round + 1 of the chunk is version
                  // round
    uint64_t round = 0;
    int64_t local = 0;
    bool step = true;  // false: a Step follows, as after Reduce
  };
  struct SendWeights {
    Peer peer;
    uint64_t version = 0;
    int64_t local = 0;
    uint64_t credit = 0;
  };
  struct SendAck {
    uint32_t worker = 0;
    uint64_t round = 0;
    int64_t local = 0;
    AckStatus status = AckStatus::kLate;
    uint64_t credit = 0;
  };
  struct SendNeed {
    uint32_t worker = 0;
    uint16_t link = 0;
    uint64_t round = 0;
    uint64_t credit = 0;
    std::vector<bool> locals;
  };
  struct Strike {  // a violation: tell the worker, and count it
    uint32_t worker = 0;
    Code code = Code::kProtocol;
    std::string words;
  };
  struct ReportComplete {
    CompleteMessage message;
  };
  struct ReportDone {
    ShardDoneMessage message;
  };
  // Every chunk of the round is measured; these workers have a row in each.
  struct ReportDistances {
    uint64_t round = 0;
    std::vector<uint32_t> workers;
  };
  // The lead decided what cannot be done here: the round will never end.
  struct RefuseDecision {
    uint64_t round = 0;
    std::string words;
  };
  struct ReportNorm {  // every chunk of the round has its aggregate
    uint64_t round = 0;
  };
  struct TakeSnapshot {  // before any step of the next round
    uint64_t version = 0;
  };
  struct HashVersion {
    uint64_t version = 0;
  };
  struct DropVersion {
    uint64_t version = 0;
  };
  struct Waiting {  // for longer than patience: who has pushed how many of the
                    // shard's chunks
    struct Who {
      uint32_t worker = 0;
      int64_t received = 0;
    };
    uint64_t round = 0;
    absl::Duration since;
    std::vector<Who> who;
  };
  using Effect =
      std::variant<Reduce, Measure, Step, Carry, SendWeights, SendAck, SendNeed,
                   Strike, ReportComplete, ReportDone, ReportDistances,
                   RefuseDecision, ReportNorm, TakeSnapshot, HashVersion,
                   DropVersion, Waiting>;

  Round(const RoundConfig& config, absl::Time now);

  std::vector<Effect> Handle(Event event, absl::Time now);
  // When a TickIn is due next; InfiniteFuture if never.
  absl::Time NextDeadline() const;

  // The newest version that this shard has whole; also the number of the round
  // that is open.
  uint64_t version() const { return version_; }
  // Whether version() is where the job stops.
  bool stopped() const { return stop_version_ == version_; }
  // What is held for (worker, round, chunk), or null: to compare a repeated
  // chunk with.
  const Payload* Held(uint32_t worker, uint64_t round, int64_t local) const;

 private:
  enum class ChunkState : uint8_t {
    kGathering,
    kMeasuring,
    kMeasured,
    kReducing,
    kAggregated,
    kStepping,
    kPublished
  };
  enum class Slot : uint8_t { kEmpty, kHeld, kUsed };

  // A worker's part in the open round.
  struct Entry {
    std::vector<Slot> slots;
    std::vector<Contribution> held;
    int64_t received = 0;
    uint32_t samples = 0;
    bool abstained = false;
  };
  // How far a peer is with receiving versions. It is idle when proven >=
  // feeding.
  struct Recipient {
    int64_t proven = -1;       // it has this version whole
    int64_t feeding = -1;      // it is being sent this one
    std::vector<bool> wanted;  // chunks of `feeding` still to be sent
  };

  void On(LeaseIn& event);
  void On(PushIn& event);
  void On(AbstainIn& event);
  void On(NeedIn& event);
  void On(LinkIn& event);
  void On(ReducedIn& event);
  void On(SteppedIn& event);
  void On(MeasuredIn& event);
  void On(DecisionIn& event);
  void On(CloseIn& event);
  void On(ScaleIn& event);
  void On(TickIn& event);

  void Open();     // begins round version_
  void Refresh();  // after a change of members: which chunks are ready now?
  bool Finished() const;  // every chunk of the open round is published
  void
  FinishRounds();  // completes versions as long as there are finished rounds
  void CompleteVersion();
  void ActOnMarks(const Lease& lease, uint64_t version);
  bool HasLease() const;  // whether a lease covers the open round
  const RoundFacts& Facts() const;
  void TryReduce(int64_t local);
  std::vector<Contribution> Take(int64_t local,
                                 const std::vector<uint32_t>& workers);
  void StartReduce(int64_t local, std::vector<Contribution> rows,
                   std::shared_ptr<const rules::Plan> plan);
  void StartMeasure(int64_t local, const std::vector<uint32_t>& workers);
  void NoteMeasured();
  bool HoldsAll(const std::vector<int>& workers) const;
  void AdvanceTurn();
  void StepAll();
  void TellCredit(int64_t local);
  void Publish(int64_t local);
  Entry& EntryOf(uint32_t worker);
  bool IsComplete(uint32_t worker) const;
  void NoteComplete();
  bool RefuseContribution(uint32_t worker, uint64_t round, int64_t local);
  bool CheckPush(const PushIn& event, const Entry& entry);
  void Prove(const Peer& peer, uint64_t version);
  void Feed(const Peer& peer, Recipient& recipient, uint64_t version,
            std::vector<bool> wanted);
  void SendWanted(const Peer& peer, Recipient& recipient);
  bool IsPublished(uint64_t version, int64_t local) const;
  bool IsKept(uint64_t version) const;
  void DropOldVersions();
  uint64_t Credit() const;
  ShardDoneMessage Account();

  const RoundConfig config_;
  absl::Time now_;
  std::vector<Effect> effects_;

  uint64_t version_;
  std::optional<uint64_t> stop_version_;
  std::vector<Lease> leases_;         // those that still matter
  std::map<uint64_t, IdSet> closes_;  // round -> who may still enter it
  std::map<Peer, Recipient> recipients_;
  std::vector<uint64_t>
      older_;  // complete versions before version_ that are still kept

  // The open round.
  absl::Time opened_;
  absl::Time next_wait_report_;
  bool reporting_ = false;
  IdSet members_;   // from the lease
  IdSet allowed_;   // members_ less those closed out
  IdSet reported_;  // complete, as last reported
  std::map<uint32_t, Entry> entries_;
  // How many of entries_ have come with each chunk, and have abstained; and how
  // many allowed_ has.
  std::vector<int64_t> came_;
  int64_t abstained_ = 0, expected_ = 0;
  std::vector<ChunkState> chunks_;
  int64_t measured_ = 0, aggregated_ = 0, published_ = 0;
  bool decided_ = false;  // exchange: who takes part is settled
  std::optional<double> scale_;
  ShardDoneMessage done_;
  int64_t first_unreduced_turn_ = 0;
  int64_t carried_ = 0;
};

}  // namespace parapet

#endif  // PARAPET_SERVER_ROUND_H_
