// The server node: the arithmetic that the state machines want done.

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/buffer_pool.h"
#include "common/status_macros.h"
#include "server/node.h"
#include "server/rules/make_plan.h"

namespace parapet {
namespace {

// Copies the rows that their senders could change, and uses the copies.
// Otherwise one could be near the others while it is measured, and anywhere
// when the decision that it takes part comes.
std::vector<Contribution> CopyWhatMayChange(BufferPool& pool,
                                            std::vector<Contribution>* rows) {
  std::vector<Contribution> copies;
  for (Contribution& row : *rows) {
    if (!row.data.may_change()) continue;
    const std::shared_ptr<std::byte> bytes = pool.Get();
    std::memcpy(bytes.get(), row.data.data(), row.data.size());
    row.data = Payload(bytes, bytes.get(), row.data.size());
    copies.push_back(row);
  }
  return copies;
}

// In place of the rows of the same workers, all by ascending worker.
void UseCopies(const std::vector<Contribution>& copies,
               std::vector<Contribution>* rows) {
  auto copy = copies.begin();
  for (Contribution& row : *rows) {
    while (copy != copies.end() && copy->worker < row.worker) ++copy;
    if (copy != copies.end() && copy->worker == row.worker)
      row.data = copy->data;
  }
}

}  // namespace

// One reduction, from its effect to its report.
struct ServerNode::Work {
  Round::Reduce reduce;
  int64_t elements = 0;
  std::shared_ptr<const KeptRows> kept;
  float* previous = nullptr;  // the aggregate of the round before, if kept
  StepTarget target;
  float* aggregate = nullptr;  // not null: the step comes later
  absl::StatusOr<ReduceReport> report;
  ExactSum squares;
};

std::vector<Row> ServerNode::RowsOf(
    const std::vector<Contribution>& contributions) const {
  std::vector<Row> rows;
  for (const Contribution& c : contributions) {
    rows.push_back({c.data.data(), config_.job.wire, c.scale,
                    chain_.weighted() ? static_cast<double>(c.samples) : 1.0});
  }
  return rows;
}

// The lead's decision, or what the rule makes of whoever is in this chunk. When
// so many abstained that its limits fail, the chunk has no result.
std::shared_ptr<const rules::Plan> ServerNode::PlanFor(
    const Round::Reduce& work) const {
  if (work.plan != nullptr) return work.plan;
  rules::RoundFacts facts;
  for (const Contribution& c : work.rows)
    facts.workers.push_back(static_cast<int>(c.worker));
  facts.f = config_.job.byzantine;
  return std::make_shared<const rules::Plan>(rules::MakePlan(chain_, facts));
}

absl::StatusOr<ReduceReport> ServerNode::RunPlan(
    const Work& work, absl::Span<const Row> rows) const {
  const std::shared_ptr<const rules::Plan> plan = PlanFor(work.reduce);
  const RoundFacts& facts = work.reduce.facts;
  absl::StatusOr<ReduceReport> report =
      work.aggregate != nullptr
          ? ReduceByPlan(shard_, *plan, rows, work.kept.get(), work.elements,
                         work.previous, work.aggregate)
          : StepByPlan(shard_, *plan, rows, work.kept.get(), work.elements,
                       work.previous, config_.job.optimizer,
                       {facts.lr, facts.bias1, facts.bias2, 1}, work.target);
  // The lead accounts for a round that it decided to be bad.
  if (report.ok() && plan->bad && work.reduce.plan == nullptr) {
    report->bad_coordinates = work.elements;
    report->first_bad = 0;
  }
  return report;
}

absl::Status ServerNode::AddSquares(Work& work) const {
  std::vector<double> leaves((work.elements + map_.leaf_elements() - 1) /
                             map_.leaf_elements());
  PARAPET_RETURN_IF_ERROR(shard_.LeafSquares(
      work.aggregate, work.elements, map_.leaf_elements(), leaves.data()));
  for (double leaf : leaves) work.squares.Add(leaf);
  return absl::OkStatus();
}

void ServerNode::Run(Work& work) const {
  const absl::Time began =
      parts_.trace == nullptr ? absl::Time() : SteadyClock().Now();
  work.report = RunPlan(work, RowsOf(work.reduce.rows));
  work.kept.reset();
  if (work.report.ok() && work.aggregate != nullptr) {
    const absl::Status added = AddSquares(work);
    if (!added.ok()) work.report = added;
  }
  if (parts_.trace != nullptr) {
    parts_.trace->Span("reduce", map_.ChunkOf(config_.index, work.reduce.local),
                       1, began, SteadyClock().Now());
  }
}

// The round cannot be done, and the lead would wait for it for ever.
void ServerNode::DeviceFailed(const absl::Status& status) {
  if (std::exchange(device_failed_, true)) return;
  const std::string words =
      absl::StrCat(shard_.name(), ": ", std::string(status.message()));
  Log(true, words);
  TellLead(LeaveMessage{words});
}

Round::ReducedIn ServerNode::ReducedFrom(const Round::Reduce& work,
                                         int64_t local,
                                         const ReduceReport& report) const {
  Round::ReducedIn reduced{work.round, local, {}, report.bad_coordinates, -1};
  for (size_t i = 0; i < report.bad_values.size(); ++i) {
    if (report.bad_values[i] == 0) continue;
    reduced.bad.push_back(
        {work.rows[i].worker, static_cast<uint64_t>(report.bad_values[i])});
  }
  if (report.first_bad >= 0)
    reduced.first_bad = store_->RangeOf(local).begin + report.first_bad;
  return reduced;
}

ServerNode::Measured ServerNode::TakeMeasured(int64_t local) {
  auto measured = measured_.extract(local);
  return measured.empty() ? Measured() : std::move(measured.mapped());
}

void ServerNode::Apply(Round::Reduce& effect) {
  auto work = std::make_shared<Work>();
  work->reduce = std::move(effect);
  const int64_t local = work->reduce.local;
  work->elements = store_->RangeOf(local).size();
  work->previous = store_->PreviousOf(local);
  Measured measured = TakeMeasured(local);
  work->kept = std::move(measured.kept);
  UseCopies(measured.copies, &work->reduce.rows);
  if (work->reduce.step) {
    work->target = store_->TargetOf(local);
  } else {
    work->aggregate = store_->AggregateOf(local);
    if (work->aggregate == nullptr) {
      return DeviceFailed(
          absl::ResourceExhaustedError("no memory is left for an aggregate"));
    }
  }
  auto done = [this, work, local] {
    if (!work->report.ok()) return DeviceFailed(work->report.status());
    if (work->aggregate == nullptr) {
      store_->Advance(local, work->reduce.round + 1);
    } else {
      norms_[local] = work->squares;
    }
    Feed(ReducedFrom(work->reduce, local, *work->report));
  };
  parts_.reducer->Submit([this, work] { Run(*work); }, std::move(done));
}

void ServerNode::Apply(Round::Measure& effect) {
  struct Measuring {
    Round::Measure measure;
    absl::StatusOr<std::vector<LeafSums>> leaves;
    Measured measured;
  };
  auto work = std::make_shared<Measuring>();
  work->measure = std::move(effect);
  const int64_t local = work->measure.local;
  const int64_t elements = store_->RangeOf(local).size();
  const float* previous = store_->PreviousOf(local);
  auto run = [this, work, elements, previous] {
    work->measured.copies = CopyWhatMayChange(*copies_, &work->measure.rows);
    work->leaves =
        MeasureLeaves(shard_, RowsOf(work->measure.rows), previous, elements,
                      map_.leaf_elements(), &work->measured.kept);
  };
  std::vector<uint32_t> workers;
  for (const Contribution& c : work->measure.rows) workers.push_back(c.worker);
  // The first chunk has everybody who can be in another: nobody is let in
  // later, and who has pushed cannot abstain any more.
  if (!distances_) distances_.emplace(workers);
  auto done = [this, work, workers, local] {
    if (!work->leaves.ok()) return DeviceFailed(work->leaves.status());
    measured_[local] = std::move(work->measured);
    distances_->Add(workers, *work->leaves);
    Feed(Round::MeasuredIn{work->measure.round, local});
  };
  parts_.reducer->Submit(std::move(run), std::move(done));
}

void ServerNode::Apply(Round::Step& effect) {
  const Round::Step step = effect;
  if (!store_->HasAggregate(step.local)) {  // carried
    store_->Carry(step.local, step.round + 1);
    return Feed(Round::SteppedIn{step.round, step.local});
  }
  const StepTarget target = store_->TargetOf(step.local);
  const float* gradient = store_->AggregateOf(step.local);
  const int64_t elements = store_->RangeOf(step.local).size();
  auto status = std::make_shared<absl::Status>();
  parts_.reducer->Submit(
      [this, step, target, gradient, elements, status] {
        *status = shard_.Step(
            config_.job.optimizer,
            {step.facts.lr, step.facts.bias1, step.facts.bias2, step.scale},
            gradient, elements, target);
      },
      [this, step, status] {
        if (!status->ok()) return DeviceFailed(*status);
        store_->Advance(step.local, step.round + 1);
        Feed(Round::SteppedIn{step.round, step.local});
      });
}

void ServerNode::Apply(Round::Carry& effect) {
  TakeMeasured(effect.local);
  if (effect.step) store_->Carry(effect.local, effect.round + 1);
  Feed(Round::ReducedIn{effect.round, effect.local, {}, 0, -1});
}

// The rule may take seconds over many workers. What it needs is copied: the
// thread may outlive this node.
void ServerNode::Apply(Lead::MakePlan& effect) {
  struct Making {
    rules::Chain chain;
    int f = 0;
    uint64_t secret = 0;
    Lead::MakePlan facts;
    rules::Plan plan;
  };
  auto work = std::make_shared<Making>(Making{chain_,
                                              config_.job.byzantine,
                                              config_.rule_secret,
                                              std::move(effect),
                                              {}});
  Planner().Submit(
      [work] {
        const Lead::MakePlan& facts = work->facts;
        work->plan = rules::MakePlan(
            work->chain,
            {facts.workers, facts.finite, &facts.distances, work->f,
             rules::SecretShuffle(work->secret, facts.round)});
      },
      [this, work] {
        Feed(Lead::PlannedIn{work->facts.round, std::move(work->plan)});
      });
}

}  // namespace parapet
