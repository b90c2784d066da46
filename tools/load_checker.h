#ifndef PARAPET_TOOLS_LOAD_CHECKER_H_
#define PARAPET_TOOLS_LOAD_CHECKER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/layout.h"
#include "common/mutex.h"
#include "common/payload.h"
#include "kernels/device.h"
#include "tools/load_attendance.h"
#include "tools/load_means.h"

namespace parapet {

// How much of the weights is compared with what they must be.
enum class LoadCheck : uint8_t { kNone, kSampled, kFull };

// Whether weights are right. Of every chunk of every version it knows
//  * its bits: all players must get the same, whatever the rule;
//  * under the rule mean also its values, at some elements or at all: from 0s,
//    each round takes lr x the mean of what was pushed off, in float32, as sgd
//    does. Where servers may have decided who took part (LoadAttendance), the
//    first of the candidates that fits what came counts from then on.
// Thread-safe.
class LoadChecker {
 public:
  struct Config {
    LoadCheck check = LoadCheck::kSampled;
    bool values = true;  // whether they are known
    double lr = 0;
    DType wire = DType::kFloat32;
  };
  enum class Verdict : uint8_t {
    kRight,
    kTorn,  // right in part, or not the bits that another player got
    kWrong,
  };
  struct Result {
    Verdict verdict = Verdict::kRight;
    uint64_t hash = 0;  // HashLeaves of the chunk
  };

  // Elements of a chunk that kSampled compares: its first and last, and others
  // at places that the seed picks.
  static constexpr int64_t kSamples = 64;

  // All must outlive it.
  LoadChecker(const Config& config, uint64_t seed, const ShardMap& map,
              const LoadMeans& means, const LoadAttendance& attendance,
              const Device& device);

  Result Check(uint64_t version, int64_t chunk, const Payload& data);

 private:
  // Versions that are remembered: players are at most one apart, unless one was
  // left behind.
  static constexpr size_t kKept = 4;

  struct Version {
    std::vector<float> weights;    // at the chunk's places, as published
    std::optional<uint64_t> hash;  // of the first chunk that was right
  };
  struct Chunk {
    Mutex mutex;
    std::vector<int64_t> places;  // elements of the flat vector; empty: all
    uint64_t version ABSL_GUARDED_BY(mutex) = 0;        // of `weights`
    std::vector<float> weights ABSL_GUARDED_BY(mutex);  // the masters
    std::map<uint64_t, Version> versions ABSL_GUARDED_BY(mutex);
  };

  std::vector<float> Next(int64_t index, const Chunk& chunk,
                          const LoadTurnout& turnout) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(chunk.mutex);
  // To the version after; `data`: what came of it, null if nothing did.
  void Advance(int64_t index, const Payload* data, Chunk& chunk) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(chunk.mutex);
  std::vector<float> AsSent(const std::vector<float>& weights) const;
  Verdict Compare(int64_t index, const Chunk& chunk,
                  const std::vector<float>& weights, const Payload& data) const;

  const Config config_;
  const ShardMap map_;
  const LoadMeans& means_;
  const LoadAttendance& attendance_;
  const Device& device_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
};

}  // namespace parapet

#endif  // PARAPET_TOOLS_LOAD_CHECKER_H_
