#ifndef PARAPET_TESTS_CONTRACT_BACKEND_H_
#define PARAPET_TESTS_CONTRACT_BACKEND_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/net/transport.h"

namespace parapet::net {

// What the contract suite has to know of a backend.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::unique_ptr<Transport> Make(const Limits& limits) = 0;
  virtual std::string ListenAddress() = 0;
  virtual std::string DeadAddress() = 0;  // nobody ever listens there
  virtual std::string BadAddress() = 0;   // can never work
  virtual void Advance() = 0;     // lets virtual time pass, where it is virtual
  virtual bool real() const = 0;  // threads and real time
};

struct BackendCase {
  std::string name;
  std::function<std::unique_ptr<Backend>()> make;
};
std::vector<BackendCase> AllBackends();

// A transport with a log of its events.
struct Peer {
  std::unique_ptr<Transport> transport;
  std::vector<Event> events;

  int Count(Event::Kind kind) const;
  int Messages() const { return Count(Event::Kind::kMessage); }
  int Downs() const { return Count(Event::Kind::kDown); }
  std::vector<std::string> Headers() const;
  const Event* Last(Event::Kind kind) const;
};

}  // namespace parapet::net

#endif  // PARAPET_TESTS_CONTRACT_BACKEND_H_
