#ifndef PARAPET_COMMON_NET_SIM_CORE_H_
#define PARAPET_COMMON_NET_SIM_CORE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/net/sim_host.h"
#include "common/net/sim_transport.h"
#include "common/net/transport.h"
#include "common/rng.h"

// The inside of SimNetwork: use sim_transport.h. Containers that are iterated
// are ordered, so that no choice depends on addresses or hashes.
namespace parapet::net {

struct SimMessage {
  std::string header;
  Payload payload;
  size_t bytes() const { return header.size() + payload.size(); }
};

// A process on the network.
struct SimNode {
  std::string name;
  int place = 0;  // number of the name
  Limits limits;
  std::string listening;  // empty: not
  std::deque<Event> inbox;
  absl::btree_set<uint64_t> links;  // in which it has an open end
  size_t accepted = 0;
  bool crashed = false;
};

// One end of a link: 0 connects, 1 accepts.
struct SimEnd {
  SimNode* node = nullptr;  // null: nobody holds this end (any more)
  int place = -1;
  std::deque<SimMessage> flight;  // sent by this end, under way
  size_t entering = 0;            // of these, on the receiver's own link
  size_t untaken = 0;  // sent by this end, not yet polled by the other
  absl::Time last = absl::InfinitePast();  // what was sent last is there, or
                                           // has reached the receiver's link
  bool known = false;  // its owner knows of the connection, and is owed a kDown
  bool told = false;   // a loss is on its way to it
};

struct SimLink {
  uint64_t number = 0;
  std::string address;
  SimEnd ends[2];
  bool arrived = false;  // at the listener
  bool up = false;       // the connecting end was told
  bool lost = false;     // nothing more enters it
  bool silent = false;   // lost, and the end that is left is never told
  std::string reason;
  struct Held {
    int kind;
    int end;
  };
  std::vector<Held> held;  // by a partition, in order
};

class SimCore {
 public:
  explicit SimCore(const SimOptions& options);

  // What nodes ask for.
  SimNode* AddNode(const std::string& name, const Limits& limits);
  void RemoveNode(SimNode* node);
  absl::StatusOr<std::string> Listen(SimNode* node, const std::string& address);
  absl::StatusOr<ConnectionId> Connect(SimNode* node,
                                       const std::string& address);
  absl::Status Send(SimNode* node, ConnectionId to, absl::string_view header,
                    Payload payload);
  void Close(SimNode* node, ConnectionId id);
  absl::Status Poll(SimNode* node, std::vector<Event>* events);
  void Wake(SimNode* node);

  absl::Time now() const { return now_; }
  absl::Time NextEventTime() const;
  bool Step();
  void RunUntil(absl::Time time);
  std::vector<std::string> ReadyNodes() const {
    return {ready_.begin(), ready_.end()};
  }

  void SetRates(const std::string& name, const SimRates& rates);
  int BreakConnections(const std::string& a, const std::string& b);
  bool BreakRandomConnection();
  void Partition(const std::string& a, const std::string& b, bool break_them);
  void Heal(const std::string& a, const std::string& b);
  void HealAll();
  void Crash(const std::string& name);

 private:
  // kForcedLoss and kTimeout are no messages: a partition does not hold them.
  // kEntered is what a slow link makes of a kDeliver.
  enum Kind {
    kArrive,
    kOpened,
    kDeliver,
    kEntered,
    kLoss,
    kForcedLoss,
    kTimeout
  };
  struct Scheduled {
    absl::Time at;
    uint64_t turn = 0;  // breaks ties: first scheduled, first done
    uint64_t link = 0;
    int kind = kArrive;
    int end = 0;  // at which it happens
    bool operator<(const Scheduled& other)
        const {  // std::push_heap keeps the largest in front
      return std::pair(at, turn) > std::pair(other.at, other.turn);
    }
  };
  using Places = std::pair<int, int>;

  int PlaceOf(const std::string& name);
  Places Between(const std::string& a, const std::string& b);
  bool IsCut(int a, int b) const;
  std::vector<SimLink*> LinksBetween(Places places);  // that are not lost
  absl::Duration Delay();
  bool Chance(double probability) { return random_.Uniform() < probability; }
  void Schedule(absl::Time at, const SimLink& link, int kind, int end);
  SimLink* Find(uint64_t number);
  SimEnd* FindEnd(SimNode* node, ConnectionId id, SimLink** link);

  void Apply(const Scheduled& event);
  bool Hold(SimLink* link, int kind, int end);
  void Arrive(SimLink* link);
  void GiveUp(SimLink* link);
  void Deliver(SimLink* link, int end);
  bool Enter(SimLink* link, int end);
  void TakeIn(SimLink* link, int end);
  void GiveMessage(SimLink* link, int end, SimMessage message);
  void Loss(SimLink* link, int end);
  bool StillEntering(const SimLink& link, int kind, int end);
  void Timeout(SimLink* link);
  void Refuse(SimLink* link, const std::string& reason);

  // Marks a link as lost and loses a part of what is under way; each end stays
  // until it learns.
  void Break(SimLink* link, const std::string& reason, bool forced);
  void KeepPart(SimLink* link, int sender, size_t kept);
  void KeepRandomPart(SimLink* link, int sender);
  void Tell(SimLink* link, int end, bool forced);
  void TellOrNot(SimLink* link, int end, bool forced);
  // One end goes for good: by Close, the end of its process or a crash.
  void Leave(SimLink* link, int end, const std::string& reason, bool silent);
  void Detach(SimLink* link, int end);
  absl::Status SendIntoLost(SimLink* link, int end, size_t limit);
  void ReleaseHeld();
  void Push(SimNode* node, Event event);
  void PushDown(SimNode* node, ConnectionId id, const std::string& reason);
  void DropEvents(SimNode* node, ConnectionId id);
  void EraseIfDead(SimLink* link);
  void EndNode(SimNode* node, bool crash);

  SimOptions options_;
  Random random_;
  absl::Time now_ = absl::UnixEpoch();
  uint64_t turn_ = 0, next_link_ = 1;
  std::vector<Scheduled> heap_;
  absl::btree_map<uint64_t, std::unique_ptr<SimLink>> links_;
  absl::btree_map<std::string, SimNode*> listeners_;
  absl::btree_map<std::string, SimNode*> names_;
  std::vector<std::unique_ptr<SimNode>> nodes_;
  absl::flat_hash_map<std::string, int> places_;
  std::vector<SimHost> hosts_;  // by place
  std::set<Places> cuts_;
  absl::btree_set<std::string> ready_;
};

}  // namespace parapet::net

#endif  // PARAPET_COMMON_NET_SIM_CORE_H_
