#include "common/process_setup.h"

#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <thread>
#include <utility>

#include "common/mutex.h"

namespace parapet {
namespace {

// Blocks up to this size stay with malloc, or each received message would be
// mapped, faulted in and unmapped again. glibc refuses more than this.
constexpr int kMmapThreshold = 32 << 20;
// Freed memory up to this much is not given back.
constexpr int kTrimThreshold = 512 << 20;
// Messages are made by one thread and freed by another; with an arena for each
// thread, the freed blocks are of no use to whoever needs the next one.
constexpr int kArenas = 1;

}  // namespace

void SetUpProcess() {
  mallopt(M_MMAP_THRESHOLD, kMmapThreshold);
  mallopt(M_TRIM_THRESHOLD, kTrimThreshold);
  mallopt(M_ARENA_MAX, kArenas);
  signal(SIGPIPE, SIG_IGN);
  // A server of hundreds of workers has some descriptors for each.
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

std::vector<int> CoresToUse() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

int UsableCores() {
  const auto cores = static_cast<unsigned>(CoresToUse().size());
  return static_cast<int>(
      std::max(1u, cores > 0 ? cores : std::thread::hardware_concurrency()));
}

uint64_t SystemRandom() {
  std::random_device device;
  const uint64_t value = uint64_t{device()} << 32 | device();
  return value == 0 ? 1 : value;
}

struct StopSignals::Impl {
  Mutex mutex;
  std::function<void(int)> on_stop ABSL_GUARDED_BY(mutex);
  int pending ABSL_GUARDED_BY(mutex) =
      0;  // a signal that came before there was an on_stop
  sigset_t set;
  std::thread thread;

  void Deliver(int signal) {
    MutexLock lock(&mutex);
    if (on_stop) {
      on_stop(signal);
    } else {
      pending = signal;
    }
  }

  // SIGUSR1, from the destructor, ends the thread.
  void Loop() {
    bool stopping = false;
    int signal = 0;
    while (sigwait(&set, &signal) == 0 && signal != SIGUSR1) {
      if (stopping) _exit(128 + signal);
      stopping = true;
      Deliver(signal);
    }
  }
};

StopSignals::StopSignals() : impl_(std::make_unique<Impl>()) {
  sigemptyset(&impl_->set);
  for (int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&impl_->set, signal);
  pthread_sigmask(SIG_BLOCK, &impl_->set, nullptr);
  impl_->thread = std::thread([impl = impl_.get()] { impl->Loop(); });
}

StopSignals::~StopSignals() {
  pthread_kill(impl_->thread.native_handle(), SIGUSR1);
  impl_->thread.join();
}

void StopSignals::OnStop(std::function<void(int)> on_stop) {
  MutexLock lock(&impl_->mutex);
  impl_->on_stop = std::move(on_stop);
  if (impl_->pending != 0 && impl_->on_stop)
    impl_->on_stop(std::exchange(impl_->pending, 0));
}

}  // namespace parapet
