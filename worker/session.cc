#include "worker/session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/wire.h"

namespace parapet {
namespace {

constexpr size_t kMaxUntold = 64;
// More than the lead has out at a time.
constexpr size_t kMaxLeases = 32;

}  // namespace

Session::Session(const SessionConfig& config, const ShardMap& map,
                 absl::Time now)
    : config_(config),
      map_(map),
      now_(now),
      next_tick_(now),
      next_ping_(now),
      next_patience_(now + config.patience.patience),
      began_(now),
      last_news_(now) {
  for (int s = 0; s < map_.servers(); ++s) {
    for (int k = 0; k <= config_.connections; ++k)
      links_[{s, static_cast<uint16_t>(k)}] = {};
  }
  received_.assign(map_.chunks(), false);
  missing_ = map_.chunks();
  first_unsent_.assign(map_.servers(), 0);
  credit_.assign(map_.servers(), 0);
}

std::vector<Session::Effect> Session::Handle(Event event, absl::Time now) {
  now_ = now;
  if (finished_) return {};
  std::visit([this](auto& e) { On(e); }, event);
  return std::exchange(effects_, {});
}

void Session::SendTo(const LinkKey& key, Body body) {
  effects_.push_back(Send{key, {term_, session_, std::move(body)}});
}

void Session::End(Code code, const std::string& words) {
  if (finished_) return;
  finished_ = true;
  effects_.push_back(Finish{code, words});
}

// ---- Messages
// -----------------------------------------------------------------------------------

void Session::On(MessageIn& event) {
  const LinkKey key = event.link;
  links_[key].heard = now_;
  Body& body = event.message.body;
  if (std::holds_alternative<WelcomeMessage>(body))
    return OnWelcome(key, event.message);
  if (auto* refuse = std::get_if<RefuseMessage>(&body))
    return OnRefuse(key, *refuse);
  if (event.message.term != term_ || event.message.session != session_)
    return;  // of another life
  if (auto* weights = std::get_if<WeightsMessage>(&body))
    return OnWeights(key.server, *weights);
  if (auto* need = std::get_if<NeedGradientsMessage>(&body))
    return OnNeedGradients(key, *need);
  if (auto* ack = std::get_if<AckMessage>(&body)) {
    credit_[key.server] = std::max(credit_[key.server], ack->credit);
    return Pump(key.server);
  }
  if (key.server != 0) return;  // what follows is the lead's to say
  if (auto* lease = std::get_if<LeaseMessage>(&body))
    return OnLease(lease->lease);
  if (auto* bye = std::get_if<ByeMessage>(&body)) return OnBye(*bye);
}

void Session::OnBye(const ByeMessage& bye) {
  // The job may have ended well while this worker was not part of it any more.
  const bool without = bye.code == Code::kOk && IsWorker() && !AtTheEnd();
  if (without)
    return End(Code::kLeftOut, "the job has ended without this worker");
  End(bye.code, bye.words);
}

// Whether this process has the job's last version whole.
bool Session::AtTheEnd() const {
  return missing_ == 0 &&
         std::any_of(leases_.begin(), leases_.end(),
                     [this](const Lease& lease) {
                       return lease.HasMark(Mark::Kind::kStop, version_);
                     });
}

bool Session::asks_lead() const {
  const auto control = links_.find(LinkKey{0, 0});
  return control != links_.end() && control->second.state == LinkState::kHello;
}

void Session::OnWelcome(const LinkKey& key, Message& message) {
  const auto& welcome = std::get<WelcomeMessage>(message.body);
  Link& link = links_[key];
  if (link.state != LinkState::kHello) return;
  link.state = LinkState::kWelcome;
  link.failures = 0;
  if (key == LinkKey{0, 0} && !admitted_) {
    admitted_ = true;
    term_ = message.term;
    session_ = message.session;
    last_news_ = now_;
    effects_.push_back(Admitted{welcome.version, welcome.snapshot});
    if (IsWorker()) BeginVersion(welcome.version);
    TickLinks();
  }
  if (key.link > 0) return AskForWeights(key);
  link.state = LinkState::kReady;
  if (key.server != 0) return;
  for (const Body& body : told_) SendTo(key, body);
  for (Body& body : std::exchange(untold_, {})) SendTo(key, std::move(body));
}

void Session::OnRefuse(const LinkKey& key, const RefuseMessage& refuse) {
  const bool joining = links_[key].state == LinkState::kHello;
  if (joining)
    return End(refuse.code,
               absl::StrCat("server ", key.server,
                            " refuses this process: ", refuse.words));
  effects_.push_back(
      Log{true, absl::StrCat("server ", key.server, " refuses: ", refuse.words,
                             " (", NameOf(refuse.code), ")")});
}

void Session::OnLease(Lease& lease) {
  for (const Lease& known : leases_) {
    if (known == lease) return;
  }
  last_news_ = now_;
  std::erase_if(leases_,
                [this](const Lease& old) { return old.until < version_; });
  leases_.push_back(lease);
  if (leases_.size() > kMaxLeases) leases_.erase(leases_.begin());
  effects_.push_back(NewLease{std::move(lease)});
  CheckMarks();
}

// Whether the version that has just become whole is one whose hash the lead
// wants.
void Session::CheckMarks() {
  if (missing_ > 0 || !IsWorker() || hashed_ == version_) return;
  for (const Lease& lease : leases_) {
    if (!lease.HasMark(Mark::Kind::kHash, version_)) continue;
    hashed_ = version_;
    effects_.push_back(HashVersion{version_});
    return;
  }
}

// ---- Receiving weights
// --------------------------------------------------------------------------

void Session::BeginVersion(uint64_t version) {
  version_ = version;
  received_.assign(map_.chunks(), false);
  missing_ = map_.chunks();
  effects_.push_back(NewVersion{version});
}

void Session::OnWeights(int server, WeightsMessage& weights) {
  const auto chunk = static_cast<int64_t>(weights.chunk);
  if (weights.chunk >= static_cast<uint64_t>(map_.chunks()) ||
      map_.OwnerOf(chunk) != server)
    return;
  const auto bytes =
      static_cast<size_t>(map_.ChunkRange(chunk).size() * SizeOf(config_.wire));
  if (weights.dtype != config_.wire || weights.data.size() != bytes) return;
  credit_[server] = std::max(credit_[server], weights.credit);
  if (weights.version > version_) {
    // Normally the version after the one that is whole. If not, this worker
    // fell behind and skips; then the other servers may have begun with another
    // version, so it says what it wants.
    const bool next = missing_ == 0 && weights.version == version_ + 1;
    const bool skipped = !next && IsWorker();
    BeginVersion(weights.version);
    if (skipped) {
      for (const auto& [key, link] : links_) {
        if (key.server != server && IsReady(key)) AskForWeights(key);
      }
    }
  }
  if (weights.version != version_ || received_[chunk]) {
    Pump(server);
    return;
  }
  received_[chunk] = true;
  --missing_;
  last_news_ = now_;
  effects_.push_back(NewChunk{version_, chunk, std::move(weights.data)});
  if (missing_ == 0) {
    CheckMarks();
    // An evaluator pushes nothing, so it says itself that it has the version.
    for (const auto& [key, link] : links_) {
      if (!IsWorker() && IsReady(key)) AskForWeights(key);
    }
  }
  Pump(server);
}

void Session::AskForWeights(const LinkKey& key) {
  if (key.link == 0) return;
  if (!IsWorker()) links_[key].state = LinkState::kReady;
  NeedWeightsMessage need{version_, {}};
  const bool nothing_yet = !IsWorker() && missing_ == map_.chunks();
  for (int64_t local = 0; local < map_.ChunksOf(key.server) && !nothing_yet;
       ++local) {
    const int64_t chunk = map_.ChunkOf(key.server, local);
    if (received_[chunk] || LinkOf(chunk) != key.link) continue;
    if (need.locals.empty()) need.locals.resize(map_.ChunksOf(key.server));
    need.locals[local] = true;
  }
  SendTo(key, std::move(need));
}

// ---- Pushing gradients
// --------------------------------------------------------------------------

void Session::BeginPushing(uint64_t round) {
  if (round_ == round) return;
  round_ = round;
  abstained_ = false;
  outgoing_.assign(map_.chunks(), Payload());
  ready_.assign(map_.chunks(), false);
  sent_.assign(map_.chunks(), false);
  first_unsent_.assign(map_.servers(), 0);
}

void Session::On(ChunkReadyIn& event) {
  BeginPushing(event.round);
  samples_ = event.samples;
  outgoing_[event.chunk] = std::move(event.data);
  ready_[event.chunk] = true;
  Pump(map_.OwnerOf(event.chunk));
}

void Session::On(AbstainIn& event) {
  BeginPushing(event.round);
  abstained_ = true;
  for (int s = 0; s < map_.servers(); ++s) SendAbstain(s);
}

void Session::On(PushAsIsIn& event) {
  const auto chunk = static_cast<int64_t>(event.push.chunk);
  const LinkKey key{map_.OwnerOf(chunk), LinkOf(chunk)};
  if (IsReady(key)) SendTo(key, std::move(event.push));
}

void Session::SendAbstain(int server) {
  if (map_.ChunksOf(server) > 0 && IsReady({server, 1}))
    SendTo({server, 1}, AbstainMessage{*round_});
}

// Sends what is due to one server: in the order of turns, within the credit.
void Session::Pump(int server) {
  if (!round_ || abstained_) return;
  const int64_t chunks = map_.ChunksOf(server);
  for (int64_t turn = first_unsent_[server]; turn < chunks; ++turn) {
    const int64_t chunk = map_.ChunkOf(server, map_.LocalAtTurn(server, turn));
    if (!sent_[chunk]) {
      const LinkKey key{server, LinkOf(chunk)};
      const bool allowed = *round_ * static_cast<uint64_t>(chunks) +
                               static_cast<uint64_t>(turn) <
                           credit_[server];
      if (!ready_[chunk] || !allowed || !IsReady(key)) return;
      sent_[chunk] = true;
      bytes_pushed_ += outgoing_[chunk].size();
      SendTo(key,
             PushMessage{*round_, static_cast<uint64_t>(chunk), samples_,
                         config_.wire, config_.wire_scale, outgoing_[chunk]});
    }
    first_unsent_[server] = turn + 1;
  }
}

void Session::OnNeedGradients(const LinkKey& key,
                              const NeedGradientsMessage& need) {
  if (key.link == 0) return;
  links_[key].state = LinkState::kReady;
  credit_[key.server] = std::max(credit_[key.server], need.credit);
  if (round_ && need.round == *round_) {
    const int64_t chunks = map_.ChunksOf(key.server);
    for (int64_t local = 0; local < chunks; ++local) {
      const int64_t chunk = map_.ChunkOf(key.server, local);
      if (LinkOf(chunk) != key.link) continue;
      sent_[chunk] = local >= static_cast<int64_t>(need.locals.size()) ||
                     !need.locals[local];
    }
    first_unsent_[key.server] = 0;
    const bool wanted = std::find(need.locals.begin(), need.locals.end(),
                                  true) != need.locals.end();
    // Link 1 may carry no chunk, but it is the one that abstentions go on: what
    // was lost with it is said again.
    if (abstained_ && (wanted || key.link == 1)) SendAbstain(key.server);
  }
  Pump(key.server);
}

// ---- Telling the lead
// ---------------------------------------------------------------------------

// What the lead waits for is told again after a reconnection: it may have been
// in flight when the link broke, and changes nothing where it arrived. A
// RoundDone is told once: the lead adds them up, and waits for none.
void Session::On(TellLeadIn& event) {
  const bool ready = IsReady({0, 0});
  if (std::holds_alternative<RoundDoneMessage>(event.body)) {
    if (ready) return SendTo({0, 0}, std::move(event.body));
    if (untold_.size() < kMaxUntold) untold_.push_back(std::move(event.body));
    return;
  }
  if (ready) SendTo({0, 0}, event.body);
  told_.push_back(std::move(event.body));
  if (told_.size() > kMaxUntold) told_.pop_front();
}

void Session::On(PhaseIn& event) {
  ping_.round = event.round;
  ping_.phase = event.phase;
}

}  // namespace parapet
