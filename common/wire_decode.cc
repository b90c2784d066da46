#include <utility>

#include "absl/strings/str_cat.h"
#include "common/wire_unpack.h"

namespace parapet {
namespace wire_internal {

absl::StatusOr<Body> Unpacker::Unpack(const fbs::Header& header) const {
  // Messages whose second frame means something check it themselves.
  switch (header.body_type()) {
    case fbs::Body::Hello:
      return Hello(*header.body_as_Hello());
    case fbs::Body::LeaseNote:
      return LeaseNote();
    case fbs::Body::Push:
      return Push(*header.body_as_Push());
    case fbs::Body::Weights:
      return Weights(*header.body_as_Weights());
    case fbs::Body::NeedWeights:
      return NeedWeights(*header.body_as_NeedWeights());
    case fbs::Body::NeedGradients:
      return NeedGradients(*header.body_as_NeedGradients());
    case fbs::Body::Complete:
      return Complete(*header.body_as_Complete());
    case fbs::Body::Close:
      return Close(*header.body_as_Close());
    case fbs::Body::Norm:
      return Norm(*header.body_as_Norm());
    case fbs::Body::ShardDone:
      return ShardDone(*header.body_as_ShardDone());
    case fbs::Body::ShardReport:
      return ShardReport(*header.body_as_ShardReport());
    case fbs::Body::Decision:
      return Decision(*header.body_as_Decision());
    default:
      break;
  }
  PARAPET_RETURN_IF_ERROR(NoPayload());
  switch (header.body_type()) {
    case fbs::Body::Welcome:
      return Welcome(*header.body_as_Welcome());
    case fbs::Body::Refuse:
      return Refuse(*header.body_as_Refuse());
    case fbs::Body::Abstain:
      return AbstainMessage{header.body_as_Abstain()->round()};
    case fbs::Body::Ack:
      return Ack(*header.body_as_Ack());
    case fbs::Body::RoundDone:
      return RoundDone(*header.body_as_RoundDone());
    case fbs::Body::Ping:
      return Ping(*header.body_as_Ping());
    case fbs::Body::Pong:
      return PongMessage{header.body_as_Pong()->nonce(),
                         header.body_as_Pong()->version()};
    case fbs::Body::Leave:
      return Leave(*header.body_as_Leave());
    case fbs::Body::Bye:
      return Bye(*header.body_as_Bye());
    case fbs::Body::Stopping:
      return Stopping(*header.body_as_Stopping());
    case fbs::Body::Load:
      return Load(*header.body_as_Load());
    case fbs::Body::Loaded:
      return Loaded(*header.body_as_Loaded());
    case fbs::Body::Scale:
      return Scale(*header.body_as_Scale());
    case fbs::Body::VersionHash: {
      const auto* m = header.body_as_VersionHash();
      return VersionHashMessage{m->version(), m->master(), m->wire()};
    }
    case fbs::Body::SnapshotDone:
      return SnapshotDone(*header.body_as_SnapshotDone());
    case fbs::Body::EvalReport: {
      const auto* m = header.body_as_EvalReport();
      return EvalReportMessage{m->version(), m->loss_sum(), m->correct(),
                               m->samples(), m->seconds()};
    }
    default:
      return Bad("an unknown kind of message");
  }
}

}  // namespace wire_internal

using wire_internal::AlignedCopy;
using wire_internal::Bad;
using wire_internal::kMaxTables;
using wire_internal::Unpacker;
using wire_internal::VerifiedRoot;

absl::StatusOr<Message> Decode(absl::string_view header, const Payload& payload,
                               const WireLimits& limits) {
  if (header.size() < 8 || header.size() > limits.header) {
    return Bad(absl::StrCat("a header of ", header.size(), " bytes"));
  }
  const AlignedCopy bytes(header.data(), header.size());
  const auto* root = VerifiedRoot<fbs::Header>(bytes, kMaxTables);
  if (root == nullptr) return Bad("a header that is not a message");
  if (root->body() == nullptr) return Bad("a message without a body");
  PARAPET_ASSIGN_OR_RETURN(Body body,
                           (Unpacker{limits, payload}.Unpack(*root)));
  return Message{root->term(), root->session(), std::move(body)};
}

}  // namespace parapet
