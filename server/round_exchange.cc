// The rounds of a shard under a rule on distances: measured, decided, reduced.

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/round.h"

namespace parapet {

void Round::StartMeasure(int64_t local, const std::vector<uint32_t>& workers) {
  if (workers.empty()) {
    chunks_[local] = ChunkState::kMeasured;
    ++measured_;
    return NoteMeasured();
  }
  Measure measure{version_, local, {}};
  // Shares what is held: nothing is used up before the decision.
  for (uint32_t worker : workers)
    measure.rows.push_back(entries_[worker].held[local]);
  chunks_[local] = ChunkState::kMeasuring;
  effects_.push_back(std::move(measure));
}

void Round::On(MeasuredIn& event) {
  if (event.round != version_ || chunks_[event.local] != ChunkState::kMeasuring)
    return;
  chunks_[event.local] = ChunkState::kMeasured;
  ++measured_;
  NoteMeasured();
}

void Round::NoteMeasured() {
  if (measured_ != config_.chunks) return;
  ReportDistances report{version_, {}};
  for (uint32_t worker : allowed_.ToVector()) {
    if (!entries_[worker].abstained) report.workers.push_back(worker);
  }
  effects_.push_back(std::move(report));
}

bool Round::HoldsAll(const std::vector<int>& workers) const {
  for (int worker : workers) {
    const auto it = entries_.find(static_cast<uint32_t>(worker));
    if (it == entries_.end()) return false;
    for (Slot slot : it->second.slots) {
      if (slot != Slot::kHeld) return false;
    }
  }
  return true;
}

void Round::On(DecisionIn& event) {
  // Told again, or of a round that this shard has done.
  if (event.round != version_ || !config_.exchange || decided_) return;
  if (config_.chunks == 0) return;
  if (measured_ != config_.chunks || !HoldsAll(event.plan->workers)) {
    effects_.push_back(RefuseDecision{
        version_, "the lead decided on gradients that are not here"});
    return;
  }
  decided_ = true;
  std::vector<uint32_t> workers(event.plan->workers.begin(),
                                event.plan->workers.end());
  allowed_ = IdSet();
  for (uint32_t worker : workers) allowed_.Insert(worker);
  // All are here: what the next forward pass reads first comes first.
  for (int64_t local = 0; local < config_.chunks; ++local)
    StartReduce(local, Take(local, workers), event.plan);
  // What the others sent is of no use any more.
  for (auto& [worker, entry] : entries_) {
    if (!allowed_.Contains(worker)) entry.held.assign(config_.chunks, {});
  }
  AdvanceTurn();
}

}  // namespace parapet
