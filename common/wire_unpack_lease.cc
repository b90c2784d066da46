#include <cmath>
#include <utility>
#include <vector>

#include "common/wire_unpack.h"

namespace parapet::wire_internal {
namespace {

absl::StatusOr<std::vector<Member>> UnpackMembers(
    const flatbuffers::Vector<const fbs::MemberFact*>* facts,
    const WireLimits& limits) {
  std::vector<Member> members;
  if (facts == nullptr) return members;
  for (const fbs::MemberFact* fact : *facts) {
    if (fact->id() > limits.max_id || fact->session() == 0)
      return Bad("a lease with an impossible member");
    if (!members.empty() && fact->id() <= members.back().id)
      return Bad("a lease out of order");
    members.push_back({fact->id(), fact->session()});
  }
  return members;
}

absl::Status UnpackMarks(const fbs::LeaseBody& body, Lease* lease) {
  if (body.marks() == nullptr) return absl::OkStatus();
  for (const fbs::MarkFact* mark : *body.marks()) {
    if (mark->kind() > fbs::MarkKind::MAX)
      return Bad("a lease with an unknown mark");
    if (mark->version() < lease->from || mark->version() > lease->until)
      return Bad("a mark out of its lease");
    lease->marks.push_back(
        {static_cast<Mark::Kind>(mark->kind()), mark->version()});
  }
  return absl::OkStatus();
}

absl::Status UnpackFacts(const fbs::LeaseBody& body, Lease* lease) {
  const size_t count = body.facts() == nullptr ? 0 : body.facts()->size();
  if (count != lease->until - lease->from)
    return Bad("a lease without its rounds' facts");
  for (size_t i = 0; i < count; ++i) {
    const fbs::RoundFact* f =
        body.facts()->Get(static_cast<flatbuffers::uoffset_t>(i));
    if (!std::isfinite(f->lr()) || !(f->bias1() > 0) || !(f->bias2() > 0)) {
      return Bad("a lease with an impossible learning rate");
    }
    lease->facts.push_back({f->epoch(), f->position(), f->samples(), f->lr(),
                            f->bias1(), f->bias2()});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Body> Unpacker::LeaseNote() const {
  const size_t most =
      1024 + 16 * 2 * (size_t{limits.max_id} + 1) + limits.lease_rounds * 128;
  if (payload.size() > most) return Bad("a lease is too long");
  const AlignedCopy bytes(payload.data(), payload.size());
  const auto* body = VerifiedRoot<fbs::LeaseBody>(bytes, kMaxTables);
  if (body == nullptr) return Bad("a lease that is not one");
  PARAPET_RETURN_IF_ERROR(CheckPlaces(body->members(), body->evaluators(),
                                      body->facts(), body->marks()));
  Lease lease{body->term(), body->from(), body->until(), {}, {}, {}, {}};
  if (lease.from > lease.until ||
      lease.until - lease.from > limits.lease_rounds) {
    return Bad("a lease over too many rounds");
  }
  PARAPET_ASSIGN_OR_RETURN(lease.members,
                           UnpackMembers(body->members(), limits));
  PARAPET_ASSIGN_OR_RETURN(lease.evaluators,
                           UnpackMembers(body->evaluators(), limits));
  PARAPET_RETURN_IF_ERROR(UnpackFacts(*body, &lease));
  PARAPET_RETURN_IF_ERROR(UnpackMarks(*body, &lease));
  return LeaseMessage{std::move(lease)};
}

}  // namespace parapet::wire_internal
