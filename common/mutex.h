#ifndef PARAPET_COMMON_MUTEX_H_
#define PARAPET_COMMON_MUTEX_H_

#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace parapet {

// The standard library's mutex with Abseil's annotations for clang's thread
// safety analysis. Not absl::Mutex: the thread sanitizer does not see what a
// mutex of a distribution's library orders, which is not built for it, and
// would call all that it guards a race.
class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex)
      : mutex_(mutex) {
    mutex_->Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

// Whoever waits holds the mutex before and after, and looks again at what it
// waits for: it may be woken without a reason.
class CondVar {
 public:
  void Wait(Mutex* mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  // False: the time is over.
  bool WaitFor(Mutex* mutex, absl::Duration time)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    const auto status =
        condition_.wait_for(lock, absl::ToChronoNanoseconds(time));
    lock.release();
    return status == std::cv_status::no_timeout;
  }
  // Wakes one of those who wait; all of them.
  void Signal() { condition_.notify_one(); }
  void SignalAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace parapet

#endif  // PARAPET_COMMON_MUTEX_H_
