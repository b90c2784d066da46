#include "tests/sim/fake_trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/checkpoint.h"
#include "common/hash.h"

namespace parapet::sim {
namespace {

// Uniform over [-1, 1), times a power of two down to 1/128: sums that are done
// in another order have other bits.
float GradientOf(uint64_t seed, uint32_t worker, uint64_t round,
                 int64_t element) {
  const auto at = static_cast<uint64_t>(element);
  const uint32_t bits = Philox(MixKey(seed, worker), round, at / 4)[at % 4];
  const float value = static_cast<float>(static_cast<int32_t>(bits)) * 0x1p-31f;
  return std::ldexp(value, -static_cast<int>(bits % 8));
}

}  // namespace

FakeTrainer::FakeTrainer(const Parts& parts, const Peer& self, uint64_t seed)
    : parts_(parts), self_(self), random_(seed) {
  chunks_.resize(parts_.map->chunks());
  if (parts_.scenario->job.worker_momentum > 0 && self.role == Role::kWorker) {
    momentum_.resize(parts_.map->elements());
  }
}

bool FakeTrainer::Is(Behaviour behaviour) const {
  const auto fault = parts_.scenario->faults.find(self_.id);
  return self_.role == Role::kWorker &&
         fault != parts_.scenario->faults.end() &&
         fault->second.behaviour == behaviour &&
         version_ >= fault->second.from_round;
}

void FakeTrainer::OnAdmitted(uint64_t version, const std::string& snapshot) {
  admitted_ = true;
  if (!momentum_.empty() && !snapshot.empty()) Restore(snapshot);
}

void FakeTrainer::OnLease(const Lease& lease) {
  leases_.push_back(lease);
  parts_.ledger->NoteLease(lease);
}

void FakeTrainer::OnVersion(uint64_t version) {
  version_ = version;
  chunks_.assign(parts_.map->chunks(), Payload());
  present_ = 0;
}

void FakeTrainer::OnChunk(uint64_t version, int64_t chunk, Payload data) {
  chunks_[chunk] = std::move(data);
  ++present_;
  if (!whole()) return;
  std::string bytes;
  for (const Payload& payload : chunks_) bytes += payload.ToString();
  parts_.ledger->NoteHeld(self_, version, std::move(bytes));
}

uint64_t FakeTrainer::HashOf(uint64_t) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < parts_.map->chunks(); ++i) {
    sum += HashLeaves(chunks_[i].bytes(), parts_.map->ChunkRange(i).begin,
                      SizeOf(parts_.scenario->job.wire),
                      parts_.map->leaf_elements());
  }
  return sum;
}

void FakeTrainer::OnFinish(Code code, const std::string& words) {
  finish_ = {code, words};
}

absl::Time FakeTrainer::NextTime() const {
  if (finish_ || crashed_ || !work_ || work_->next >= work_->pushes.size()) {
    return absl::InfiniteFuture();
  }
  return work_->pushes[work_->next].first;
}

void FakeTrainer::Act(absl::Time now) {
  if (work_) Push(now);
  if (!work_ && !finish_ && !crashed_) TryBegin(now);
}

// ---- What to do next --------------------------------------------------------

void FakeTrainer::TryBegin(absl::Time now) {
  if (!whole() || ended_ || (begun_ && version_ <= *begun_)) return;
  if (self_.role == Role::kEvaluator) return Evaluate(now);
  for (const Lease& lease : leases_) {
    const bool stop = lease.HasMark(Mark::Kind::kStop, version_);
    const bool inside = version_ >= lease.from && version_ < lease.until;
    if (!stop && !inside) continue;
    begun_ = version_;
    ended_ = stop;
    if (!momentum_.empty()) TakeSnapshot(now);
    if (!stop) BeginRound(lease, now);
    return;
  }
}

void FakeTrainer::Evaluate(absl::Time now) {
  begun_ = version_;
  core_->TellLead(EvalReportMessage{version_, 1.5, 3, 10, 0.1}, now);
}

