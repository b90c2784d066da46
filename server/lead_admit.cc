// The lead: who is in the job.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/wire.h"
#include "server/decision.h"
#include "server/lead.h"

namespace parapet {
namespace {

// The first line in which two jobs' texts differ, in words; empty if they are
// equal.
std::string Difference(const std::string& theirs, const std::string& ours) {
  const std::vector<std::string> a = absl::StrSplit(theirs, '\n'),
                                 b = absl::StrSplit(ours, '\n');
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const std::string here = i < a.size() ? a[i] : "nothing",
                      there = i < b.size() ? b[i] : "nothing";
    if (here != there)
      return absl::StrCat("it has ", here, " and the lead has ", there);
  }
  return "";
}

int CountOf(Role role, const LeadConfig& config) {
  switch (role) {
    case Role::kWorker:
      return config.job.workers;
    case Role::kServer:
      return config.job.servers;
    case Role::kEvaluator:
      return config.evaluators;
  }
  return 0;
}

}  // namespace

std::optional<RefuseMessage> Lead::Objection(const HelloMessage& hello) const {
  const std::string who = NameOf(hello.peer);
  if (hello.protocol != kProtocolVersion) {
    return RefuseMessage{
        Code::kProtocol,
        absl::StrCat(who, " speaks protocol ", hello.protocol, ", this job ",
                     kProtocolVersion, ": use the same release everywhere")};
  }
  if (hello.peer.id >=
      static_cast<uint32_t>(CountOf(hello.peer.role, config_))) {
    return RefuseMessage{Code::kUnknownPeer,
                         absl::StrCat("this job has no ", who)};
  }
  const std::string difference = Difference(hello.job, config_.job.ToText());
  if (!difference.empty()) {
    return RefuseMessage{Code::kJobDiffers,
                         absl::StrCat(who, " has another job: ", difference)};
  }
  if (hello.layout_hash != config_.layout_hash) {
    return RefuseMessage{Code::kJobDiffers,
                         absl::StrCat(who, " has a model of another layout")};
  }
  const bool shared =
      hello.peer.role == Role::kWorker && config_.job.data_split == "shared";
  if (shared && hello.samples != config_.samples) {
    return RefuseMessage{
        Code::kJobDiffers,
        absl::StrCat(who, " has ", hello.samples,
                     " training samples, this job ", config_.samples)};
  }
  return std::nullopt;
}

std::optional<RefuseMessage> Lead::AlreadyHere(
    const HelloMessage& hello) const {
  const auto it = players_.find(hello.peer);
  // The lead is server 0, and never says hello to itself.
  const bool self = hello.peer == Peer{Role::kServer, 0};
  if (it == players_.end() || (!self && it->second.nonce == hello.nonce))
    return std::nullopt;
  const Player& other = it->second;
  const bool alive =
      self || (!other.gone && now_ < other.heard + config_.patience.dead_after);
  const bool began =
      stage_ != Stage::kGathering && hello.peer.role != Role::kEvaluator;
  if (!alive && !began) return std::nullopt;
  return RefuseMessage{
      Code::kAlreadyHere,
      absl::StrCat("there ", alive ? "is" : "was", " a ", NameOf(hello.peer),
                   " already",
                   alive ? ": give each process an id of its own"
                         : ", and one that left cannot come back")};
}

Lead::Player& Lead::Enter(const HelloMessage& hello) {
  Player& player = players_[hello.peer];
  player = Player();
  player.session = NewSession();
  player.nonce = hello.nonce;
  player.samples = hello.samples;
  player.fingerprint = hello.fingerprint;
  Note(absl::StrCat(NameOf(hello.peer), " is here (", hello.fingerprint, ")"));
  return player;
}

void Lead::Welcome(Via via, const Peer& peer, const Player& player) {
  effects_.push_back(
      Admit{via, peer, player.session, {config_.version, config_.resume_from}});
  if (peer.role == Role::kServer && !player.loaded) {
    effects_.push_back(
        Tell{peer, LoadMessage{config_.version, config_.resume_from}});
  }
  for (Body& body : Recap(peer.role))
    effects_.push_back(Tell{peer, std::move(body)});
}

void Lead::On(HelloIn& event) {
  const HelloMessage& hello = event.hello;
  std::optional<RefuseMessage> refusal = Objection(hello);
  if (!refusal) refusal = AlreadyHere(hello);
  if (refusal) {
    Warn(absl::StrCat("refused: ", refusal->words));
    effects_.push_back(Refuse{event.via, *std::move(refusal)});
    return;
  }
  const auto it = players_.find(hello.peer);
  const bool again = it != players_.end() && it->second.nonce == hello.nonce;
  if (again && it->second.gone) {
    effects_.push_back(
        Refuse{event.via, {Code::kWrongSession, it->second.why_gone}});
    return;
  }
  Player& player = again ? it->second : Enter(hello);
  player.heard = now_;
  Welcome(event.via, hello.peer, player);
  if (stage_ == Stage::kGathering && AllPresent()) Begin();
}

