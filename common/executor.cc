#include "common/executor.h"

#include <deque>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "common/mutex.h"

namespace parapet {
namespace {

class InlineExecutor final : public Executor {
 public:
  void Submit(std::function<void()> work, std::function<void()> done) override {
    work();
    done_.push_back(std::move(done));
  }

  int RunDone() override {
    std::vector<std::function<void()>> ended = std::exchange(done_, {});
    for (auto& done : ended) done();
    return static_cast<int>(ended.size());
  }

  void Abandon() override { done_.clear(); }

 private:
  std::vector<std::function<void()>> done_;
};

class PoolExecutor final : public Executor {
 public:
  PoolExecutor(int threads, std::function<void()> wake)
      : wake_(std::move(wake)) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
  }

  ~PoolExecutor() override {
    Abandon();
    {
      MutexLock lock(&mutex_);
      stopping_ = true;
      news_.SignalAll();
    }
    for (std::thread& thread : threads_) thread.join();
  }

  void Submit(std::function<void()> work, std::function<void()> done) override {
    MutexLock lock(&mutex_);
    queue_.push_back({std::move(work), std::move(done)});
    news_.Signal();
  }

  int RunDone() override {
    std::vector<std::function<void()>> ended;
    {
      MutexLock lock(&mutex_);
      ended.swap(done_);
    }
    for (auto& done : ended) done();
    return static_cast<int>(ended.size());
  }

  void Abandon() override {
    std::deque<Task> dropped;
    {
      MutexLock lock(&mutex_);
      dropped.swap(queue_);
    }
    dropped.clear();
    std::vector<std::function<void()>> ended;
    MutexLock lock(&mutex_);
    while (working_ > 0) idle_.Wait(&mutex_);
    ended.swap(done_);
  }

 private:
  struct Task {
    std::function<void()> work, done;
  };

  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !queue_.empty();
  }

  void Loop() {
    while (true) {
      Task task;
      {
        MutexLock lock(&mutex_);
        while (!HasWork()) news_.Wait(&mutex_);
        if (stopping_) return;
        task = std::move(queue_.front());
        queue_.pop_front();
        ++working_;
      }
      task.work();
      task.work = nullptr;  // what it holds is the owner's from here on
      {
        MutexLock lock(&mutex_);
        done_.push_back(std::move(task.done));
        if (--working_ == 0) idle_.SignalAll();
      }
      wake_();
    }
  }

  const std::function<void()> wake_;
  Mutex mutex_;
  CondVar news_, idle_;
  int working_ ABSL_GUARDED_BY(mutex_) = 0;  // threads that are at a piece
  std::deque<Task> queue_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> done_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<Executor> MakeInlineExecutor() {
  return std::make_unique<InlineExecutor>();
}

std::unique_ptr<Executor> MakePoolExecutor(int threads,
                                           std::function<void()> wake) {
  return std::make_unique<PoolExecutor>(threads, std::move(wake));
}

std::unique_ptr<Executor> MakeExecutor(int threads,
                                       std::function<void()> wake) {
  return threads > 0 ? MakePoolExecutor(threads, std::move(wake))
                     : MakeInlineExecutor();
}

}  // namespace parapet
