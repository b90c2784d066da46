// The lead: what the rule makes of a round, and the account of it.

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/decision.h"
#include "server/lead.h"

namespace parapet {
namespace {

// Suspicion is an average over about so many rounds.
constexpr double kSuspicionRounds = 50;
// Nobody is shown as suspect less than this above the median of all workers: a
// rule that picks one vector, like krum, leaves out honest workers nearly
// always too.
constexpr double kAboveMedian = 0.25;

// Whether a number is worth a line: the first few, then ever fewer.
bool IsWorthALine(uint64_t count) {
  return count <= 3 || (count & (count - 1)) == 0;
}

// What each participant's weight lacks to an equal share of all that the
// participants have: some rules give a part to zero or the previous aggregate,
// for which nobody is to blame. 0 where nothing was weighed.
std::map<uint32_t, double> LackOfWeight(const RoundRecord& record) {
  const auto n = static_cast<double>(record.participants.size());
  const double all =
      std::accumulate(record.weights.begin(), record.weights.end(), 0.0);
  std::map<uint32_t, double> lack;
  for (size_t i = 0; i < record.participants.size(); ++i) {
    lack[record.participants[i]] =
        all > 0 ? std::clamp(1 - n * record.weights[i] / all, 0.0, 1.0) : 0;
  }
  return lack;
}

}  // namespace

// ---- Who is enough
// ------------------------------------------------------------------------------

// Why the rule cannot do with these workers; empty if it can.
std::string Lead::WhyTooFew(const IdSet& workers) const {
  if (workers.Empty()) return "no worker has contributed";
  const absl::Status limits = chain_.CheckLimits(
      static_cast<int>(workers.Count()), config_.job.byzantine, "round");
  if (!limits.ok()) return std::string(limits.message());
  for (const rules::Chain::Link& link : chain_.links()) {
    const int trusted = link.stage->trusted();
    if (trusted < 0 || workers.Contains(static_cast<uint32_t>(trusted)))
      continue;
    return absl::StrCat(link.text, " trusts worker ", trusted,
                        ", which is not there");
  }
  return "";
}

// ---- The decision
// -------------------------------------------------------------------------------

// A server is a peer too.
bool Lead::ReportMakesSense(const ReportIn& event,
                            const OpenRound& open) const {
  const ShardReportMessage& m = event.message;
  const IdSet members = IdsOf(open.members);
  const bool known =
      std::all_of(m.workers.begin(), m.workers.end(),
                  [&](uint32_t worker) { return members.Contains(worker); });
  const auto n = static_cast<int>(m.workers.size());
  return known && std::is_sorted(m.workers.begin(), m.workers.end()) &&
         m.finite.size() == m.workers.size() &&
         static_cast<int64_t>(m.sums->size()) == PairCount(n);
}

void Lead::On(ReportIn& event) {
  OpenRound* open = Find(event.message.round);
  if (open == nullptr || !chain_.needs_distances() || open->deciding) return;
  if (!ReportMakesSense(event, *open)) {
    return Warn(absl::StrCat("server ", event.server,
                             " reported distances of round ",
                             event.message.round, " that make no sense"));
  }
  const uint64_t round = event.message.round;
  open->reports[event.server] = std::move(event.message);
  TryDecide(round, *open);
}

// Who is whole on every shard and was not closed out since.
std::vector<uint32_t> Lead::Reported(const OpenRound& open) const {
  IdSet everywhere = open.close ? *open.close : IdsOf(open.members);
  for (const auto& [server, report] : open.reports) {
    IdSet here;
    for (uint32_t worker : report.workers) here.Insert(worker);
    everywhere.Intersect(here);
  }
  return everywhere.ToVector();
}

void Lead::TryDecide(uint64_t round, OpenRound& open) {
  for (int s = 0; s < config_.job.servers; ++s) {
    if (config_.shard_chunks[s] > 0 && !open.reports.contains(s)) return;
  }
  open.deciding = true;
  const std::vector<uint32_t> workers = Reported(open);
  if (workers.empty()) {  // nobody takes part: the weights stay
    rules::Plan nobody;
    nobody.mixes = true;
    nobody.mixing = rules::Mixing(0, 2);
    return Decide(round, open, std::move(nobody));
  }
  rules::PartialDistances sum(static_cast<int>(workers.size()));
  for (const auto& [server, report] : open.reports) {
    sum.Merge(rules::PartialDistances(*report.sums, report.finite)
                  .Keep(rules::PositionsOf(report.workers, workers)));
  }
  open.reports.clear();
  effects_.push_back(MakePlan{
      round, {workers.begin(), workers.end()}, sum.finite(), sum.Round()});
}

void Lead::On(PlannedIn& event) {
  OpenRound* open = Find(event.round);
  if (open == nullptr || !open->deciding || open->plan) return;
  // Also if its limits failed. Every member has had its say in this round: who
  // abstained, was proven faulty, or was closed out as the reports came sends
  // nothing more for it, so there is nothing to wait for and the round is bad.
  Decide(event.round, *open, std::move(event.plan));
}

void Lead::Decide(uint64_t round, OpenRound& open, rules::Plan plan) {
  open.plan = std::move(plan);
  effects_.push_back(TellServers{ToMessage(round, *open.plan)});
}

// ---- The account
// --------------------------------------------------------------------------------

void Lead::AddPlan(const OpenRound& open, RoundRecord* record, Faulty* faulty) {
  if (!open.plan) return;
  const rules::Plan& plan = *open.plan;
  record->why_bad = plan.why_bad;
  record->stages = plan.notes;
  for (const rules::LeftOut& left : plan.left_out) {
    const auto worker = static_cast<uint32_t>(left.worker);
    record->left_out.push_back({worker,
                                left.fault == rules::Fault::kNotFinite
                                    ? RoundRecord::Reason::kNotFinite
                                    : RoundRecord::Reason::kAbsurd,
                                left.why});
    std::erase(record->participants, worker);
    // More than f at once are not liars: then something is wrong with the
    // training itself.
    if (!plan.blames()) continue;
    last_left_out_.push_back(worker);
    ++summary_.left_out[worker];
    (*faulty)[worker] = left.why;
  }
  std::sort(record->left_out.begin(), record->left_out.end(),
            [](const auto& a, const auto& b) { return a.worker < b.worker; });
  if (plan.bad) return;
  const std::vector<double> weights = rules::WorkerWeights(plan);
  for (size_t i = 0; i < weights.size(); ++i) {
    const auto worker = static_cast<uint32_t>(plan.workers[i]);
    if (std::binary_search(record->participants.begin(),
                           record->participants.end(), worker))
      record->weights.push_back(weights[i]);
  }
}

// Members of whom there is nothing else to say.
void Lead::AddAbstained(const OpenRound& open, RoundRecord* record) const {
  IdSet known;
  for (uint32_t worker : record->participants) known.Insert(worker);
  for (const auto& left : record->left_out) known.Insert(left.worker);
  for (const Member& member : open.members) {
    if (!known.Contains(member.id)) record->abstained.push_back(member.id);
  }
}

void Lead::AddBadValues(const OpenRound& open, RoundRecord* record,
                        Faulty* faulty) {
  std::map<uint32_t, uint64_t> bad;
  for (const auto& [server, done] : open.done) {
    for (const auto& b : done.bad) bad[b.worker] += b.values;
  }
  for (const auto& [worker, values] : bad)
    record->bad_values.push_back({worker, values});
  // As in AddPlan; with f = 0 more than half.
  const auto f = static_cast<size_t>(config_.job.byzantine);
  const size_t most = f > 0 ? f : open.members.size() / 2;
  for (const auto& [worker, values] : bad) {
    if (bad.size() > most) break;
    faulty->emplace(worker, "sent values that are not finite");
  }
  if (record->bad_coordinates == 0) return;
  const int64_t first = FirstBad(open);
  record->why_bad = absl::StrCat(
      record->why_bad, record->why_bad.empty() ? "" : "; ", "no result at ",
      record->bad_coordinates, " coordinates, first at ",
      first >= 0 && config_.describe ? config_.describe(first) : "nowhere");
}

// What servers saw of the protocol broken, which no honest worker does.
void Lead::AddStrikes(const OpenRound& open, RoundRecord* record,
                      Faulty* faulty) const {
  std::map<std::pair<uint32_t, Code>, uint64_t> counts;
  for (const auto& [server, done] : open.done) {
    for (const auto& s : done.strikes) {
      if (s.worker < static_cast<uint32_t>(config_.job.workers))
        counts[{s.worker, s.code}] += s.count;
    }
  }
  Faulty words;
  for (const auto& [who, count] : counts) {
    const auto& [worker, code] = who;
    record->strikes.push_back({worker, code, count});
    std::string& why = words[worker];
    absl::StrAppend(&why, why.empty() ? "broke the rules: " : ", ",
                    NameOf(code));
  }
  faulty->merge(words);
}

// One a worker and round, whatever it did.
void Lead::StrikeFaulty(uint64_t round, const Faulty& faulty) {
  for (const auto& [worker, why] : faulty) {
    const uint64_t strikes = ++summary_.strikes[worker];
    if (!IsWorthALine(strikes)) continue;
    Warn(absl::StrCat("round ", round, ": worker ", worker, " ", why,
                      " (strike ", strikes, ")"));
  }
}

// How much each member was left out of this round goes into its moving rate:
// all of it if it was left out or proven faulty; under a rule on distances what
// its weight lacks to an equal share.
void Lead::Suspect(const OpenRound& open, const Faulty& faulty,
                   RoundRecord* record) {
  std::map<uint32_t, double> left_out = LackOfWeight(*record);
  const bool blames = !open.plan || open.plan->blames();
  for (const auto& left : record->left_out) {
    if (blames || left.reason == RoundRecord::Reason::kMissing)
      left_out[left.worker] = 1;
  }
  for (const auto& [worker, why] : faulty) left_out[worker] = 1;
  for (const Member& member : open.members) {
    Player& player = players_[{Role::kWorker, member.id}];
    if (const auto it = left_out.find(member.id); it != left_out.end())
      player.suspicion += (it->second - player.suspicion) / kSuspicionRounds;
    record->suspicion.push_back({member.id, player.suspicion});
    summary_.suspicion[member.id] = player.suspicion;
  }
}

// At most as many as may lie, and one at least.
std::vector<RoundRecord::Suspicion> Lead::Suspects() const {
  std::vector<RoundRecord::Suspicion> suspects;
  for (const auto& [peer, player] : players_) {
    if (peer.role == Role::kWorker)
      suspects.push_back({peer.id, player.suspicion});
  }
  if (suspects.empty()) return suspects;
  std::stable_sort(
      suspects.begin(), suspects.end(),
      [](const auto& a, const auto& b) { return a.rate > b.rate; });
  // Liars are fewer than half, so the (lower) median is an honest worker's.
  const double median = suspects[suspects.size() / 2].rate;
  const double least = std::max(kSuspect, median + kAboveMedian);
  std::erase_if(suspects, [&](const auto& s) { return s.rate < least; });
  const auto most = static_cast<size_t>(std::max(1, config_.job.byzantine));
  if (suspects.size() > most) suspects.resize(most);
  return suspects;
}

}  // namespace parapet
