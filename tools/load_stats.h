#ifndef PARAPET_TOOLS_LOAD_STATS_H_
#define PARAPET_TOOLS_LOAD_STATS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/messages.h"
#include "tools/load_histogram.h"

namespace parapet {

// What happened when, in equal intervals from the first moment on: so many at
// most that a plot of a long test is as wide as one of a short one. When there
// would be more, neighbours are joined and intervals are twice as long.
class LoadTimeline {
 public:
  static constexpr size_t kMost = 256;

  struct Interval {
    LoadHistogram round{5};
    uint64_t bytes = 0;  // pushed and received in rounds that ended in it
  };

  explicit LoadTimeline(absl::Duration length = absl::Milliseconds(100))
      : length_(length) {}

  // `at`: since the first moment.
  void Add(absl::Duration at, absl::Duration round, uint64_t bytes);
  void Merge(const LoadTimeline& other);
  // Joins neighbours, so that intervals are twice as long.
  void Halve();

  absl::Duration length() const { return length_; }
  const std::vector<Interval>& intervals() const { return intervals_; }

 private:
  Interval& IntervalAt(absl::Duration at);

  absl::Duration length_;
  std::vector<Interval> intervals_;
};

// What players found out. Not thread-safe.
struct LoadStats {
  // Of measured rounds, over all players that do not attack:
  LoadHistogram push_ack;       // a chunk's push to its new weights
  LoadHistogram first_weights;  // first push to the first new weights
  LoadHistogram last_weights;   // first push to the last new weights
  LoadHistogram round;  // from when the round was due, or else could begin, to
                        // the last new weights
  LoadTimeline timeline;
  uint64_t rounds = 0;  // of each of them, added up
  // When the last player began to be measured and was done with its last round.
  absl::Time began = absl::InfinitePast(), ended = absl::InfinitePast();

  // Of all rounds:
  uint64_t all_rounds = 0;
  uint64_t pushed_bytes = 0, received_bytes = 0;
  uint64_t lost = 0;             // versions that a player was not given whole
  uint64_t repeated = 0;         // weights that came again, or were of no use
  uint64_t torn = 0, wrong = 0;  // chunks of weights, see LoadChecker
  uint64_t late = 0, duplicate = 0;  // pushes, as servers say
  uint64_t retries = 0;              // connections that were lost or refused
  std::map<Code, uint64_t> refusals;

  // Players:
  int warm = 0;  // that are, or were, measured
  int finished = 0;
  int sent_away = 0;                    // of the attackers
  std::map<std::string, int> failures;  // in words, of how many players

  void Merge(const LoadStats& other);
};

// What became of malformed messages.
struct LoadMalformedStats {
  uint64_t sent = 0;
  std::map<Code, uint64_t> refused;
  uint64_t cut_off = 0;     // the connection was closed without a word
  uint64_t unanswered = 0;  // for long
};

}  // namespace parapet

#endif  // PARAPET_TOOLS_LOAD_STATS_H_
