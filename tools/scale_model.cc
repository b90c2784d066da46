#include "tools/scale_model.h"

#include <algorithm>
#include <queue>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/layout.h"
#include "common/status_macros.h"

namespace parapet {
namespace {

// Something that does one thing after the other.
class Resource {
 public:
  // When work that is there at `ready` and takes `seconds` is done.
  double Serve(double ready, double seconds) {
    free_ = std::max(free_, ready) + seconds;
    return free_;
  }

 private:
  double free_ = 0;
};

class Simulation {
 public:
  Simulation(const PlanJob& job, const PlanHosts& hosts, const ShardMap& map)
      : job_(job),
        hosts_(hosts),
        map_(map),
        passes_(PassesOf(job)),
        exchange_(job.distances || job.clip_norm),
        whole_(map.chunks()) {}

  double Run() {
    for (int s = 0; s < job_.servers; ++s) Gather(s);
    if (exchange_) Decide();
    arrivals_.resize(job_.workers);
    for (auto& arrivals : arrivals_) arrivals.reserve(map_.chunks());
    for (int s = 0; s < job_.servers; ++s) Publish(s);
    double last = 0;
    for (int w = 0; w < job_.workers; ++w) last = std::max(last, Receive(w));
    return last;
  }

 private:
  // When a chunk is at a worker, and for how long it keeps the link.
  using Arrival = std::pair<double, double>;

  double Elements(int64_t chunk) const {
    return static_cast<double>(map_.ChunkRange(chunk).size());
  }
  double Bytes(int64_t chunk) const {
    return Elements(chunk) * static_cast<double>(SizeOf(job_.wire));
  }

  // When a worker has put a chunk on the network: it sends the highest first.
  // All workers are alike.
  std::vector<double> Departures() const {
    std::vector<double> left(map_.chunks());
    Resource link;
    for (int64_t c = map_.chunks() - 1; c >= 0; --c)
      left[c] = link.Serve(0, Bytes(c) / hosts_.worker_link);
    return left;
  }

  // When each of a server's chunks has come from every worker and is measured.
  void Gather(int server) {
    if (departures_.empty()) departures_ = Departures();
    Resource link, memory;
    for (int64_t turn = 0; turn < map_.ChunksOf(server); ++turn) {
      const int64_t c = map_.ChunkOf(server, map_.LocalAtTurn(server, turn));
      const double seconds = Bytes(c) / hosts_.server_link;
      double whole = 0;
      for (int w = 0; w < job_.workers; ++w)
        whole = link.Serve(departures_[c] + hosts_.latency, seconds);
      whole_[c] = exchange_
                      ? memory.Serve(whole, passes_.measure * Elements(c) /
                                                hosts_.memory_bandwidth)
                      : whole;
    }
  }

  // Every server reports to the lead, which answers all.
  void Decide() {
    const double last = *std::max_element(whole_.begin(), whole_.end());
    const double bytes =
        job_.distances ? ReportBytes(job_) : 568.0 * job_.servers;
    std::fill(whole_.begin(), whole_.end(),
              last + 2 * hosts_.latency + bytes / hosts_.server_link);
  }

  // Steps a server's chunks as they are whole and sends them to every worker in
  // order of their ids; of those that are stepped the lowest goes first.
  void Publish(int server) {
    std::vector<std::pair<double, int64_t>> stepped;  // when, chunk
    Resource memory;
    for (int64_t i = 0; i < map_.ChunksOf(server); ++i) {
      // After a decision all are there, and the lowest comes first.
      const int64_t local = exchange_ ? i : map_.LocalAtTurn(server, i);
      const int64_t c = map_.ChunkOf(server, local);
      stepped.emplace_back(memory.Serve(whole_[c], passes_.step * Elements(c) /
                                                       hosts_.memory_bandwidth),
                           c);
    }
    Resource link;
    double now = 0;
    std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> ready;
    for (size_t next = 0; next < stepped.size() || !ready.empty();) {
      if (ready.empty()) now = std::max(now, stepped[next].first);
      while (next < stepped.size() && stepped[next].first <= now)
        ready.push(stepped[next++].second);
      const int64_t c = ready.top();
      ready.pop();
      now = Send(c, now, &link);
    }
  }

  double Send(int64_t chunk, double now, Resource* link) {
    const double seconds = Bytes(chunk) / hosts_.server_link;
    double left = now;
    for (int w = 0; w < job_.workers; ++w) {
      left = link->Serve(now, seconds);
      arrivals_[w].emplace_back(left + hosts_.latency,
                                Bytes(chunk) / hosts_.worker_link);
    }
    return left;
  }

  // When a worker has taken in everything.
  double Receive(int worker) {
    std::vector<Arrival>& arrivals = arrivals_[worker];
    std::sort(arrivals.begin(), arrivals.end());
    Resource link;
    double done = 0;
    for (const auto& [at, seconds] : arrivals) done = link.Serve(at, seconds);
    return done;
  }

  const PlanJob& job_;
  const PlanHosts& hosts_;
  const ShardMap& map_;
  const MemoryPasses passes_;
  const bool exchange_;
  std::vector<double> departures_;
  std::vector<double> whole_;                   // of each chunk
  std::vector<std::vector<Arrival>> arrivals_;  // of each worker
};

}  // namespace

absl::StatusOr<double> SimulateRound(const PlanJob& job,
                                     const PlanHosts& hosts) {
  PARAPET_ASSIGN_OR_RETURN(
      const ShardMap map,
      ShardMap::Create(job.parameters, job.servers, job.chunk));
  const int64_t messages = map.chunks() * job.workers;
  if (messages > kMostScaleMessages) {
    return absl::InvalidArgumentError(absl::StrCat(
        map.chunks(), " chunks from ", job.workers, " workers are more than ",
        kMostScaleMessages, " messages: give a larger --chunk than ",
        map.chunk_elements()));
  }
  return Simulation(job, hosts, map).Run();
}

}  // namespace parapet