Share FakeTrainer::ShareIn(const Lease& lease) const {
  const RoundFacts& facts = lease.facts[version_ - lease.from];
  const auto me = std::find_if(
      lease.members.begin(), lease.members.end(),
      [this](const Member& member) { return member.id == self_.id; });
  if (me == lease.members.end()) return {};
  if (!parts_.scenario->own_samples.empty()) {
    return OwnShareOf(facts.position,
                      static_cast<uint64_t>(parts_.scenario->job.batch),
                      parts_.scenario->own_samples[self_.id]);
  }
  return ShareOf(facts.position, facts.samples, lease.members.size(),
                 static_cast<uint64_t>(me - lease.members.begin()));
}

void FakeTrainer::BeginRound(const Lease& lease, absl::Time now) {
  if (Is(Behaviour::kSilent)) return;
  const Share share = ShareIn(lease);
  if (share.count == 0) {
    parts_.ledger->abstained.insert({self_.id, version_});
    return core_->Abstain(version_, now);
  }
  core_->SetPhase(version_, Phase::kForward, now);
  MakeGradient(share);
  Plan(share, now);
  Spoil();
}

// ---- A round ----------------------------------------------------------------

void FakeTrainer::MakeGradient(const Share& share) {
  const JobConfig& job = parts_.scenario->job;
  gradient_.resize(parts_.map->elements());
  for (int64_t i = 0; i < parts_.map->elements(); ++i) {
    gradient_[i] = GradientOf(job.seed, self_.id, version_, i);
  }
  if (Is(Behaviour::kHostile)) {
    // Pure as well: the run's own randomness must not change the bits.
    Random lies(MixKey(job.seed, self_.id), version_);
    for (int k = 0; k < 3; ++k) {
      gradient_[lies.Below(gradient_.size())] =
          k == 0 ? std::numeric_limits<float>::quiet_NaN()
                 : -std::numeric_limits<float>::infinity();
    }
  }
  if (Is(Behaviour::kLiar)) Lie();
  if (!momentum_.empty()) {
    parts_.device->WorkerMomentum(job.worker_momentum, gradient_.data(),
                                  parts_.map->elements(), momentum_.data());
    gradient_ = momentum_;
  }
  Ledger::Pushed& pushed = parts_.ledger->pushed[{self_.id, version_}];
  pushed.samples = static_cast<uint32_t>(share.count);
  for (int64_t chunk = 0; chunk < parts_.map->chunks(); ++chunk) {
    pushed.chunks.push_back(EncodeChunk(chunk));
  }
}

// As a pure function as well. The values stay finite in a momentum.
void FakeTrainer::Lie() {
  static constexpr float kFactors[] = {-10, 0, 1e30f,
                                       std::numeric_limits<float>::quiet_NaN()};
  Random lies(MixKey(parts_.scenario->job.seed, self_.id), version_);
  const auto choices = momentum_.empty() ? std::size(kFactors) : size_t{2};
  const float factor = kFactors[lies.Below(choices)];
  for (float& value : gradient_) value *= factor;
}

Payload FakeTrainer::EncodeChunk(int64_t chunk) const {
  const Range range = parts_.map->ChunkRange(chunk);
  const JobConfig& job = parts_.scenario->job;
  std::string bytes(range.size() * SizeOf(job.wire), '\0');
  const double scale = job.wire == DType::kFloat16 ? job.wire_scale : 1;
  parts_.device->Encode(gradient_.data() + range.begin, range.size(), job.wire,
                        scale, bytes.data());
  return Payload::FromString(std::move(bytes));
}

