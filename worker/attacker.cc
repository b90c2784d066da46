#include "worker/attacker.h"

#include <algorithm>
#include <utility>

#include "common/rng.h"
#include "common/status_macros.h"

namespace parapet {
namespace {

using Kind = AttackKind;

// A stream of its own, so that noise is not that of the sampler.
constexpr uint64_t kNoise = 0x6e6f697365;

void Negate(Range range, float* vector) {
  for (int64_t j = range.begin; j < range.end; ++j) vector[j] = -vector[j];
}

}  // namespace

Attacker::Attacker(const AttackPlan& plan, uint64_t seed,
                   const Contribution& contribution, GatherShare gather,
                   Client* client)
    : plan_(plan),
      seed_(seed),
      contribution_(contribution),
      gather_(gather),
      client_(client),
      honest_(contribution, plan.attack.needs_honest() ? plan.honest() : 0,
              std::move(gather)) {}

absl::Status Attacker::Prepare(Disk& disk, const std::string& folder) {
  return honest_.Prepare(disk, folder);
}

absl::Status Attacker::RunRound(const Client::Next& next, float* weights,
                                float* momentum) {
  float* vector = client_->BeginRound(next);
  if (plan_.attack.kind == Kind::kSilent) return absl::OkStatus();
  const Range all{0, contribution_.model->layout().elements()};
  PARAPET_RETURN_IF_ERROR(client_->Fetch(all, weights));
  client_->SetPhase(next.version, Phase::kForward);
  PARAPET_ASSIGN_OR_RETURN(
      const PassResult result,
      contribution_.Compute(weights, gather_(next.epoch, next.share), momentum,
                            vector));
  PARAPET_RETURN_IF_ERROR(Lie(next, weights, vector));
  client_->SetPhase(next.version, Phase::kPush);
  Send(next, vector);
  client_->EndRound(result.loss_sum, static_cast<uint64_t>(result.correct), {});
  client_->SetPhase(next.version + 1, Phase::kWait);
  return absl::OkStatus();
}

// Turns the vector of honest work into the attack's.
absl::Status Attacker::Lie(const Client::Next& next, const float* weights,
                           float* vector) {
  if (!plan_.attack.makes_vector()) return absl::OkStatus();
  if (plan_.attack.needs_honest()) {
    PARAPET_RETURN_IF_ERROR(honest_.Learn(next.epoch, next.position,
                                          next.samples, next.members, weights));
    if (honest_.vectors().empty()) return absl::OkStatus();  // alone: no model
  }
  AttackView view;
  view.honest = honest_.vectors();
  view.honest_ids = honest_.ids();
  view.own = vector;
  view.elements = contribution_.model->layout().elements();
  view.n = plan_.workers;
  view.f = plan_.attackers;
  view.key = MixKey(MixKey(seed_, kNoise), next.version);
  return MakeAttack(plan_.attack, view, vector);
}

void Attacker::Send(const Client::Next& next, float* vector) {
  const Range all{0, contribution_.model->layout().elements()};
  switch (plan_.attack.kind) {
    case Kind::kEquivocate:
      NegateOddServers(vector);
      client_->Push(all);
      return PushTwice(next.version, vector);
    case Kind::kPartial:
      return PushAllBut(0);
    case Kind::kReplay:
      Replay(next.version, vector);
      return client_->Push(all);
    case Kind::kFlood:
      client_->Push(all);
      return Flood(next.version, vector);
    default:
      return client_->Push(all);
  }
}

// The first vector, again and again: as this round's, and under the number of
// the round before.
void Attacker::Replay(uint64_t round, float* vector) {
  const int64_t elements = contribution_.model->layout().elements();
  if (old_.empty()) {
    old_.assign(vector, vector + elements);
    return;
  }
  std::copy(old_.begin(), old_.end(), vector);
  for (int64_t chunk = 0; chunk < client_->map().chunks(); ++chunk)
    client_->PushAsIs(round - 1, chunk, vector);
}

void Attacker::NegateOddServers(float* vector) const {
  const ShardMap& map = client_->map();
  for (int64_t chunk = 0; chunk < map.chunks(); ++chunk) {
    if (map.OwnerOf(chunk) % 2 == 1) Negate(map.ChunkRange(chunk), vector);
  }
}

void Attacker::PushTwice(uint64_t round, const float* vector) {
  const ShardMap& map = client_->map();
  std::vector<float> other(vector, vector + map.elements());
  Negate({0, map.elements()}, other.data());
  for (int64_t chunk = 0; chunk < map.chunks(); ++chunk)
    client_->PushAsIs(round, chunk, other.data());
}

void Attacker::PushAllBut(int server) {
  const ShardMap& map = client_->map();
  for (int64_t chunk = 0; chunk < map.chunks(); ++chunk) {
    if (map.OwnerOf(chunk) != server) client_->Push(map.ChunkRange(chunk));
  }
}

void Attacker::Flood(uint64_t round, const float* vector) {
  for (uint64_t ahead = 1; ahead <= kFloodRounds; ++ahead) {
    for (int64_t chunk = 0; chunk < client_->map().chunks(); ++chunk)
      client_->PushAsIs(round + ahead, chunk, vector);
  }
}

}  // namespace parapet
