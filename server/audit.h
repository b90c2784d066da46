#ifndef PARAPET_SERVER_AUDIT_H_
#define PARAPET_SERVER_AUDIT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/messages.h"
#include "nlohmann/json.hpp"
#include "server/rules/plan.h"

namespace parapet {

// A rate of suspicion below this is not worth showing.
inline constexpr double kSuspect = 0.5;

// What is known of a round once every shard has done it (promise P10).
struct RoundRecord {
  // Why a member's contribution did not enter the round.
  enum class Reason : uint8_t {
    kMissing,    // closed out: late, silent, or gone
    kNotFinite,  // a NaN or an infinity, under a rule on distances
    kAbsurd,     // a norm far above the others'
  };
  struct LeftOut {
    uint32_t worker = 0;
    Reason reason = Reason::kMissing;
    std::string why;  // in words
  };
  struct Exception {
    int shard = 0;
    ShardDoneMessage::Exception what;
  };
  // A moving rate, from 0 to 1, of how much a worker was left out.
  struct Suspicion {
    uint32_t worker = 0;
    double rate = 0;
  };

  uint64_t round = 0;
  std::string rule;                    // as --rule says it
  int f = 0;                           // --byzantine
  std::vector<uint32_t> participants;  // whose gradients entered, ascending
  std::vector<LeftOut> left_out;       // members who tried, or should have
  std::vector<uint32_t> abstained;     // members without a sample
  std::vector<Exception>
      exceptions;  // reduced with a worker that was left out afterwards
  std::vector<ShardDoneMessage::Bad>
      bad_values;  // not finite, left out at their coordinates only
  // What servers saw of the protocol broken since the round before.
  std::vector<ShardDoneMessage::Strike> strikes;
  uint64_t bad_coordinates = 0;
  bool carried = false;  // nobody took part on some shard
  std::string why_bad;   // the round is bad; empty: it is not

  // Under a rule on distances, of a round that is not bad; empty otherwise.
  std::vector<double> weights;  // of each participant; see WorkerWeights
  std::vector<rules::StageNote> stages;

  std::vector<Suspicion> suspicion;  // of every member, ascending
};

const char* NameOf(RoundRecord::Reason reason);  // "not_finite"

// What the lead begins to do.
struct AuditJob {
  std::string job;    // --job_id
  uint64_t from = 0;  // version that it begins with; above 0: a resume
  std::string rule;   // as --rule says it
  int f = 0;          // --byzantine
  int workers = 0;
};

// The audit file has a line for each round, a JSON object:
//   {"round": 12, "rule": "nnm + krum", "f": 1, "participants": [0, 1, 3],
//    "left_out": [{"worker": 2, "reason": "absurd", "why": "sent ..."}],
//    "abstained": [], "exceptions": [{"server": 0, "worker": 4,
//    "first_turn": 0, "last_turn": 2}], "bad_values": [{"worker": 1, "values":
//    3}], "strikes": [{"worker": 1, "code": "over_credit", "count": 2}],
//    "bad_coordinates": 0, "carried": false, "why_bad": "",
//    "weights": [0.3, ...], "stages": [{"stage": "nnm", "rows": [0, 1, 3],
//    "buckets": false, "scores": [], "selected": [], "trust": []}, ...],
//    "suspicion": [{"worker": 0, "rate": 0.02}, ...]}
// or, where the disk could not keep up or was full, {"lost": 7}: so many rounds
// have no line here, or may have none. Before it there may be an empty line, or
// one that is cut. The first line of every start of a job, also of a resume, is
//   {"job": "parapet", "from": 0, "rule": "nnm + krum", "f": 1, "workers": 5}
// (older files have none, and no strikes). Readers ignore members that they do
// not know. Scores that are not finite are null in JSON and read back as NaN.
std::string AuditLine(const RoundRecord& record);  // without the line's end
std::string AuditLostLine(uint64_t rounds);
std::string AuditJobLine(const AuditJob& job);

// An element of "stages".
nlohmann::json StageJson(const rules::StageNote& note);

struct AuditEntry {
  std::optional<AuditJob> job;  // if there: nothing else counts
  uint64_t lost = 0;            // above 0: nothing else counts
  RoundRecord record;
};
// InvalidArgument in words if the line is not as above. Any bytes are fine.
absl::StatusOr<AuditEntry> ParseAuditLine(absl::string_view line);

}  // namespace parapet

#endif  // PARAPET_SERVER_AUDIT_H_