std::vector<Body> Lead::Recap(Role role) const {
  std::vector<Body> bodies;
  for (const Lease& lease : leases_) bodies.push_back(LeaseMessage{lease});
  if (role != Role::kServer) return bodies;
  for (const auto& [round, open] : rounds_) {
    if (open.close) bodies.push_back(CloseMessage{round, *open.close});
    if (open.plan) bodies.push_back(ToMessage(round, *open.plan));
    if (open.scale) bodies.push_back(ScaleMessage{round, *open.scale});
  }
  return bodies;
}

void Lead::On(LoadedIn& event) {
  if (!event.message.ok) {
    return End(Code::kFailed,
               absl::StrCat("server ", event.server,
                            " could not load: ", event.message.words));
  }
  Player& player =
      players_[{Role::kServer, static_cast<uint32_t>(event.server)}];
  player.loaded = true;
  player.heard = now_;
  if (stage_ == Stage::kGathering && AllPresent()) Begin();
}

bool Lead::AllPresent() const { return Missing().empty(); }

std::string Lead::Missing() const {
  std::vector<std::string> missing;
  for (Role role : {Role::kServer, Role::kWorker, Role::kEvaluator}) {
    for (int i = 0; i < CountOf(role, config_); ++i) {
      const Peer peer{role, static_cast<uint32_t>(i)};
      auto it = players_.find(peer);
      const bool here = it != players_.end() && !it->second.gone;
      if (!here) missing.push_back(NameOf(peer));
      if (here && role == Role::kServer && !it->second.loaded) {
        missing.push_back(absl::StrCat(NameOf(peer), " to load its shard"));
      }
    }
  }
  return absl::StrJoin(missing, ", ");
}

void Lead::Begin() {
  if (config_.job.data_split == "own") {
    for (const auto& [peer, player] : players_) {
      if (peer.role == Role::kWorker)
        samples_ = std::max(samples_, player.samples);
    }
    cursor_ = Cursor(std::max<uint64_t>(samples_, 1), config_.epoch,
                     config_.position);
  }
  if (samples_ == 0)
    return End(Code::kFailed, "no worker has a training sample");
  std::set<std::string> fingerprints;
  for (const auto& [peer, player] : players_) {
    if (peer.role == Role::kWorker) fingerprints.insert(player.fingerprint);
  }
  if (fingerprints.size() > 1) {
    Warn(
        absl::StrCat("workers compute differently, so the same seed may give "
                     "other bits elsewhere: ",
                     absl::StrJoin(fingerprints, "; ")));
  }
  Note(absl::StrCat("everybody is here: ", config_.job.servers, " servers, ",
                    config_.job.workers, " workers, ", config_.evaluators,
                    " evaluators; training from version ", version_));
  stage_ = Stage::kTraining;
  opened_ = last_round_at_ = now_;
  next_patience_ = now_ + config_.patience.patience;
  if (AtEnd()) return StopSoon(Code::kOk, "there is nothing left to train");
  IssueLeases();
}

std::vector<Member> Lead::MembersOf(Role role) const {
  std::vector<Member> members;
  for (const auto& [peer, player] : players_) {
    if (peer.role == role && !player.gone)
      members.push_back({peer.id, player.session});
  }
  return members;
}

void Lead::CheckAlive() {
  std::vector<std::pair<Peer, std::string>> lost;
  for (const auto& [peer, player] : players_) {
    if (player.gone || peer == Peer{Role::kServer, 0}) continue;
    if (now_ < player.heard + config_.patience.dead_after) continue;
    lost.push_back(
        {peer, absl::StrCat("not heard for ",
                            absl::FormatDuration(absl::Trunc(
                                now_ - player.heard, absl::Milliseconds(100))),
                            ", last in phase '", NameOf(player.last_ping.phase),
                            "' of round ", player.last_ping.round)});
  }
  for (const auto& [peer, why] : lost) Lose(peer, why);
}

void Lead::On(LeaveIn& event) {
  auto it = players_.find(event.peer);
  if (it == players_.end() || it->second.gone) return;
  Lose(event.peer, absl::StrCat("left: ", event.words));
}

void Lead::Lose(const Peer& peer, const std::string& why) {
  if (finished_) return;
  if (peer.role == Role::kServer)
    return End(Code::kLost, absl::StrCat(NameOf(peer), " is lost: ", why));
  Player& player = players_[peer];
  player.gone = true;
  player.why_gone = why;
  Warn(absl::StrCat(NameOf(peer), " is out of the job: ", why));
  if (peer.role == Role::kEvaluator) {
    evaluating_ = false;
    return;
  }
  if (stage_ == Stage::kGathering) return;
  CloseWithout(peer.id, why);
}

void Lead::SendAway(uint32_t worker, Code code, const std::string& words) {
  const Peer peer{Role::kWorker, worker};
  effects_.push_back(Tell{peer, ByeMessage{code, words}});
  Lose(peer, words);
}

}  // namespace parapet
