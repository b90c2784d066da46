#ifndef PARAPET_TOOLS_TEAM_H_
#define PARAPET_TOOLS_TEAM_H_

#include <barrier>
#include <functional>
#include <thread>
#include <vector>

namespace parapet {

// Threads that do one thing at a time together, each on a core of its own while
// there are enough: threads that are started for each thing, and not bound,
// sometimes share a core. The one that calls is number 0.
class Team {
 public:
  explicit Team(int threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return static_cast<int>(others_.size()) + 1; }
  // Calls work(0), work(1), ..., each on its thread; returns when all are done.
  void Run(const std::function<void(int)>& work);

 private:
  void Loop(int thread);

  std::barrier<> begin_, end_;
  const std::function<void(int)>* work_ = nullptr;  // null: leave
  std::vector<std::thread> others_;
};

}  // namespace parapet

#endif  // PARAPET_TOOLS_TEAM_H_
