#include "tools/load_stats.h"

#include <algorithm>

namespace parapet {

LoadTimeline::Interval& LoadTimeline::IntervalAt(absl::Duration at) {
  auto index =
      static_cast<size_t>(std::max(0.0, absl::FDivDuration(at, length_)));
  while (index >= kMost) {
    Halve();
    index /= 2;
  }
  if (index >= intervals_.size()) intervals_.resize(index + 1);
  return intervals_[index];
}

void LoadTimeline::Halve() {
  std::vector<Interval> joined((intervals_.size() + 1) / 2);
  for (size_t i = 0; i < intervals_.size(); ++i) {
    joined[i / 2].round.Merge(intervals_[i].round);
    joined[i / 2].bytes += intervals_[i].bytes;
  }
  intervals_ = std::move(joined);
  length_ *= 2;
}

void LoadTimeline::Add(absl::Duration at, absl::Duration round,
                       uint64_t bytes) {
  Interval& interval = IntervalAt(at);
  interval.round.Add(round);
  interval.bytes += bytes;
}

void LoadTimeline::Merge(const LoadTimeline& other) {
  LoadTimeline theirs = other;
  while (theirs.length_ < length_) theirs.Halve();
  while (length_ < theirs.length_) Halve();
  intervals_.resize(std::max(intervals_.size(), theirs.intervals_.size()));
  for (size_t i = 0; i < theirs.intervals_.size(); ++i) {
    intervals_[i].round.Merge(theirs.intervals_[i].round);
    intervals_[i].bytes += theirs.intervals_[i].bytes;
  }
}

void LoadStats::Merge(const LoadStats& other) {
  push_ack.Merge(other.push_ack);
  first_weights.Merge(other.first_weights);
  last_weights.Merge(other.last_weights);
  round.Merge(other.round);
  timeline.Merge(other.timeline);
  rounds += other.rounds;
  began = std::max(began, other.began);
  ended = std::max(ended, other.ended);
  all_rounds += other.all_rounds;
  pushed_bytes += other.pushed_bytes;
  received_bytes += other.received_bytes;
  lost += other.lost;
  repeated += other.repeated;
  torn += other.torn;
  wrong += other.wrong;
  late += other.late;
  duplicate += other.duplicate;
  retries += other.retries;
  for (const auto& [code, count] : other.refusals) refusals[code] += count;
  warm += other.warm;
  finished += other.finished;
  sent_away += other.sent_away;
  for (const auto& [words, count] : other.failures) failures[words] += count;
}

}  // namespace parapet
