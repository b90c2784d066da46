#ifndef PARAPET_KERNELS_CPU_CAST_H_
#define PARAPET_KERNELS_CPU_CAST_H_

#include <cstddef>
#include <cstdint>

#include "common/dtype.h"

namespace parapet {

// Whether a multiplication by 1 / scale gives the same bits as a division by
// it, in float32 and float64: it is a power of two whose inverse is a normal
// float.
bool DividesExactly(double scale);

// Device::Encode and Device::Decode, for a range or a part of it.
// The product is rounded to float32 first, which changes nothing if `scale` is
// a power of two; for other scales products and quotients come from float64.
int64_t EncodeRange(const float* values, size_t elements, DType to,
                    double scale, void* out);
void DecodeRange(const void* in, DType from, double scale, size_t elements,
                 float* values);

}  // namespace parapet

#endif  // PARAPET_KERNELS_CPU_CAST_H_
