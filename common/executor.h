#ifndef PARAPET_COMMON_EXECUTOR_H_
#define PARAPET_COMMON_EXECUTOR_H_

#include <functional>
#include <memory>

namespace parapet {

// Runs pieces of work somewhere and reports back on the owner's thread.
class Executor {
 public:
  virtual ~Executor() = default;
  // Runs `work` on some thread, soon; then `done` on the owner's thread, from
  // within RunDone. Called on the owner's thread only. Pieces may run at once
  // and end in any order.
  virtual void Submit(std::function<void()> work,
                      std::function<void()> done) = 0;
  // Calls the `done` of whatever has ended. Returns how many it called.
  virtual int RunDone() = 0;
  // Drops what has not begun, waits for what has, and calls no `done` of
  // either: for an owner that ends, and whose memory the work uses. On its
  // thread.
  virtual void Abandon() = 0;
};

// Does the work at once, on the owner's thread, and its `done` in the next
// RunDone.
std::unique_ptr<Executor> MakeInlineExecutor();

// `threads` >= 1 threads. `wake` is called from them whenever something has
// ended, to make the owner call RunDone. The destructor abandons what is left.
std::unique_ptr<Executor> MakePoolExecutor(int threads,
                                           std::function<void()> wake);

// One of the two: without threads, inline.
std::unique_ptr<Executor> MakeExecutor(int threads, std::function<void()> wake);

}  // namespace parapet

#endif  // PARAPET_COMMON_EXECUTOR_H_
