#include "tools/team.h"

#include <pthread.h>
#include <sched.h>

#include "common/process_setup.h"

namespace parapet {
namespace {

// Left where it is if that fails: slower, not wrong.
void Bind(pthread_t thread, int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  pthread_setaffinity_np(thread, sizeof(set), &set);
}

}  // namespace

Team::Team(int threads) : begin_(threads), end_(threads) {
  const std::vector<int> cores = CoresToUse();
  for (int t = 1; t < threads; ++t) {
    others_.emplace_back([this, t] { Loop(t); });
    if (cores.size() >= static_cast<size_t>(threads))
      Bind(others_.back().native_handle(), cores[static_cast<size_t>(t)]);
  }
}

Team::~Team() {
  work_ = nullptr;
  begin_.arrive_and_wait();
  for (std::thread& other : others_) other.join();
}

void Team::Run(const std::function<void(int)>& work) {
  work_ = &work;
  begin_.arrive_and_wait();
  work(0);
  end_.arrive_and_wait();
}

void Team::Loop(int thread) {
  while (true) {
    begin_.arrive_and_wait();
    if (work_ == nullptr) return;
    (*work_)(thread);
    end_.arrive_and_wait();
  }
}

}  // namespace parapet
