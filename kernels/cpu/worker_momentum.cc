#include "kernels/cpu/worker_momentum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/worker_momentum.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace parapet {
namespace HWY_NAMESPACE {
namespace {

void UpdateMomentum(float beta, float rest, const float* gradient, size_t n,
                    float* momentum) {
  ForEach(hn::ScalableTag<float>(), n, [=](auto d, size_t i) HWY_ATTR {
    const auto kept = hn::Mul(hn::Set(d, beta), hn::LoadU(d, momentum + i));
    const auto added = hn::Mul(hn::Set(d, rest), hn::LoadU(d, gradient + i));
    hn::StoreU(hn::Add(kept, added), d, momentum + i);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parapet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parapet {
namespace {

HWY_EXPORT(UpdateMomentum);

}  // namespace

void WorkerMomentumRange(double beta, const float* gradient, size_t elements,
                         float* momentum) {
  HWY_DYNAMIC_DISPATCH(UpdateMomentum)
  (static_cast<float>(beta), static_cast<float>(1 - beta), gradient, elements,
   momentum);
}

}  // namespace parapet
#endif  // HWY_ONCE
