#ifndef PARAPET_TESTS_COMMON_WIRE_MESSAGES_H_
#define PARAPET_TESTS_COMMON_WIRE_MESSAGES_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/wire.h"

namespace parapet {

inline Payload Chunk(size_t bytes) {
  return Payload::FromString(std::string(bytes, 'g'));
}

inline Lease SomeLease() {
  Lease lease{7, 10, 12, {{1, 11}, {4, 14}}, {{0, 20}}, {}, {}};
  lease.facts = {{3, 40, 8, 0.5, 0.25, 0.125}, {3, 48, 6, 0.4, 1, 1}};
  lease.marks = {{Mark::Kind::kSnapshot, 11},
                 {Mark::Kind::kEvaluate, 10},
                 {Mark::Kind::kStop, 12},
                 {Mark::Kind::kHash, 12}};
  return lease;
}

inline IdSet SomeIds() {
  IdSet set;
  for (uint32_t id : {0, 3, 17}) set.Insert(id);
  return set;
}

inline ShardDoneMessage SomeShardDone() {
  ShardDoneMessage done;
  done.round = 5;
  done.participants = {0, 2, 9};
  done.exceptions = {{3, 1, 4}, {3, 9, 9}};
  done.bad = {{2, 100}};
  done.bad_coordinates = 6;
  done.first_bad = 1234567890123;
  done.carried = true;
  done.bytes_pushed = uint64_t{1} << 50;
  done.bytes_published = 99;
  done.strikes = {{2, Code::kEquivocation, 3},
                  {2, Code::kOverCredit, uint64_t{1} << 40},
                  {9, Code::kProtocol, 1}};
  return done;
}

inline ShardReportMessage SomeReport() {
  ShardReportMessage report;
  report.round = 8;
  report.workers = {1, 5};
  report.finite = {true, false};
  std::vector<ExactSum> sums(6);
  for (size_t i = 1; i < sums.size(); ++i) {
    sums[i].Add(1e-30);
    sums[i].Add(static_cast<double>(i) * 1e30);
  }
  sums[4].Add(std::numeric_limits<double>::infinity());
  sums[5].Add(std::numeric_limits<double>::quiet_NaN());
  report.sums = std::make_shared<std::vector<ExactSum>>(std::move(sums));
  return report;
}

inline DecisionMessage SomeDecision() {
  return {8, {1, 5}, true, 2, {0.25, 0.75, 0, 0, 1, -1, 0.5, 0.5}, 2, 1, 0.5};
}

// One of every kind, with every field set to something.
inline std::vector<Body> EveryMessage() {
  ExactSum squares;
  squares.Add(1e300);
  squares.Add(1e-300);
  return {
      HelloMessage{1, {Role::kEvaluator, 6}, 2, 33, 44, 55, "cpu", "batch=4\n"},
      WelcomeMessage{12, "snap/step-12"},
      RefuseMessage{Code::kJobDiffers, "it has batch=8"},
      LeaseMessage{SomeLease()},
      PushMessage{8, 9, 32, DType::kFloat16, 1024, Chunk(64)},
      AbstainMessage{8},
      WeightsMessage{9, 10, DType::kBFloat16, 77, Chunk(32)},
      AckMessage{8, 9, AckStatus::kLate, 78},
      NeedWeightsMessage{
          9, {true, false, true, false, false, false, false, false, true}},
      NeedGradientsMessage{8, 79, {false, true}},
      RoundDoneMessage{8, 3.5, 20, 32, {1, 2, 3, 4, 5}},
      PingMessage{1, 8, Phase::kPush},
      PongMessage{1, 9},
      LeaveMessage{"tired"},
      ByeMessage{Code::kLeftOut, "too slow"},
      StoppingMessage{"SIGTERM"},
      LoadMessage{12, "snap/step-12"},
      LoadedMessage{true, "fine"},
      CompleteMessage{8, SomeIds()},
      SomeShardDone(),
      NormMessage{8, squares},
      ScaleMessage{8, 0.75},
      CloseMessage{8, SomeIds()},
      VersionHashMessage{9, 0xaa, 0xbb},
      SnapshotDoneMessage{12, true, {"worker-3.safetensors", 1000, 0xcc}, "w"},
      EvalReportMessage{12, 4.5, 80, 100, 0.5},
      SomeReport(),
      SomeDecision(),
  };
}

}  // namespace parapet

#endif  // PARAPET_TESTS_COMMON_WIRE_MESSAGES_H_
