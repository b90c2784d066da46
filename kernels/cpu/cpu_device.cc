#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/cpu/cast.h"
#include "kernels/cpu/distance_meter.h"
#include "kernels/cpu/leaf_squares.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/cpu/reducer.h"
#include "kernels/cpu/tile.h"
#include "kernels/cpu/worker_momentum.h"
#include "kernels/device.h"

namespace parapet {
namespace {

template <class T>
T* Offset(T* pointer, size_t elements) {
  return pointer == nullptr ? nullptr : pointer + elements;
}

// A step over [begin, begin + elements) of the target; `gradient` begins at
// `begin`.
void StepTile(const StepConstants& constants, const float* gradient,
              size_t begin, size_t elements, const StepTarget& target,
              bool stream) {
  float* out = target.out + begin;
  StepRange(constants, gradient, elements, target.in + begin, out,
            Offset(target.moment1, begin), Offset(target.moment2, begin),
            stream);
  if (target.publish == nullptr) return;
  const size_t offset =
      begin * static_cast<size_t>(SizeOf(target.publish_dtype));
  EncodeRange(out, elements, target.publish_dtype, 1,
              static_cast<uint8_t*>(target.publish) + offset);
}

// Calls visit(begin, size) for each tile of a range.
template <class Visit>
void ForEachTile(int64_t elements, const Visit& visit) {
  const auto end = static_cast<size_t>(std::max<int64_t>(elements, 0));
  for (size_t begin = 0; begin < end; begin += kTileElements) {
    visit(begin, std::min(kTileElements, end - begin));
  }
}

bool IsAligned(const float* to) {
  return reinterpret_cast<uintptr_t>(to) % 64 == 0;
}

// What the second-level cache cannot hold until its reader comes goes past it.
bool Streams(const float* to, int64_t elements) {
  constexpr int64_t kMost = 256 * 1024;
  return elements > kMost && IsAligned(to);
}

bool Streams(const StepTarget& target) {
  return target.streams && target.publish == nullptr &&
         target.out != target.in && IsAligned(target.out);
}

class CpuDevice : public Device {
 public:
  std::string name() const override {
    const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
    return absl::StrCat("cpu (", hwy::TargetName(targets & -targets),
                        ")");  // lowest bit: the best
  }

  ReduceReport Reduce(const ReduceSpec& spec, absl::Span<const Row> rows,
                      const float* previous, int64_t elements,
                      float* aggregate) const override {
    const auto reducer = MakeTileReducer(spec, rows, previous);
    const bool stream = Streams(aggregate, elements);
    ReduceReport report;
    ForEachTile(elements, [&](size_t begin, size_t size) {
      reducer->Tile(begin, size, stream, aggregate + begin, &report);
    });
    if (stream) hwy::FlushStream();
    return report;
  }

  void Step(const OptimizerConfig& optimizer, const StepFacts& facts,
            const float* gradient, int64_t elements,
            const StepTarget& target) const override {
    const StepConstants constants = MakeStepConstants(optimizer, facts);
    const bool stream = Streams(target);
    ForEachTile(elements, [&](size_t begin, size_t size) {
      StepTile(constants, gradient + begin, begin, size, target, stream);
    });
    if (stream) hwy::FlushStream();
  }

  ReduceReport ReduceStep(const ReduceSpec& spec, absl::Span<const Row> rows,
                          float* previous, int64_t elements,
                          const OptimizerConfig& optimizer,
                          const StepFacts& facts,
                          const StepTarget& target) const override {
    const auto reducer = MakeTileReducer(spec, rows, previous);
    const StepConstants constants = MakeStepConstants(optimizer, facts);
    const bool stream = Streams(target);
    ReduceReport report;
    HWY_ALIGN float aggregate[kTileElements];
    ForEachTile(elements, [&](size_t begin, size_t size) {
      reducer->Tile(begin, size, false, aggregate, &report);
      if (previous != nullptr) std::copy_n(aggregate, size, previous + begin);
      StepTile(constants, aggregate, begin, size, target, stream);
    });
    if (stream) hwy::FlushStream();
    return report;
  }

  void Distances(absl::Span<const Row> rows, const float* previous,
                 int64_t elements, int64_t leaf, double* sums,
                 uint8_t* finite) const override {
    DistanceMeter meter(rows, previous);
    for (int64_t begin = 0; begin < elements; begin += leaf) {
      meter.Measure(static_cast<size_t>(begin),
                    static_cast<size_t>(std::min(leaf, elements - begin)), sums,
                    finite);
      sums += PairCount(static_cast<int>(rows.size()));
      finite += rows.size();
    }
  }

  void LeafSquares(const float* values, int64_t elements, int64_t leaf,
                   double* sums) const override {
    for (int64_t begin = 0; begin < elements; begin += leaf) {
      const int64_t size = std::min(leaf, elements - begin);
      *sums++ = LeafSquare(values + begin, static_cast<size_t>(size));
    }
  }

  int64_t Encode(const float* values, int64_t elements, DType to, double scale,
                 void* out) const override {
    return EncodeRange(values, static_cast<size_t>(elements), to, scale, out);
  }

  void Decode(const void* in, DType from, double scale, int64_t elements,
              float* values) const override {
    DecodeRange(in, from, scale, static_cast<size_t>(elements), values);
  }

  void WorkerMomentum(double beta, const float* gradient, int64_t elements,
                      float* momentum) const override {
    WorkerMomentumRange(beta, gradient, static_cast<size_t>(elements),
                        momentum);
  }
};

}  // namespace

std::unique_ptr<Device> MakeCpuDevice() {
  return std::make_unique<CpuDevice>();
}

}  // namespace parapet
