#ifndef PARAPET_TESTS_SERVER_ROUND_FIXTURE_H_
#define PARAPET_TESTS_SERVER_ROUND_FIXTURE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/round.h"

namespace parapet {

using RoundEffects = std::vector<Round::Effect>;

// Those effects that are a T, in order.
template <typename T>
std::vector<T> Only(const RoundEffects& effects) {
  std::vector<T> only;
  for (const auto& effect : effects) {
    if (auto* e = std::get_if<T>(&effect)) only.push_back(*e);
  }
  return only;
}

template <typename T>
bool Has(const RoundEffects& effects) {
  return !Only<T>(effects).empty();
}

// The one T among them; a test failure, and an empty one, if there is not
// exactly one.
template <typename T>
T One(const RoundEffects& effects) {
  const std::vector<T> only = Only<T>(effects);
  EXPECT_EQ(only.size(), 1u);
  return only.size() == 1 ? only[0] : T();
}

inline std::vector<Member> MembersFor(const std::vector<uint32_t>& ids) {
  std::vector<Member> members;
  for (uint32_t id : ids) members.push_back({id, 100 + id});
  return members;
}

inline IdSet SetOf(const std::vector<uint32_t>& ids) {
  IdSet set;
  for (uint32_t id : ids) set.Insert(id);
  return set;
}

// Drives a Round: says what came in, and answers what it wants done.
class RoundTesting {
 public:
  using Marks = std::vector<Mark>;

  explicit RoundTesting(const RoundConfig& config)
      : config_(config), round_(config, now_) {}

  RoundEffects Do(Round::Event event) {
    return round_.Handle(std::move(event), now_);
  }

  RoundEffects Lease(uint64_t from, uint64_t until,
                     const std::vector<uint32_t>& workers, Marks marks = {},
                     const std::vector<uint32_t>& evaluators = {}) {
    struct Lease lease {
      1, from, until, MembersFor(workers), MembersFor(evaluators), {}, {}
    };
    for (uint64_t r = from; r < until; ++r) {
      lease.facts.push_back({0, r, 1, 0.5 + static_cast<double>(r), 1, 1});
    }
    lease.marks = std::move(marks);
    return Do(Round::LeaseIn{std::move(lease)});
  }

  RoundEffects Push(uint32_t worker, uint64_t round, int64_t local,
                    const std::string& bytes = "g", uint32_t samples = 1) {
    const Payload data = Payload::FromString(bytes);
    const Payload* held = round_.Held(worker, round, local);
    const bool same = held != nullptr && held->ToString() == bytes;
    return Do(
        Round::PushIn{worker, round, local, {worker, samples, 1, data}, same});
  }

  RoundEffects Abstain(uint32_t worker, uint64_t round) {
    return Do(Round::AbstainIn{worker, round});
  }
  RoundEffects Close(uint64_t round, const std::vector<uint32_t>& workers) {
    return Do(Round::CloseIn{round, SetOf(workers)});
  }
  // A plan that takes the mean of these workers' rows.
  RoundEffects Decide(uint64_t round, const std::vector<int>& workers) {
    auto plan = std::make_shared<rules::Plan>();
    plan->workers = workers;
    plan->mixes = true;
    return Do(Round::DecisionIn{round, std::move(plan)});
  }
  RoundEffects Need(const Peer& peer, uint64_t version,
                    std::vector<bool> locals) {
    return Do(Round::NeedIn{peer, version, std::move(locals), AllLocals(true)});
  }
  RoundEffects Tick(absl::Duration later) {
    now_ += later;
    return Do(Round::TickIn{});
  }

  // Everything that the effects lead to when work is done at once: the effects
  // themselves first.
  RoundEffects Settle(RoundEffects effects) {
    for (size_t i = 0; i < effects.size(); ++i) {
      std::optional<Round::Event> answer;
      if (auto* e = std::get_if<Round::Reduce>(&effects[i])) {
        answer = Round::ReducedIn{e->round, e->local, {}, 0, -1};
      } else if (auto* m = std::get_if<Round::Measure>(&effects[i])) {
        answer = Round::MeasuredIn{m->round, m->local};
      } else if (auto* c = std::get_if<Round::Carry>(&effects[i])) {
        answer = Round::ReducedIn{c->round, c->local, {}, 0, -1};
      } else if (auto* s = std::get_if<Round::Step>(&effects[i])) {
        answer = Round::SteppedIn{s->round, s->local};
      }
      if (!answer) continue;
      for (auto& effect : Do(*std::move(answer))) {
        effects.push_back(std::move(effect));
      }
    }
    return effects;
  }

  // A worker's whole contribution, in the order of turns.
  RoundEffects PushAll(uint32_t worker, uint64_t round) {
    RoundEffects all;
    for (int64_t local = config_.chunks - 1; local >= 0; --local) {
      for (auto& e : Settle(Push(worker, round, local))) {
        all.push_back(std::move(e));
      }
    }
    return all;
  }

  std::vector<bool> AllLocals(bool value) const {
    return std::vector<bool>(static_cast<size_t>(config_.chunks), value);
  }
  Round& round() { return round_; }
  absl::Time now() const { return now_; }

 private:
  const RoundConfig config_;
  absl::Time now_ = absl::UnixEpoch();
  Round round_;
};

inline RoundConfig Chunks(int64_t chunks) {
  RoundConfig config;
  config.chunks = chunks;
  config.max_samples = 8;
  return config;
}

inline Peer Worker(uint32_t id) { return {Role::kWorker, id}; }
inline Peer Evaluator(uint32_t id) { return {Role::kEvaluator, id}; }

}  // namespace parapet

#endif  // PARAPET_TESTS_SERVER_ROUND_FIXTURE_H_
