#ifndef PARAPET_COMMON_PROCESS_SETUP_H_
#define PARAPET_COMMON_PROCESS_SETUP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace parapet {

// Settings that a long-running program makes once, first thing in main: memory
// of the size of chunks is kept by malloc instead of being mapped and unmapped
// each time, writing to a closed pipe is an error instead of a death, and as
// many files may be open as the system grants.
void SetUpProcess();

// The cores that this process may run on; none: the system does not say.
std::vector<int> CoresToUse();
// How many they are, or as many as there are; at least 1.
int UsableCores();

// A random 64-bit number from the system, never 0.
uint64_t SystemRandom();

// Calls `on_stop` once, from a thread of its own, at the first SIGINT or
// SIGTERM; a second one ends the process at once with 128 + the signal's
// number. Make it before any other thread, so that they all leave these signals
// to it.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  void OnStop(std::function<void(int signal)> on_stop);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace parapet

#endif  // PARAPET_COMMON_PROCESS_SETUP_H_
