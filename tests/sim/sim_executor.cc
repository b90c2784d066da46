#include "tests/sim/sim_executor.h"

#include <utility>
#include <vector>

namespace parapet::sim {

void SimExecutor::Submit(std::function<void()> work,
                         std::function<void()> done) {
  const absl::Time at = now_() + longest_ * random_.Uniform();
  if (random_.Below(2) == 0) {
    work();
    work = nullptr;
  }
  pieces_.emplace(at, Piece{std::move(work), std::move(done)});
}

int SimExecutor::RunDone() {
  const auto end = pieces_.upper_bound(now_());
  std::vector<Piece> due;
  for (auto it = pieces_.begin(); it != end; ++it) {
    due.push_back(std::move(it->second));
  }
  pieces_.erase(pieces_.begin(), end);
  for (Piece& piece : due) {
    if (piece.work) piece.work();
    piece.done();
  }
  return static_cast<int>(due.size());
}

absl::Time SimExecutor::NextTime() const {
  return pieces_.empty() ? absl::InfiniteFuture() : pieces_.begin()->first;
}

}  // namespace parapet::sim
