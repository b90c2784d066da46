#include "tools/load_attacks.h"

#include <cassert>
#include <utility>

#include "common/rng.h"
#include "common/status_macros.h"

namespace parapet {
namespace {

constexpr uint64_t kNoise = 0x6e6f697365;
constexpr size_t kKeptRounds = 3;

// Whether the attack makes of each value what depends on it alone.
bool ByValue(AttackKind kind) {
  return kind == AttackKind::kSignFlip || kind == AttackKind::kScale ||
         kind == AttackKind::kZero || kind == AttackKind::kNan ||
         kind == AttackKind::kInf;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoadAttacks>> LoadAttacks::Create(
    const Config& config, const LoadValues& values, const ShardMap& map,
    const Device& device) {
  std::unique_ptr<LoadAttacks> attacks(
      new LoadAttacks(config, values, map, device));
  PARAPET_RETURN_IF_ERROR(attacks->Prepare());
  return attacks;
}

absl::Status LoadAttacks::Prepare() {
  const Attack& attack = config_.plan.attack;
  std::vector<float> changed(values_.table().begin(), values_.table().end());
  AttackView view;
  view.own = changed.data();
  view.elements = static_cast<int64_t>(changed.size());
  if (ByValue(attack.kind)) {
    PARAPET_RETURN_IF_ERROR(MakeAttack(attack, view, changed.data()));
    table_ = EncodeForWire(changed, config_.wire, config_.wire_scale, device_);
  } else if (attack.kind == AttackKind::kEquivocate) {
    for (float& value : changed) value = -value;
    opposite_ =
        EncodeForWire(changed, config_.wire, config_.wire_scale, device_);
  } else if (attack.makes_vector()) {
    // Whether it makes sense at all shows in one vector.
    std::vector<float> first(static_cast<size_t>(values_.elements()));
    return Make(0, absl::MakeSpan(first));
  }
  return absl::OkStatus();
}

absl::Status LoadAttacks::Make(uint64_t round, absl::Span<float> out) const {
  std::vector<const float*> honest;
  std::vector<int> ids;
  for (int worker = 0; worker < config_.plan.honest(); ++worker) {
    honest.push_back(values_.VectorOf(worker, round));
    ids.push_back(worker);
  }
  AttackView view;
  view.honest = honest;
  view.honest_ids = ids;
  view.own = values_.VectorOf(config_.plan.honest(), round);
  view.elements = values_.elements();
  view.n = config_.plan.workers;
  view.f = config_.plan.attackers;
  view.key = MixKey(MixKey(config_.seed, kNoise), round);
  return MakeAttack(config_.plan.attack, view, out.data());
}

std::shared_ptr<const std::byte> LoadAttacks::VectorOf(uint64_t round) {
  MutexLock lock(&mutex_);
  std::shared_ptr<const std::byte>& stored = vectors_[round];
  if (stored == nullptr) {
    std::vector<float> vector(static_cast<size_t>(values_.elements()));
    const absl::Status made = Make(round, absl::MakeSpan(vector));
    // Prepare has made one of the same workers.
    assert(made.ok());
    (void)made;
    stored = EncodeForWire(vector, config_.wire, config_.wire_scale, device_);
  }
  std::shared_ptr<const std::byte> found = stored;
  while (vectors_.size() > kKeptRounds) vectors_.erase(vectors_.begin());
  return found;
}

bool LoadAttacks::Pushes(int64_t chunk) const {
  const AttackKind kind = config_.plan.attack.kind;
  return kind != AttackKind::kSilent &&
         !(kind == AttackKind::kPartial && map_.OwnerOf(chunk) == 0);
}

// equivocate: other gradients to other servers.
bool LoadAttacks::Negates(int64_t chunk) const {
  return opposite_ != nullptr && map_.OwnerOf(chunk) % 2 == 1;
}

Payload LoadAttacks::Window(const std::shared_ptr<const std::byte>& stored,
                            int64_t begin, int64_t chunk) const {
  const Range range = map_.ChunkRange(chunk);
  const auto size = static_cast<int64_t>(SizeOf(config_.wire));
  return Payload(stored, stored.get() + (begin + range.begin) * size,
                 static_cast<size_t>(range.size() * size));
}

Payload LoadAttacks::Push(int worker, uint64_t round, int64_t chunk) {
  const AttackKind kind = config_.plan.attack.kind;
  const int64_t place = values_.PlaceOf(worker, round);
  if (table_ != nullptr) return Window(table_, place, chunk);
  if (config_.plan.attack.makes_vector())
    return Window(VectorOf(round), 0, chunk);
  if (Negates(chunk)) return Window(opposite_, place, chunk);
  // label_flip: as somebody's who is not in the job. replay: the first
  // gradient, again and again.
  if (kind == AttackKind::kLabelFlip) worker += config_.plan.workers;
  if (kind == AttackKind::kReplay) round = 0;
  return values_.Push(worker, round, map_.ChunkRange(chunk));
}

Payload LoadAttacks::Opposite(int worker, uint64_t round, int64_t chunk) const {
  if (Negates(chunk))
    return values_.Push(worker, round, map_.ChunkRange(chunk));
  return Window(opposite_, values_.PlaceOf(worker, round), chunk);
}

std::vector<absl::Span<const std::byte>> LoadAttacks::stored() const {
  std::vector<absl::Span<const std::byte>> all;
  for (const auto& table : {table_, opposite_}) {
    if (table != nullptr)
      all.emplace_back(table.get(), values_.stored().size());
  }
  return all;
}

}  // namespace parapet
