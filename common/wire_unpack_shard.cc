#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "common/wire_unpack.h"

namespace parapet::wire_internal {
namespace {

// Codes of which a worker can be struck, one after the other.
absl::Status UnpackStrikes(const fbs::ShardBody& body, const WireLimits& limits,
                           ShardDoneMessage* done) {
  if (body.strikes() == nullptr) return absl::OkStatus();
  for (const fbs::StrikeFact* s : *body.strikes()) {
    const auto code = static_cast<Code>(s->code());
    if (s->worker() > limits.max_id || s->count() == 0 || code == Code::kOk ||
        code > Code::kStopped)
      return Bad("an impossible strike");
    if (!done->strikes.empty()) {
      const ShardDoneMessage::Strike& last = done->strikes.back();
      if (std::pair(s->worker(), code) <= std::pair(last.worker, last.code))
        return Bad("strikes out of order");
    }
    done->strikes.push_back({s->worker(), code, s->count()});
  }
  return absl::OkStatus();
}

// (n + 2) (n + 1) / 2.
size_t Pairs(size_t n) { return (n + 2) * (n + 1) / 2; }

}  // namespace

absl::StatusOr<Body> Unpacker::ShardDone(const fbs::ShardDone& m) const {
  const size_t most = 1024 + 256 * (size_t{limits.max_id} + 1);
  if (payload.size() > most) return Bad("a shard's report is too long");
  const AlignedCopy bytes(payload.data(), payload.size());
  const auto* body = VerifiedRoot<fbs::ShardBody>(bytes, kMaxTables);
  if (body == nullptr) return Bad("a shard's report that is not one");
  PARAPET_RETURN_IF_ERROR(
      CheckPlaces(body->exceptions(), body->bad(), body->strikes()));
  ShardDoneMessage done;
  done.round = m.round();
  if (body->participants() != nullptr) {
    done.participants.assign(body->participants()->begin(),
                             body->participants()->end());
  }
  for (uint32_t id : done.participants) {
    if (id > limits.max_id) return Bad("an impossible participant");
  }
  if (body->exceptions() != nullptr) {
    for (const fbs::ExceptionFact* e : *body->exceptions()) {
      if (e->worker() > limits.max_id) return Bad("an impossible exception");
      done.exceptions.push_back({e->worker(), e->first_turn(), e->last_turn()});
    }
  }
  if (body->bad() != nullptr) {
    for (const fbs::BadFact* b : *body->bad()) {
      if (b->worker() > limits.max_id) return Bad("an impossible worker");
      done.bad.push_back({b->worker(), b->values()});
    }
  }
  PARAPET_RETURN_IF_ERROR(UnpackStrikes(*body, limits, &done));
  done.bad_coordinates = body->bad_coordinates();
  done.first_bad = body->first_bad();
  done.carried = body->carried();
  done.bytes_pushed = body->bytes_pushed();
  done.bytes_published = body->bytes_published();
  return done;
}

absl::StatusOr<std::vector<uint32_t>> Unpacker::Compared(
    const flatbuffers::Vector<uint32_t>* ids) const {
  std::vector<uint32_t> workers;
  if (ids == nullptr) return workers;
  if (ids->size() > limits.max_compared) return Bad("too many workers");
  for (uint32_t id : *ids) {
    if (id > limits.max_id || (!workers.empty() && id <= workers.back()))
      return Bad("workers that are impossible or out of order");
    workers.push_back(id);
  }
  return workers;
}

absl::StatusOr<Body> Unpacker::ShardReport(const fbs::ShardReport& m) const {
  // What sums of squares of float32 take, and more.
  constexpr size_t kCompactBytes = 100;
  const size_t most = 1024 + 8 * size_t{limits.max_compared} +
                      kCompactBytes * Pairs(limits.max_compared);
  if (payload.size() > most) return Bad("a report of distances is too long");
  const AlignedCopy bytes(payload.data(), payload.size());
  const auto* body = VerifiedRoot<fbs::ShardReportBody>(bytes, kMaxTables);
  if (body == nullptr) return Bad("a report of distances that is not one");
  ShardReportMessage report;
  report.round = m.round();
  PARAPET_ASSIGN_OR_RETURN(report.workers, Compared(body->workers()));
  const size_t n = report.workers.size();
  if ((body->finite() == nullptr ? 0 : body->finite()->size()) != n)
    return Bad("a report of distances without a flag for each worker");
  for (size_t i = 0; i < n; ++i) {
    const uint8_t flag =
        body->finite()->Get(static_cast<flatbuffers::uoffset_t>(i));
    if (flag > 1) return Bad("a flag that is none");
    report.finite.push_back(flag == 1);
  }
  absl::Span<const std::byte> rest;
  if (body->sums() != nullptr) {
    rest = {reinterpret_cast<const std::byte*>(body->sums()->data()),
            body->sums()->size()};
  }
  // Each takes two bytes at least: what is short is refused before memory is
  // taken for it.
  if (rest.size() < 2 * Pairs(n)) return Bad("too few distances");
  auto sums = std::make_shared<std::vector<ExactSum>>();
  sums->reserve(Pairs(n));
  for (size_t pair = 0; pair < Pairs(n); ++pair) {
    PARAPET_ASSIGN_OR_RETURN(const ExactSum sum, ExactSum::ReadCompact(&rest));
    sums->push_back(sum);
  }
  if (!rest.empty()) return Bad("too many distances");
  report.sums = std::move(sums);
  return report;
}

absl::StatusOr<Body> Unpacker::Decision(const fbs::Decision& m) const {
  const size_t n = limits.max_compared;
  if (payload.size() > 1024 + 4 * n + 8 * n * (n + 2))
    return Bad("a decision is too long");
  const AlignedCopy bytes(payload.data(), payload.size());
  const auto* body = VerifiedRoot<fbs::DecisionBody>(bytes, kMaxTables);
  if (body == nullptr) return Bad("a decision that is not one");
  PARAPET_RETURN_IF_ERROR(CheckPlaces(body->weights()));
  DecisionMessage decision;
  decision.round = m.round();
  PARAPET_ASSIGN_OR_RETURN(decision.workers, Compared(body->workers()));
  decision.bad = body->bad();
  decision.rows = body->rows();
  const size_t weights =
      body->weights() == nullptr ? 0 : body->weights()->size();
  if (decision.rows > limits.max_compared ||
      weights != decision.rows * (decision.workers.size() + 2))
    return Bad("a decision with other weights than its rows have");
  for (size_t i = 0; i < weights; ++i) {
    const double weight =
        body->weights()->Get(static_cast<flatbuffers::uoffset_t>(i));
    if (!std::isfinite(weight)) return Bad("a weight that is not a number");
    decision.weights.push_back(weight);
  }
  if (!std::isfinite(body->scale()))
    return Bad("a decision's scale is not a number");
  decision.op = body->op();
  decision.f = body->f();
  decision.scale = body->scale();
  return decision;
}

}  // namespace parapet::wire_internal