// From the layout's end, with a pair of neighbours swapped here and there.
void FakeTrainer::Plan(const Share& share, absl::Time now) {
  const Scenario& scenario = *parts_.scenario;
  const absl::Duration takes =
      scenario.shortest_work +
      (scenario.longest_work - scenario.shortest_work) * random_.Uniform();
  Work work{version_, share, {}, 0, ~size_t{0}};
  std::vector<double> parts;
  for (int64_t c = 0; c < parts_.map->chunks(); ++c) {
    parts.push_back(0.3 + 0.7 * random_.Uniform());
  }
  std::sort(parts.begin(), parts.end());
  for (int64_t c = parts_.map->chunks() - 1; c >= 0; --c) {
    const double part = parts[parts_.map->chunks() - 1 - c];
    work.pushes.push_back({now + takes * part, c});
  }
  for (size_t i = 1; i < work.pushes.size(); ++i) {
    if (random_.Below(4) > 0) continue;
    std::swap(work.pushes[i].second, work.pushes[i - 1].second);
  }
  work_ = std::move(work);
}

// What a fault makes of a plan.
void FakeTrainer::Spoil() {
  const size_t some = random_.Below(work_->pushes.size());
  if (Is(Behaviour::kCrash) || Is(Behaviour::kLeave)) work_->stop_before = some;
  if (!Is(Behaviour::kPartial)) return;
  if (random_.Below(2) == 0) {
    work_->pushes.resize(some);
    return;
  }
  const int left_out = parts_.map->OwnerOf(work_->pushes[some].second);
  std::erase_if(work_->pushes, [&](const auto& push) {
    return parts_.map->OwnerOf(push.second) == left_out;
  });
}

void FakeTrainer::Push(absl::Time now) {
  while (work_->next < work_->pushes.size()) {
    const auto [at, chunk] = work_->pushes[work_->next];
    if (at > now || finish_) return;
    if (work_->next == work_->stop_before) {
      crashed_ = Is(Behaviour::kCrash);
      if (crashed_) return;
      core_->TellLead(LeaveMessage{"has had enough"}, now);
      finish_ = {Code::kFailed, "left"};
      return;
    }
    ++work_->next;
    const Ledger::Pushed& pushed =
        parts_.ledger->pushed[{self_.id, work_->round}];
    core_->ChunkReady(work_->round, chunk, pushed.samples, pushed.chunks[chunk],
                      now);
  }
  EndRound(now);
}

void FakeTrainer::EndRound(absl::Time now) {
  RoundDoneMessage done;
  done.round = work_->round;
  done.loss_sum = 0.5 * static_cast<double>(work_->share.count);
  done.samples = work_->share.count;
  work_.reset();
  core_->TellLead(done, now);
  core_->SetPhase(done.round + 1, Phase::kWait, now);
}

// ---- State of its own -------------------------------------------------------

void FakeTrainer::Restore(const std::string& folder) {
  const auto snapshot = OpenSnapshot(*parts_.disk, folder);
  if (snapshot.ok() &&
      ReadSection(*parts_.disk, *snapshot, *parts_.layout,
                  WorkerFileName(self_.id), "momentum",
                  {0, parts_.map->elements()}, momentum_.data())
          .ok()) {
    return;
  }
  parts_.ledger->complaints.push_back("worker momentum is not in " + folder);
}

void FakeTrainer::TakeSnapshot(absl::Time now) {
  const auto marked = [this](const Lease& lease) {
    return lease.HasMark(Mark::Kind::kSnapshot, version_);
  };
  if (std::none_of(leases_.begin(), leases_.end(), marked)) return;
  const std::string folder =
      PartialPath(parts_.scenario->snapshot.dir, version_);
  SnapshotDoneMessage done;
  done.version = version_;
  absl::StatusOr<FileEntry> entry = WriteShardFile(
      *parts_.disk, folder, WorkerFileName(self_.id), *parts_.layout,
      {{"momentum", {{0, parts_.map->elements()}}, {momentum_.data()}}});
  done.ok = entry.ok();
  if (entry.ok()) done.file = *entry;
  done.words = std::string(entry.status().message());
  core_->TellLead(std::move(done), now);
}

}  // namespace parapet::sim
